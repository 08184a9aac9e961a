"""A small problem with the same loop structure as a large one, so that its replay is fast.

Extents, tiles, spatial factors and arrays are scaled down; which loops exist, in which order, what is
shared and where every buffer stands stays as it is. Trip counts are capped at three; a loop with a
ragged last tile keeps one where the smaller extent allows it.

    m: 2048 in 16 × 128        m: 6 in 3 × 2
    n: 197 in 4 × 50 (last 47)  n: 7 in 3 × 3 (last 1)
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, SpatialDim
from exactile.formulation.mapping import Group, Loop, Mapping, UnitMapping

_MOST_TRIPS = 3
_EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 18, 24, 25, 27, 36, 48, 49, 64)
_ARRAY_SIDES = (2, 3)


def shrink(cascade: Cascade, hardware: Hardware, mapping: Mapping) -> tuple[Cascade, Hardware, Mapping]:
    """The three scaled down together."""
    plans = [_chains(group, dict.fromkeys(group.order, cascade.ranks)) for group in mapping.groups]
    tied = _tied(cascade)
    steps: dict[str, list[_Chain]] = {rank: [] for rank in cascade.ranks}
    for plan in plans:
        for (_, rank), chain in plan.items():
            steps[tied[rank]].append(chain)
    extents = {rank: _small_extent(extent, steps[tied[rank]]) for rank, extent in cascade.ranks.items()}
    groups = tuple(_small_group(g, dict.fromkeys(g.order, (cascade.ranks, extents))) for g in mapping.groups)
    small = Mapping(groups, mapping.kept_between_groups)
    return _small_cascade(cascade, extents), _small_hardware(hardware, small), small


def _tied(cascade: Cascade) -> dict[str, str]:
    """For each rank one that stands for it: ranks that index the same dimension of a tensor stay equal."""
    tied = {rank: rank for rank in cascade.ranks}
    first: dict[tuple[str, int], str] = {}
    for einsum in cascade.einsums:
        for access in (einsum.output, *einsum.inputs):
            for position, rank in enumerate(access.ranks if access.plain else ()):
                one, other = tied[first.setdefault((access.tensor, position), rank)], tied[rank]
                tied = {name: one if stands == other else stands for name, stands in tied.items()}
    return tied


@dataclass(frozen=True)
class _Step:
    """One division of an extent: into `parts` equal blocks or tiles; ragged if the last is smaller."""

    parts: int
    ragged: bool


_Chain = tuple[_Step, ...]


def _chains(group: Group, extents: Map[str, Map[str, int]]) -> dict[tuple[str, str], _Chain]:
    """For each Einsum and rank, the divisions of the rank on its way down to the unit."""
    found: dict[tuple[str, str], _Chain] = {}
    for e in group.order:
        tiles = {loop.rank: loop.tile for loop in group.nests[e]}
        inside: dict[str, int] = {}
        for rank, extent in extents[e].items():
            factor = prod(group.spatial.get(e, {}).get(rank, {}).values())
            block = -(-extent // factor)
            tile = min(tiles.get(rank, block), block)
            inside[rank] = tile
            found[e, rank] = (
                *_step(extent, factor, block),
                *_step(block, -(-block // tile), tile),
            )
        inner = group.inner[e]
        if isinstance(inner, Group):
            deeper = _chains(inner, {e: inside})
            for rank in extents[e]:
                found[e, rank] += deeper[e, rank]
        else:
            for rank, factors in inner.spatial.items():
                factor = prod(factors.values())
                found[e, rank] += tuple(_step(inside[rank], factor, -(-inside[rank] // factor)))
    return found


def _step(whole: int, parts: int, part: int) -> Iterable[_Step]:
    if parts > 1:
        yield _Step(parts, parts * part != whole)


def _small_extent(extent: int, chains: Iterable[_Chain]) -> int:
    """The smallest extent on which most divisions keep at least two parts, then most keep their form.

    Something should be left below the last division (a tile of two), so that errors inside tiles show too.
    """
    chains = list(dict.fromkeys(chains))

    def likeness(candidate: int) -> tuple[int, int, int, int]:
        divided = alike = rest = 0
        for chain in chains:
            left = candidate
            for step in chain:
                part = _part(left, step)
                parts = -(-left // part)
                divided += parts > 1
                ragged = parts * part != left
                alike += parts == min(step.parts, _MOST_TRIPS) and ragged == step.ragged
                left = part
            rest += left > 1
        return divided, alike, rest, -candidate

    return max((candidate for candidate in _EXTENTS if candidate <= extent), key=likeness)


def _part(extent: int, step: _Step) -> int:
    """The size of the parts into which a small extent is divided in the manner of `step`."""
    if extent <= 1:
        return 1
    want = min(step.parts, _MOST_TRIPS)

    def unlike(size: int) -> tuple[int, bool, int]:
        return abs(-(-extent // size) - want), (extent % size != 0) != step.ragged, size

    return min(range(1, extent), key=unlike)


def _small_group(group: Group, extents: Map[str, tuple[Map[str, int], Map[str, int]]]) -> Group:
    """The group with tiles and factors scaled; `extents[e]` are the old and the new parent tiles."""
    nests: dict[str, tuple[Loop, ...]] = {}
    inner: dict[str, Group | UnitMapping] = {}
    spatial: dict[str, dict[str, dict[str, int]]] = {}
    for e in group.order:
        old, new = dict(extents[e][0]), dict(extents[e][1])
        spatial[e] = {}
        for rank, factors in group.spatial.get(e, {}).items():
            spatial[e][rank] = _split(rank, factors, old, new)
        loops = []
        for loop in group.nests[e]:
            parts = -(-old[loop.rank] // loop.tile)
            if parts > 1:
                step = _Step(parts, old[loop.rank] % loop.tile != 0)
                old[loop.rank], new[loop.rank] = loop.tile, _part(new[loop.rank], step)
            loops.append(Loop(loop.rank, new[loop.rank]))
        nests[e] = tuple(loops)
        below = group.inner[e]
        if isinstance(below, Group):
            inner[e] = _small_group(below, {e: (old, new)})
        else:
            inner[e] = replace(below, spatial={r: _split(r, f, old, new) for r, f in below.spatial.items()})
    return Group(group.order, nests, group.buffers, inner, spatial)


def _split(rank: str, factors: Map[str, int], old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    """Scaled spatial factors of one rank; `old` and `new` are advanced to the blocks."""
    small = {}
    for dim, factor in factors.items():
        block = -(-old[rank] // factor)
        if factor > 1:
            part = _part(new[rank], _Step(factor, factor * block != old[rank]))
            small[dim] = -(-new[rank] // part)
            new[rank] = part
        else:
            small[dim] = factor
        old[rank] = block
    return small


def _small_cascade(cascade: Cascade, extents: Map[str, int]) -> Cascade:
    declared: dict[str, dict[str, Any]] = {
        t.name: {"bits": t.bits, "role": t.role, "row": t.row, "online": t.online, "corrects": t.corrects}
        for t in cascade.tensors.values()
    }
    return Cascade(
        extents, cascade.einsums, name=cascade.name, tensors=declared, generational=cascade.generational
    )


def _small_hardware(hardware: Hardware, mapping: Mapping) -> Hardware:
    """Arrays just large enough for the scaled factors; at least 2 × 3, so that tiles still fold on them."""
    need: dict[tuple[int, str], int] = {}
    last = len(hardware.levels) - 1

    def visit(group: Group, boundary: int) -> None:
        for e in group.order:
            _fit(need, boundary, group.spatial.get(e, {}))
            inner = group.inner[e]
            if isinstance(inner, Group):
                visit(inner, boundary + 1)
            else:
                _fit(need, last, inner.spatial)

    for group in mapping.groups:
        visit(group, 0)

    def scaled(dim: SpatialDim, number: int, position: int) -> SpatialDim:
        side = _ARRAY_SIDES[position % len(_ARRAY_SIDES)]
        return replace(dim, size=max(need.get((number, dim.name), 1), min(dim.size, side)))

    def level(number: int, old: Level) -> Level:
        return replace(old, spatial=tuple(scaled(dim, number, i) for i, dim in enumerate(old.spatial)))

    def unit(old: ComputeUnit) -> ComputeUnit:
        return replace(old, lanes=min(old.lanes, 2), instances=scaled(old.instances, last, 0))

    levels = tuple(level(number, old) for number, old in enumerate(hardware.levels))
    return replace(hardware, levels=levels, compute=tuple(unit(old) for old in hardware.compute))


def _fit(need: dict[tuple[int, str], int], number: int, spatial: Map[str, Map[str, int]]) -> None:
    """Raise the needed size of each dimension to the product of the factors on it."""
    product: dict[str, int] = {}
    for factors in spatial.values():
        for dim, factor in factors.items():
            product[dim] = product.get(dim, 1) * factor
    for dim, total in product.items():
        need[number, dim] = max(need.get((number, dim), 1), total)
