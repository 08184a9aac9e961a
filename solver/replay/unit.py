"""One pass of a tile through a compute unit, step by step.

A step is one fold of a systolic array, one parallel step of a free array, or the whole tile of a
vector unit. All instances and lanes step together; lanes beyond the end of a rank idle. What is
counted is what crosses between the unit and the level it reads from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
import numpy.typing as npt

from exactile.formulation.cascade import Cascade
from exactile.formulation.einsum import Access, Einsum
from exactile.formulation.hardware import ComputeUnit, Hardware, SpatialDim
from exactile.formulation.mapping import UnitMapping
from exactile.formulation.units import point_cost
from exactile.solver.replay.errors import ReplayError

Counts = npt.NDArray[np.int64]

# The fold axes (rows, columns) of each dataflow; the third axis streams through the array.
FOLDS = {"weight_stationary": ("K", "N"), "output_stationary": ("M", "N"), "input_stationary": ("K", "M")}
OPERANDS = (("M", "K"), ("K", "N"), ("M", "N"))
STEPS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class UnitPass:
    """Values read per tensor, result values written, busy cycles; for one pass of a full tile."""

    reads: Mapping[str, int]
    writes: int
    cycles: Fraction


@dataclass(frozen=True)
class _Lanes:
    """How the ranks of a tile are spread: `steps[r]` local positions, `busy[r][i]` lanes that have one."""

    einsum: Einsum
    steps: Mapping[str, int]
    busy: Mapping[str, Counts]
    factors: Mapping[str, Mapping[str, int]]
    dims: Mapping[str, SpatialDim]

    def total(self, ranks: Sequence[str]) -> int:
        """Elements of all lanes."""
        return prod(int(self.busy[rank].sum()) for rank in ranks)

    def copies(self, access: Access) -> int:
        """How often one element crosses because a dimension cannot multicast it, or reduce it."""
        output = access.tensor == self.einsum.name
        copies = 1
        for rank, factors in self.factors.items():
            for name, factor in factors.items():
                dim = self.dims[name]
                if rank not in access.ranks and not (dim.reduce if output else dim.multicast):
                    copies *= factor
        return copies


def unit_pass(
    cascade: Cascade, hardware: Hardware, einsum: Einsum, mapping: UnitMapping, tile: Mapping[str, int]
) -> UnitPass:
    """Execute one pass of `einsum` over a full tile of sizes `tile`. Raises `ReplayError`."""
    unit = hardware.unit(mapping.unit)
    lanes = _spread(hardware, unit, einsum, mapping, tile)
    cycles_per_point = point_cost(hardware, einsum, unit).cycles
    if unit.kind == "systolic":
        counts, steps = _systolic(hardware, einsum, mapping, lanes)
    elif unit.kind == "free":
        counts, steps = _free(unit, einsum, mapping, lanes)
    else:
        counts = {access.tensor: lanes.total(access.ranks) for access in (*einsum.inputs, einsum.output)}
        steps = -(-prod(lanes.steps.values()) // unit.lanes)
    moved = {a.tensor: counts[a.tensor] * lanes.copies(a) for a in (*einsum.inputs, einsum.output)}
    writes = moved.pop(einsum.name)
    return UnitPass(moved, writes, steps * cycles_per_point)


def _spread(
    hardware: Hardware, unit: ComputeUnit, einsum: Einsum, mapping: UnitMapping, tile: Mapping[str, int]
) -> _Lanes:
    dims = {"instances": unit.instances}
    if unit.kind == "free":
        dims |= {dim.name: dim for dim in hardware.levels[-1].spatial}
    factors = {rank: {d: s for d, s in by.items() if s > 1} for rank, by in mapping.spatial.items()}
    steps, busy = {}, {}
    for rank in einsum.ranks:
        for name in factors.get(rank, {}):
            if name not in dims:
                raise ReplayError(
                    f"{unit.name} has no spatial dimension {name} to spread {rank} of {einsum.name} over"
                )
        lanes = prod(factors.get(rank, {}).values())
        steps[rank] = -(-tile[rank] // lanes)
        local = np.arange(steps[rank], dtype=np.int64)
        busy[rank] = np.array(
            sum((lane * steps[rank] + local < tile[rank]).astype(np.int64) for lane in range(lanes))
        )
    return _Lanes(einsum, steps, busy, factors, dims)


def _chunks(counts: Counts, width: int) -> Iterator[int]:
    """Elements of each fold of `width` positions."""
    for start in range(0, len(counts), width):
        yield int(counts[start : start + width].sum())


def _systolic(
    hardware: Hardware, einsum: Einsum, mapping: UnitMapping, lanes: _Lanes
) -> tuple[dict[str, int], int]:
    """Fold after fold of the stationary operand; the other two stream past it."""
    sizes = [dim.size for dim in hardware.levels[-1].spatial[:2]]
    rows, columns = (*sizes, 1, 1)[:2]
    if mapping.transposed:
        rows, columns = columns, rows
    if mapping.dataflow not in FOLDS:
        raise ReplayError(f"{mapping.unit} has no dataflow {mapping.dataflow} for {einsum.name}")
    operands = (*einsum.inputs, einsum.output)
    role = {}
    for rank in einsum.ranks:
        having = [set(axes) for axes, access in zip(OPERANDS, operands, strict=True) if rank in access.ranks]
        role[rank] = "".join(set.intersection(*having))  # empty for a batch rank, in all three
    positions = {axis: np.ones(1, dtype=np.int64) for axis in "MNK"}
    for rank, axis in role.items():
        if axis:
            positions[axis] = np.outer(positions[axis], lanes.busy[rank]).ravel()
    batch = [rank for rank, axis in role.items() if not axis]
    row_axis, column_axis = FOLDS[mapping.dataflow]
    (stream,) = set("MNK") - {row_axis, column_axis}
    counts = {access.tensor: 0 for access in operands}
    steps = 0
    for row in _chunks(positions[row_axis], rows):
        for column in _chunks(positions[column_axis], columns):
            now = {row_axis: row, column_axis: column, stream: int(positions[stream].sum())}
            for access, axes in zip(operands, OPERANDS, strict=True):
                counts[access.tensor] += now[axes[0]] * now[axes[1]]
            steps += len(positions[stream])
    repeats = lanes.total(batch)
    return {t: n * repeats for t, n in counts.items()}, steps * prod(lanes.steps[rank] for rank in batch)


def _free(
    unit: ComputeUnit, einsum: Einsum, mapping: UnitMapping, lanes: _Lanes
) -> tuple[dict[str, int], int]:
    """All steps in order; an operand that may be held crosses only when its element changes."""
    given = [rank for rank in mapping.order if rank in einsum.ranks]
    order = [rank for rank in einsum.ranks if rank not in given] + given
    shape = [lanes.steps[rank] for rank in order]
    total = prod(shape)
    counts = {}
    for position, access in enumerate((*einsum.inputs, einsum.output)):
        kind = "output" if access.tensor == einsum.name else "input" if position == 0 else "weight"
        crossing, last = 0, -1
        for start in range(0, total, STEPS_AT_ONCE):
            step = np.unravel_index(np.arange(start, min(start + STEPS_AT_ONCE, total)), shape)
            element = np.zeros(len(step[0]) if step else 1, dtype=np.int64)
            amount = np.ones_like(element)
            for rank, index in zip(order, step, strict=True):
                if rank in access.ranks:
                    element = element * lanes.steps[rank] + index
                    amount = amount * lanes.busy[rank][index]
            if kind in unit.registers:
                changed = np.diff(element, prepend=last) != 0
                crossing += int(amount[changed].sum())
                last = int(element[-1])
            else:
                crossing += int(amount.sum())
        counts[access.tensor] = crossing
    return counts, total
