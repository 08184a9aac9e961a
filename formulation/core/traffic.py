"""Traffic of one Einsum of a group: across every boundary, and between the last level and its unit.

`visits(X)` values cross a boundary in one pass of the parent tile: the parent tile of `X`, once per
trip of every loop outside the buffer whose rank is not in `X`. A level that does not hold `X` is
skipped: its two boundaries merge, and the nests are read as one. A tile that a level holds whole stays
there from one pass to the next as long as it is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass

from exactile.formulation.core.facts import EinsumFacts, Facts, Use
from exactile.formulation.core.footprint import leaves
from exactile.formulation.core.inner import Pass, one_pass
from exactile.formulation.core.tree import Held, Nest, Tree, tree_of
from exactile.formulation.hardware import SpatialDim
from exactile.formulation.mapping import UnitMapping


@dataclass(slots=True)
class Stage:
    """One boundary on the way of an Einsum to its unit, with what lies outside it.

    `starts`: temporal passes of the parent tile that begin another output tile (recomputation
    included); `instances`: instances of the parent level in use.
    """

    tree: Tree
    nest: Nest
    starts: int
    instances: int


@dataclass(slots=True)
class Descent:
    """An Einsum's way down: its stages, then a last pseudo-stage's multipliers and the unit's pass."""

    einsum: EinsumFacts
    stages: list[Stage]
    passes: int
    starts: int
    instances: int
    unit: UnitMapping
    inside: Pass


def descend(facts: Facts, tree: Tree, name: str) -> Descent:
    """Follow an Einsum of a group at boundary 0 through its inner groups down to its unit."""
    einsum = facts.einsums[name]
    stages: list[Stage] = []
    passes = starts = instances = 1
    while True:
        nest = tree.nests[name]
        stages.append(Stage(tree, nest, starts, instances))
        for rank, trip in zip(nest.ranks, nest.trips, strict=True):
            passes *= trip
            if rank not in einsum.reduction:
                starts *= trip
        for rank in nest.factors:
            instances *= nest.spread(rank)
        inner = tree.group.inner[name]
        if isinstance(inner, UnitMapping):
            inside = one_pass(facts, einsum, nest.tile, inner)
            return Descent(einsum, stages, passes, starts, instances, inner, inside)
        tree = tree_of(facts, inner, nest.tile)


@dataclass(frozen=True, slots=True)
class Move:
    """Values moved at one level on behalf of one use, all instances of the level together."""

    level: int
    tensor: str
    reads: int
    writes: int


def moves(facts: Facts, descent: Descent) -> Iterator[Move]:
    """All traffic of one Einsum."""
    for use, amount in zip(descent.einsum.uses, descent.inside.moves, strict=True):
        parent = 0
        for level, stage in enumerate(descent.stages, 1):
            held = stage.tree.holder(descent.einsum.name, use.tensor)
            if held is not None:
                if not (level == 1 and held.shared):
                    yield from _across(facts, descent, use, parent, level, held)
                else:
                    yield from _shared(facts, descent, use, held)
                parent = level
        above, below = _spread(facts, descent.stages[parent:], use, parent)
        instances = descent.instances // below
        total = instances * descent.passes * amount * above
        if use.output:
            begun = instances * descent.starts * _extent(descent.stages[-1].nest.tile, use)
            yield Move(parent, use.tensor, total - begun, total)
        else:
            yield Move(parent, use.tensor, total, 0)


def _shared(facts: Facts, descent: Descent, use: Use, held: Held) -> Iterator[Move]:
    """A shared input is fetched for its first user. A fused intermediate crosses only to leave the group,
    once per completed tile."""
    tree = descent.stages[0].tree
    if use.output:
        if leaves(facts, tree, use.tensor):
            size = facts.cascade.tensors[use.tensor].size
            yield Move(0, use.tensor, 0, size)
            yield Move(1, use.tensor, size, 0)
    elif use.tensor not in tree.nests and held.buffer.users[0] == descent.einsum.name:
        yield from _across(facts, descent, use, 0, 1, held)


def _across(facts: Facts, descent: Descent, use: Use, parent: int, child: int, held: Held) -> Iterator[Move]:
    """The traffic between two levels that hold the tensor, nothing in between holding it."""
    outer = descent.stages[parent]
    crossed = descent.stages[parent:child]
    tile = _extent(outer.nest.parent, use)
    above, below = _spread(facts, crossed, use, parent)
    total = outer.instances * tile * _fetches(descent.stages[:child], use, parent, held.depth)
    if use.output:
        begun = outer.instances * outer.starts * tile
        yield Move(parent, use.tensor, total * above - begun, total * above)
        yield Move(child, use.tensor, total * below, (total - begun) * below)
    else:
        yield Move(parent, use.tensor, total * above, 0)
        yield Move(child, use.tensor, 0, total * below)


def _fetches(stages: list[Stage], use: Use, parent: int, depth: int) -> int:
    """How often the parent's tile crosses into the buffer behind the last stage, over the whole group.

    `depth` loops of the last stage and all loops of the others lie outside. The trailing ones that are
    neither ranks of the tensor nor shared find the same tile in the buffer again, at whatever boundary
    they stand. Of the rest, ranks of the tensor inside the parent's tile only cut it into pieces.
    """
    times = 1
    same = True
    for boundary in range(len(stages) - 1, -1, -1):
        nest = stages[boundary].nest
        for position in range((depth if boundary == len(stages) - 1 else len(nest.ranks)) - 1, -1, -1):
            relevant = nest.ranks[position] in use.ranks
            same = same and not relevant and position >= nest.shared
            if not same and (boundary < parent or not relevant):
                times *= nest.trips[position]
    return times


def _spread(facts: Facts, crossed: list[Stage], use: Use, parent: int) -> tuple[int, int]:
    """Factors of the parent's and of the child's traffic for ranks split over space that the tensor lacks."""
    above = below = 1
    for boundary, stage in enumerate(crossed, parent):
        for rank, factors in stage.nest.factors.items():
            if rank in use.ranks:
                continue
            for name, factor in factors.items():
                dim = _dim(facts.hardware.levels[boundary].spatial, name)
                below *= factor
                if not (dim.reduce if use.output else dim.multicast):
                    above *= factor
    return above, below


def _dim(dims: tuple[SpatialDim, ...], name: str) -> SpatialDim:
    return next(dim for dim in dims if dim.name == name)


def _extent(extents: Map[str, int], use: Use) -> int:
    product = 1
    for rank in use.ranks:
        product *= extents[rank]
    return product


def inner_trees(descent: Descent) -> list[tuple[int, Tree]]:
    """The trees below boundary 0 with their boundaries."""
    return [(boundary, stage.tree) for boundary, stage in enumerate(descent.stages) if boundary]
