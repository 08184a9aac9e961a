"""Whether a mapping is legal: all violations, each a sentence a user can act on.

Checks run from the outside in. Where a fault makes a question meaningless (no tree without nests, no
peak without buffers) the questions behind it are not asked; everything else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Map

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import (
    check_buffers,
    check_mapspace,
    check_rules,
    check_sharing,
    check_structure,
)
from exactile.formulation.core.check_structure import label
from exactile.formulation.core.check_units import unit_faults
from exactile.formulation.core.facts import Facts, facts_of
from exactile.formulation.core.occupancy import Occupancy, group_occupancies, size
from exactile.formulation.core.tree import Tree, tree_of
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Group, Mapping
from exactile.formulation.problem import Mapspace


def violations(
    cascade: Cascade, hardware: Hardware, mapping: Mapping, mapspace: Mapspace | None = None
) -> tuple[str, ...]:
    """All violations of a mapping, none if it is legal; with a mapspace also those of its restrictions.

    Never raises, whatever the names and numbers in the mapping.
    """
    if len(hardware.levels) < 2:
        return (f"{hardware.name} has one level; a mapping needs a level to move tiles into",)
    facts = facts_of(cascade, hardware)
    return tuple(dict.fromkeys(_all(facts, mapping, mapspace)))


def _all(facts: Facts, mapping: Mapping, mapspace: Mapspace | None) -> Iterator[str]:
    unsupported = tuple(check_structure.cascade_faults(facts))
    yield from unsupported
    yield from check_structure.partition_faults(facts, mapping)
    yield from check_structure.group_order_faults(facts, mapping.groups)
    if mapspace is not None:
        yield from check_mapspace.mapping_restrictions(facts, mapping, mapspace)
    for group in mapping.groups:
        if check_structure.buildable(facts, group) and not unsupported:
            yield from _group(facts, group, mapspace)


def _group(facts: Facts, group: Group, mapspace: Mapspace | None) -> Iterator[str]:
    found = list(_boundary(facts, group, 0, facts.cascade.ranks, mapspace))
    yield from found
    if not found:
        yield from _capacity(facts, group)


def _boundary(
    facts: Facts, group: Group, boundary: int, parent: Map[str, int], mapspace: Mapspace | None
) -> Iterator[str]:
    """Everything but the capacity, at this boundary and below."""
    if boundary and len(group.order) > 1:
        yield f"{label(group)}: fusing Einsums below {facts.hardware.levels[1].name} is not supported yet"
        return
    for name in group.order:
        inner = group.inner.get(name)
        if inner is not None and not isinstance(inner, Group):
            yield from unit_faults(facts, name, inner)
    broken = [
        *check_structure.topological_faults(facts, group),
        *check_structure.key_faults(facts, group, boundary),
        *check_structure.loop_faults(facts, group, boundary, parent),
        *check_buffers.buffer_faults(facts, group, boundary),
    ]
    yield from broken
    if broken:
        return
    tree = tree_of(facts, group, parent)
    crooked = [
        *check_sharing.spread_faults(tree),
        *check_sharing.prefix_faults(facts, tree),
        *check_sharing.index_faults(tree),
    ]
    yield from crooked
    if not crooked:
        yield from _tree(facts, tree, boundary, mapspace)
    for name in group.order:
        inner = group.inner[name]
        if isinstance(inner, Group):
            if inner.order != (name,) and len(inner.order) < 2:
                yield (
                    f"{label(group)}: the loop nest below {name} is one of "
                    f"{', '.join(inner.order) or 'nothing'}"
                )
            else:
                yield from _boundary(facts, inner, boundary + 1, tree.nests[name].tile, mapspace)


def _tree(facts: Facts, tree: Tree, boundary: int, mapspace: Mapspace | None) -> Iterator[str]:
    """The rules on a well-formed tree."""
    yield from check_sharing.loop_owner_faults(tree)
    yield from check_sharing.interval_faults(tree)
    yield from check_sharing.connection_faults(tree)
    yield from check_rules.dependency_faults(facts, tree)
    yield from check_rules.barrier_faults(facts, tree)
    if boundary == 0:
        yield from check_rules.recomputation_faults(facts, tree)
    if mapspace is not None:
        if boundary == 0:
            yield from check_mapspace.tree_restrictions(facts, tree, mapspace)
        if mapspace.tile_sizes == "divisors":
            yield from check_mapspace.divisor_faults(facts, tree, boundary)


def _capacity(facts: Facts, group: Group) -> Iterator[str]:
    """The fullest moment of every bounded level of the group."""
    capacities = {level.name: level.capacity for level in facts.hardware.levels[1:]}
    worst: dict[str, Occupancy] = {}
    for item in group_occupancies(facts, group):
        if item.level not in worst or item.bits > worst[item.level].bits:
            worst[item.level] = item
    for level, item in worst.items():
        capacity = capacities[level]
        if capacity is not None and item.bits > capacity:
            yield (
                f"{level}: {label(group)} needs {item}, capacity is {size(capacity)} B "
                f"(short by {size(item.bits - capacity)} B)"
            )
