"""The brute force's own cost function: what an Einsum costs on a two-level machine, for many tilings at once.

Written from the model, for chains of Einsums on DRAM, one buffer and compute units. All numbers are
scaled to integers; `Ruler` holds the scales. A cost is a vector of columns: DRAM bits, energy,
operations, then the busy cycles of every port and unit. Tilings are arrays: `tiles[r]` and `trips[r]`
have one entry per tiling.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import lcm, prod

import numpy as np
from numpy.typing import NDArray

from exactile.formulation.einsum import Einsum
from exactile.formulation.hardware import ComputeUnit, Rate, SpatialDim
from exactile.formulation.mapping import UnitMapping
from exactile.formulation.problem import Problem
from exactile.formulation.units import candidates, correction_unit, point_cost

Array = NDArray[np.int64]
Tiling = Mapping[str, Array]
DRAM_BITS, ENERGY, OPERATIONS, FIRST_RESOURCE = 0, 1, 2, 3


def ceil_div(left: Array | int, right: Array | int) -> Array:
    return np.asarray(-(-np.asarray(left) // right))


def product(arrays: Iterable[Array | int]) -> Array:
    total = np.asarray(1, dtype=np.int64)
    for array in arrays:
        total = total * array
    return total


class Ruler:
    """Scales and columns of a problem's costs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.cascade = problem.cascade
        self.hardware = problem.hardware
        dram, self.buffer = problem.hardware.levels
        self.last_dims = self.buffer.spatial
        ports = [
            port
            for level in (dram, self.buffer)
            for port in self._ports(level.shared_port, level.read_bandwidth, level.write_bandwidth)
        ]
        rates = (dram.read_energy, dram.write_energy, self.buffer.read_energy, self.buffer.write_energy)
        ops = [op for unit in self.hardware.compute for op in unit.ops.values()]
        counts = [count for einsum in self.cascade.einsums for count in einsum.cost.values()]
        lanes = lcm(*(unit.lanes for unit in self.hardware.compute))
        self.count_scale = lcm(1, *(count.denominator for count in counts))
        energies = [rate.amount for rate in rates] + [op.energy for op in ops]
        self.energy_scale = lcm(*(e.denominator for e in energies)) * self.count_scale
        times = [1 / port[0].amount for port in ports if port[0]] + [op.cycles for op in ops]
        self.cycle_scale = lcm(*(t.denominator for t in times), self.hardware.launch.denominator)
        self.cycle_scale *= lanes * self.count_scale
        self.rates = rates
        self.ranks: dict[str, tuple[str, ...]] = {}
        for einsum in self.cascade.einsums:
            for access in (einsum.output, *einsum.inputs):
                assert access.plain, access
                self.ranks.setdefault(access.tensor, access.ranks)
        self._place_resources()

    @staticmethod
    def _ports(shared: bool, read: Rate | None, write: Rate | None) -> list[tuple[Rate | None, bool, bool]]:
        return [(read, True, True)] if shared else [(read, True, False), (write, False, True)]

    def _place_resources(self) -> None:
        """Columns of ports and units; `parts` groups the columns that one level or unit has."""
        self.parts: list[list[int]] = []
        self.ports: list[tuple[int, int, Rate, bool, bool]] = []
        column = FIRST_RESOURCE
        for index, level in enumerate(self.hardware.levels):
            part = []
            for rate, reads, writes in self._ports(
                level.shared_port, level.read_bandwidth, level.write_bandwidth
            ):
                if rate is not None:
                    self.ports.append((column, index, rate, reads, writes))
                    part.append(column)
                    column += 1
            self.parts += [part] if part else []
        self.unit_column: dict[str, int] = {}
        for unit in self.hardware.compute:
            self.unit_column[unit.name] = column
            self.parts.append([column])
            column += 1
        self.columns = column

    @cache  # noqa: B019 - rulers are few and live as long as their search
    def weights(self, tensor: str) -> Array:
        """[columns, 4]: what a value read from or written to DRAM, then the buffer, costs."""
        bits = self.cascade.tensors[tensor].bits
        matrix = np.zeros((self.columns, 4), dtype=np.int64)
        matrix[DRAM_BITS, :2] = bits
        for position, rate in enumerate(self.rates):
            matrix[ENERGY, position] = self.exact(rate.amount * rate.weight(bits) * self.energy_scale)
        for column, level, rate, reads, writes in self.ports:
            value = self.exact(rate.weight(bits) / rate.amount * self.cycle_scale)
            matrix[column, 2 * level] = value * reads
            matrix[column, 2 * level + 1] = value * writes
        return matrix

    @staticmethod
    def exact(value: Fraction) -> int:
        assert value.denominator == 1, value
        return value.numerator

    def latency(self, costs: Array) -> Array:
        """Scaled cycles of one group from its summed columns [..., columns]."""
        parts = [costs[..., part].max(axis=-1) for part in self.parts]
        stacked = np.stack(parts, axis=-1)
        busy = stacked.max(axis=-1) if self.hardware.overlap == "full" else stacked.sum(axis=-1)
        return np.asarray(busy + self.exact(self.hardware.launch * self.cycle_scale))

    def correction(self, values: Array | int) -> Array:
        """Columns [columns, …] of rescaling `values` values for an online statistic."""
        unit, cost = correction_unit(self.hardware)
        values = np.asarray(values, dtype=np.int64)
        columns = np.zeros((self.columns, *values.shape), dtype=np.int64)
        columns[OPERATIONS] = values * self.count_scale
        columns[ENERGY] = values * self.exact(cost.energy * self.energy_scale)
        columns[self.unit_column[unit.name]] = values * self.exact(
            cost.cycles * self.cycle_scale / unit.lanes
        )
        return columns


def footprint(
    ruler: Ruler, tensor: str, bits: int, outside: Sequence[str], tiles: Tiling, trips: Tiling, crosses: bool
) -> Array:
    """Bits of the tile held under the loops `outside`; a double buffer holds two of a tile that changes."""
    held = bits * product(tiles[r] if r in outside else ruler.cascade.ranks[r] for r in ruler.ranks[tensor])
    if ruler.buffer.double_buffer and crosses:
        return np.where(product(trips[r] for r in outside) > 1, 2 * held, held)
    return held


def private_costs(
    ruler: Ruler, einsum: Einsum, tensor: str, outside: Sequence[str], tiles: Tiling, trips: Tiling
) -> tuple[Array, Array]:
    """Held bits [tilings] and columns [columns, tilings] of a tensor that one Einsum moves by itself."""
    tilings = len(next(iter(tiles.values()))) if tiles else 1
    data = ruler.cascade.tensors[tensor]
    ranks, one = ruler.ranks[tensor], np.ones(tilings, dtype=np.int64)
    visits = data.size * product(trips[r] for r in outside if r not in ranks) * one
    held = footprint(ruler, tensor, data.bits, outside, tiles, trips, crosses=True) * one
    none = np.zeros_like(visits)
    if tensor == einsum.name:  # drained each visit; every visit but the first reads the partial sums back
        again = visits - data.size
        counts = np.stack([again, visits, visits, again])
    else:
        counts = np.stack([visits, none, none, visits])
    return held, ruler.weights(tensor) @ counts


def unit_mappings(ruler: Ruler, einsum: Einsum) -> Iterator[UnitMapping]:
    """Every legal use of every unit that may run the Einsum."""
    for unit in candidates(ruler.hardware, einsum):
        if unit.kind == "systolic":
            for flow, swap in itertools.product(unit.dataflows, (False, True)):
                for spatial in spatial_splits(ruler, einsum, [unit.instances]):
                    yield UnitMapping(unit.name, flow, swap, spatial)
        elif unit.kind == "vector":
            for spatial in spatial_splits(ruler, einsum, [unit.instances]):
                yield UnitMapping(unit.name, spatial=spatial)
        else:
            orders = itertools.permutations(einsum.ranks) if unit.registers else [einsum.ranks]
            splits = list(spatial_splits(ruler, einsum, [*ruler.last_dims, unit.instances]))
            for order, spatial in itertools.product(orders, splits):
                yield UnitMapping(unit.name, spatial=spatial, order=tuple(order))


def spatial_splits(
    ruler: Ruler, einsum: Einsum, dims: Sequence[SpatialDim]
) -> Iterator[dict[str, dict[str, int]]]:
    """All factors per rank and dimension, those on one dimension multiplying to at most its size."""
    per_dim = []
    for dim in dims:
        ranges = [range(1, min(dim.size, ruler.cascade.ranks[r]) + 1) for r in einsum.ranks]
        per_dim.append([f for f in itertools.product(*ranges) if prod(f) <= dim.size])
    for chosen in itertools.product(*per_dim):
        spatial: dict[str, dict[str, int]] = {}
        for dim, factors in zip(dims, chosen, strict=True):
            for rank, factor in zip(einsum.ranks, factors, strict=True):
                if factor > 1:
                    spatial.setdefault(rank, {})[dim.name] = factor
        yield spatial


def inner_costs(ruler: Ruler, einsum: Einsum, use: UnitMapping, tiles: Tiling, trips: Tiling) -> Array:
    """[columns, tilings] below the buffer, one execution of the Einsum (recomputation multiplies it)."""
    unit = ruler.hardware.unit(use.unit)
    if unit.kind == "free":
        reads, writes, cycles = free_pass(ruler, einsum, unit, use, tiles)
    else:
        reads, writes, cycles = instance_pass(ruler, einsum, unit, use, tiles)
    passes = product(trips[r] for r in einsum.ranks)
    begun = product(trips[r] * tiles[r] for r in einsum.output.ranks)
    written = writes * passes
    zero = np.zeros_like(written)
    columns = ruler.weights(einsum.name) @ np.stack([zero, zero, written - begun, written])
    for access, values in zip(einsum.inputs, reads, strict=True):
        columns = columns + ruler.weights(access.tensor) @ np.stack([zero, zero, values * passes, zero])
    cost = point_cost(ruler.hardware, einsum, unit)
    points = ruler.cascade.points(einsum)
    columns[ruler.unit_column[unit.name]] += cycles * passes * ruler.exact(cost.cycles * ruler.cycle_scale)
    columns[ENERGY] += points * ruler.exact(cost.energy * ruler.energy_scale)
    columns[OPERATIONS] += points * ruler.exact(sum(einsum.cost.values(), Fraction(0)) * ruler.count_scale)
    return np.asarray(columns)


def split_of(use: UnitMapping, rank: str, dim: str | None = None) -> int:
    factors = use.spatial.get(rank, {})
    return prod(factors.values()) if dim is None else factors.get(dim, 1)


def instance_pass(
    ruler: Ruler, einsum: Einsum, unit: ComputeUnit, use: UnitMapping, tiles: Tiling
) -> tuple[list[Array], Array, Array]:
    """Reads per input, writes and cycles (of one op per point) of one tile on a systolic or vector unit."""
    own = {r: ceil_div(tiles[r], split_of(use, r)) for r in einsum.ranks}
    accesses = (*einsum.inputs, einsum.output)
    moved = []
    for access in accesses:
        shared = unit.instances.reduce if access is einsum.output else unit.instances.multicast
        copies = 1 if shared else prod(split_of(use, r) for r in einsum.ranks if r not in access.ranks)
        moved.append(copies * product(tiles[r] for r in access.ranks))
    if unit.kind == "vector":
        return moved[:-1], moved[-1], ceil_div(product(own.values()), unit.lanes)
    one, two, out = (set(access.ranks) for access in accesses)
    m = product(own[r] for r in (one & out) - two)
    n = product(own[r] for r in (two & out) - one)
    k = product(own[r] for r in (one & two) - out)
    batch = product(own[r] for r in one & two & out)
    sizes = [dim.size for dim in ruler.last_dims[:2]] + [1, 1]
    rows, cols = (sizes[1], sizes[0]) if use.transposed else (sizes[0], sizes[1])
    again: tuple[Array | int, Array | int, Array | int]
    if use.dataflow == "weight_stationary":
        again = (ceil_div(n, cols), 1, ceil_div(k, rows))
        cycles = ceil_div(k, rows) * ceil_div(n, cols) * m
    elif use.dataflow == "output_stationary":
        again = (ceil_div(n, cols), ceil_div(m, rows), 1)
        cycles = ceil_div(m, rows) * ceil_div(n, cols) * k
    else:
        again = (1, ceil_div(m, cols), ceil_div(k, rows))
        cycles = ceil_div(m, cols) * ceil_div(k, rows) * n
    return [moved[0] * again[0], moved[1] * again[1]], moved[2] * again[2], cycles * batch


def free_pass(
    ruler: Ruler, einsum: Einsum, unit: ComputeUnit, use: UnitMapping, tiles: Tiling
) -> tuple[list[Array], Array, Array]:
    """The same on a free array: any rank on any dimension, operands held between steps if it may."""
    steps = {r: ceil_div(tiles[r], split_of(use, r)) for r in einsum.ranks}
    dims = (*ruler.last_dims, unit.instances)
    order = [r for r in einsum.ranks if r not in use.order] + list(use.order)
    moved: list[Array] = []
    for position, access in enumerate((*einsum.inputs, einsum.output)):
        is_output = position == len(einsum.inputs)
        kind = "output" if is_output else "input" if position == 0 else "weight"
        apart = [dim.name for dim in dims if not (dim.reduce if is_output else dim.multicast)]
        total = product(tiles[r] for r in access.ranks)
        held = np.asarray(kind in unit.registers)  # still inside the innermost irrelevant run
        for rank in reversed(order):
            if rank in access.ranks:
                held = held & (steps[rank] == 1)
            else:
                copies = prod(split_of(use, rank, dim) for dim in apart)
                total = total * np.where(held, 1, steps[rank]) * copies
        moved.append(total)
    return moved[:-1], moved[-1], product(steps.values())
