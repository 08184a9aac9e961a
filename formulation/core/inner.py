"""Compute units: reads, writes and cycles of one pass of a tile through a unit.

A pass takes one innermost tile of an Einsum from the last level. Instances of a unit split the tile
first; an operand that varies over the split rank is still read once in full, another operand is read
per instance only where the dimension cannot multicast (inputs) or reduce (outputs).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from exactile.formulation.core.facts import EinsumFacts, Facts, Use
from exactile.formulation.hardware import ComputeUnit, SpatialDim
from exactile.formulation.mapping import UnitMapping


@dataclass(frozen=True, slots=True)
class Pass:
    """Values moved per use (in the order of `EinsumFacts.uses`, result writes last) and cycles."""

    moves: tuple[int, ...]
    cycles: Fraction


def one_pass(facts: Facts, einsum: EinsumFacts, tile: Mapping[str, int], mapping: UnitMapping) -> Pass:
    """What one tile costs on its unit; `tile` has the extents of all ranks of the Einsum."""
    unit = facts.units[mapping.unit]
    per_step = facts.point_costs[einsum.name, unit.name].cycles
    if unit.kind == "systolic":
        moves, steps = _systolic(facts, einsum, tile, mapping, unit)
    elif unit.kind == "free":
        moves, steps = _free(facts, einsum, tile, mapping, unit)
    else:
        moves, steps = _vector(einsum, tile, mapping, unit)
    return Pass(moves, steps * per_step)


def unit_dims(facts: Facts, unit: ComputeUnit) -> dict[str, SpatialDim]:
    """The spatial dimensions of a unit: its instances; for a free array also those of the last level."""
    dims = {"instances": unit.instances}
    if unit.kind == "free":
        dims.update((dim.name, dim) for dim in facts.hardware.levels[-1].spatial)
    return dims


def array_shape(facts: Facts, mapping: UnitMapping) -> tuple[int, int]:
    """Rows and columns of a systolic array as the mapping uses it."""
    sizes = [dim.size for dim in facts.hardware.levels[-1].spatial[:2]]
    rows, columns = (*sizes, 1, 1)[:2]
    return (columns, rows) if mapping.transposed else (rows, columns)


def copies(use: Use, spatial: Mapping[str, Mapping[str, int]], dims: Mapping[str, SpatialDim]) -> int:
    """How many times a value must be moved because a dimension cannot multicast it or reduce it."""
    product = 1
    for rank, factors in spatial.items():
        if rank not in use.ranks:
            for name, factor in factors.items():
                dim = dims[name]
                if not (dim.reduce if use.output else dim.multicast):
                    product *= factor
    return product


def split(
    tile: Mapping[str, int], ranks: Iterable[str], spatial: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """`⌈T_r / s_r⌉` per rank."""
    steps = {}
    for rank in ranks:
        total = 1
        for factor in spatial.get(rank, {}).values():
            total *= factor
        steps[rank] = -(-tile[rank] // total)
    return steps


def _product(extents: Mapping[str, int], ranks: Iterable[str]) -> int:
    total = 1
    for rank in ranks:
        total *= extents[rank]
    return total


def _vector(
    einsum: EinsumFacts, tile: Mapping[str, int], mapping: UnitMapping, unit: ComputeUnit
) -> tuple[tuple[int, ...], int]:
    dims = {"instances": unit.instances}
    moves = tuple(_product(tile, use.ranks) * copies(use, mapping.spatial, dims) for use in einsum.uses)
    points = _product(split(tile, einsum.ranks, mapping.spatial), einsum.ranks)
    return moves, -(-points // unit.lanes)


def _systolic(
    facts: Facts, einsum: EinsumFacts, tile: Mapping[str, int], mapping: UnitMapping, unit: ComputeUnit
) -> tuple[tuple[int, ...], int]:
    """Input 1 is M×K, input 2 is K×N, batch ranks repeat everything.

    weight stationary: input 2 stays, K on rows, N on columns; output stationary: M on rows, N on
    columns; input stationary: input 1 stays, K on rows, M on columns.
    """
    first, second, output = (set(use.ranks) for use in einsum.uses)
    inside = split(tile, einsum.ranks, mapping.spatial)
    rows, columns = array_shape(facts, mapping)
    m = _product(inside, (first & output) - second)
    n = _product(inside, (second & output) - first)
    k = _product(inside, (first & second) - output)
    batch = _product(inside, first & second & output)
    if mapping.dataflow == "weight_stationary":
        folds = (-(-n // columns), 1, -(-k // rows))
        steps = folds[0] * folds[2] * m
    elif mapping.dataflow == "output_stationary":
        folds = (-(-n // columns), -(-m // rows), 1)
        steps = folds[0] * folds[1] * k
    else:
        folds = (1, -(-m // columns), -(-k // rows))
        steps = folds[1] * folds[2] * n
    dims = {"instances": unit.instances}
    moves = tuple(
        _product(tile, use.ranks) * fold * copies(use, mapping.spatial, dims)
        for use, fold in zip(einsum.uses, folds, strict=True)
    )
    return moves, steps * batch


def _free(
    facts: Facts, einsum: EinsumFacts, tile: Mapping[str, int], mapping: UnitMapping, unit: ComputeUnit
) -> tuple[tuple[int, ...], int]:
    """Every step reads its operands, except those that a unit holds while their element stays the same."""
    steps = split(tile, einsum.ranks, mapping.spatial)
    order = [rank for rank in einsum.ranks if rank not in mapping.order] + list(mapping.order)
    order = [rank for rank in order if steps.get(rank, 1) > 1]
    dims = unit_dims(facts, unit)
    moves = []
    for position, use in enumerate(einsum.uses):
        register = "output" if use.output else "input" if position == 0 else "weight"
        outer = len(order)
        if register in unit.registers:
            while outer and order[outer - 1] not in use.ranks:
                outer -= 1
        again = [rank for rank in order[:outer] if rank not in use.ranks]
        moves.append(_product(tile, use.ranks) * _product(steps, again) * copies(use, mapping.spatial, dims))
    return tuple(moves), _product(steps, einsum.ranks)
