"""Structural faults of a mapping: what must hold before a loop tree can be built at all.

Names, the partition into groups, nests, spatial factors and what lies below each Einsum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map

from exactile.formulation.core.facts import Facts
from exactile.formulation.faults import nearest
from exactile.formulation.hardware import SpatialDim
from exactile.formulation.mapping import Group, Mapping, UnitMapping


def label(group: Group) -> str:
    return f"group {'+'.join(group.order)}" if group.order else "an empty group"


def cascade_faults(facts: Facts) -> Iterator[str]:
    """What the model does not cover yet, in the cascade itself."""
    cascade = facts.cascade
    if cascade.generational:
        yield f"the generational rank {cascade.generational[0]} is not supported yet"
    for einsum in cascade.einsums:
        seen: dict[str, str] = {}
        for access in (einsum.output, *einsum.inputs):
            if not access.plain:
                yield (
                    f"{einsum.name} uses {access}: windows, shifts and constants as "
                    "indices are not supported yet"
                )
            if access.tensor in seen:
                yield (
                    f"{access.tensor} is used through two index maps by {einsum.name} "
                    f"({seen[access.tensor]} and {access}), which is not supported yet"
                )
            seen[access.tensor] = str(access)


def partition_faults(facts: Facts, mapping: Mapping) -> Iterator[str]:
    """Every Einsum must be in exactly one group."""
    known = facts.einsums
    seen: dict[str, int] = {}
    for position, group in enumerate(mapping.groups, 1):
        if not group.order:
            yield f"group {position} is empty"
        for name in group.order:
            if name not in known:
                yield f"group {position} names the unknown Einsum '{name}'{nearest(name, known)}"
            elif name in seen:
                again = (
                    "twice in group"
                    if seen[name] == position
                    else f"in group {seen[name]} and again in group"
                )
                yield f"Einsum {name} is {again} {position}; it must be in exactly one group"
            seen.setdefault(name, position)
    for name in known:
        if name not in seen:
            yield f"Einsum {name} is in no group"
    for tensor in mapping.kept_between_groups:
        if tensor not in facts.cascade.tensors:
            yield (
                "kept_between_groups names the unknown tensor "
                f"'{tensor}'{nearest(tensor, facts.cascade.tensors)}"
            )
        else:
            yield f"{tensor} is kept between groups, which is not supported yet"


def buildable(facts: Facts, group: Group) -> bool:
    """Whether the names of a group are clear enough to look further into it."""
    return (
        bool(group.order)
        and len(set(group.order)) == len(group.order)
        and all(n in facts.einsums for n in group.order)
    )


def group_order_faults(facts: Facts, groups: tuple[Group, ...]) -> Iterator[str]:
    """The quotient graph of the groups must be a DAG, and listed in one of its topological orders."""
    place = {name: position for position, group in enumerate(groups) for name in group.order}
    needs: dict[tuple[int, int], str] = {}
    for einsum in facts.cascade.einsums:
        for access in einsum.inputs:
            one, two = place.get(access.tensor), place.get(einsum.name)
            if one is not None and two is not None and one != two:
                needs.setdefault(
                    (one, two), f"{label(groups[two])} reads {access.tensor} of {label(groups[one])}"
                )
    reach = dict.fromkeys(needs, True)
    for via in range(len(groups)):
        for one in range(len(groups)):
            for two in range(len(groups)):
                if (one, via) in reach and (via, two) in reach:
                    reach[one, two] = True
    for (one, two), why in needs.items():
        if (two, one) in reach:
            yield f"{label(groups[one])} and {label(groups[two])} each need the other to run first ({why})"
        elif one > two:
            yield f"{why}, which is listed later: groups must stand in an execution order"


def key_faults(facts: Facts, group: Group, boundary: int) -> Iterator[str]:
    """Nests, spatial factors and inner mappings: one per Einsum of the group, none for others."""
    where = label(group)
    parts: tuple[tuple[str, Map[str, object], bool], ...] = (
        ("loop nest", group.nests, True),
        ("mapping below it", group.inner, True),
        ("spatial factors", group.spatial, False),
    )
    for what, entries, needed in parts:
        for name in group.order:
            if needed and name not in entries:
                yield f"{where}: Einsum {name} has no {what}"
        for name in entries:
            if name not in group.order:
                yield (
                    f"{where}: {what} given for {name}, which is not in the group{nearest(name, group.order)}"
                )
    levels = facts.hardware.levels
    last = boundary + 2 == len(levels)
    for name in group.order:
        inner = group.inner.get(name)
        if last and isinstance(inner, Group):
            yield (
                f"{where}: {name} has another loop nest below {levels[-1].name}, the last "
                "level; expected a compute unit"
            )
        elif not last and isinstance(inner, UnitMapping):
            yield (
                f"{where}: {name} goes to unit {inner.unit} below {levels[boundary + 1].name}; "
                f"expected the loop nest between {levels[boundary + 1].name} and {levels[boundary + 2].name}"
            )


def topological_faults(facts: Facts, group: Group) -> Iterator[str]:
    """Inside a group a producer runs before its consumers."""
    place = {name: position for position, name in enumerate(group.order)}
    for name in group.order:
        for access in facts.einsums[name].einsum.inputs:
            if place.get(access.tensor, -1) > place[name]:
                yield f"{label(group)}: {name} runs before {access.tensor}, which it reads"


def spatial_faults(
    factors: Map[str, Map[str, int]], ranks: Iterable[str], dims: Iterable[SpatialDim], who: str
) -> Iterator[str]:
    """Factors of known ranks over known dimensions, their product at most the size of each dimension."""
    sizes = {dim.name: dim.size for dim in dims}
    ranks = tuple(ranks)
    used = dict.fromkeys(sizes, 1)
    for rank, by_dim in factors.items():
        if rank not in ranks:
            yield f"{who}: spatial factor of {rank}, which is not a rank of it ({', '.join(ranks)})"
        for name, factor in by_dim.items():
            if name not in sizes:
                known = ", ".join(sizes) or "none"
                yield f"{who}: unknown spatial dimension '{name}' for {rank} (there are: {known})"
            elif factor < 1:
                yield f"{who}: spatial factor of {rank} over {name} is {factor}, expected at least 1"
            else:
                used[name] *= factor
    for name, product in used.items():
        if product > sizes[name]:
            yield (
                f"{who}: spatial factors over {name} multiply to {product}, but {name} has size {sizes[name]}"
            )


def loop_faults(facts: Facts, group: Group, boundary: int, parent: Map[str, int]) -> Iterator[str]:
    """Loops over known ranks, each rank once, with a tile between 1 and what there is to tile."""
    ranks = facts.cascade.ranks
    above, below = (level.name for level in facts.hardware.levels[boundary : boundary + 2])
    for name in group.order:
        einsum = facts.einsums[name]
        who = f"{label(group)}: {name} between {above} and {below}"
        yield from spatial_faults(
            group.spatial.get(name, {}), einsum.ranks, facts.hardware.levels[boundary].spatial, who
        )
        seen = set()
        for loop in group.nests.get(name, ()):
            if loop.rank not in ranks:
                yield f"{who}: loop over the unknown rank '{loop.rank}'{nearest(loop.rank, ranks)}"
                continue
            if loop.rank in seen:
                yield f"{who}: two loops over {loop.rank}, expected one loop per rank"
            seen.add(loop.rank)
            extent = parent.get(loop.rank, ranks[loop.rank])
            for factor in group.spatial.get(name, {}).get(loop.rank, {}).values():
                extent = -(-extent // max(factor, 1))
            if not 1 <= loop.tile <= extent:
                yield f"{who}: the tile of {loop.rank} is {loop.tile}, expected 1 to {extent}"
