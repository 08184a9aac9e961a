"""Ways to cut a cascade into fused groups: candidate groups, their orders, and complete partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import islice

from exactile.formulation.problem import Problem

Names = tuple[str, ...]
Graph = Mapping[str, set[str]]

MOST_DOWN_SETS = 600
"""Up to so many sets of Einsums that can be done together, all execution orders are searched."""


def producers(problem: Problem) -> Graph:
    """For every Einsum (by output) the Einsums whose outputs it reads."""
    inside = problem.cascade.by_name
    return {
        einsum.name: {access.tensor for access in einsum.inputs if access.tensor in inside}
        for einsum in problem.cascade.einsums
    }


def candidate_groups(problem: Problem) -> list[Names]:
    """Sets of Einsums (in the written order) that may form a group, small ones first.

    They are cut out of the first of `stages`, so those of any other order are there only if its `every` is.
    """
    names = tuple(e.name for e in problem.cascade.einsums)
    fusion = problem.mapspace.fusion
    if fusion == "none":
        return [(name,) for name in names]
    if fusion != "free":
        return [tuple(sorted(group, key=names.index)) for group in fusion]
    places = sorted({end & ~start for start, end in _cuts(stages(problem)[0])}, key=_places)
    return [tuple(names[place] for place in _places(group)[1:]) for group in places]


def _cuts(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of down-sets, the first inside the second: what lies between may run in one piece."""
    for start in ends:
        for end in ends:
            if end != start and not start & ~end:
                yield start, end


def _places(group: int) -> tuple[int, ...]:
    """The number of bits, and the bits."""
    return (group.bit_count(), *(place for place in range(group.bit_length()) if group >> place & 1))


def stages(problem: Problem) -> tuple[list[int], bool]:
    """Sets of Einsums that can be done when a group ends, and whether all of them are there.

    Sets are bits in the written order. With `order: search` they are the down-sets of the graph; where those
    are more than `MOST_DOWN_SETS`, and for a given order, the beginnings of the written order. Groups that
    are prescribed stand one after another.
    """
    names = [e.name for e in problem.cascade.einsums]
    if not isinstance(problem.mapspace.fusion, str):
        groups = next(partitions(problem, candidate_groups(problem)), [])
        bits = [sum(1 << names.index(name) for name in group) for group in groups]
        return [sum(bits[:count]) for count in range(len(bits) + 1)], True
    written = [(1 << count) - 1 for count in range(len(names) + 1)]
    if problem.mapspace.order == "given":
        return written, True
    graph = producers(problem)
    needed = [sum(1 << names.index(producer) for producer in graph[name]) for name in names]
    found, start = [0], 0
    while start < len(found) <= MOST_DOWN_SETS:
        done, start = found[start], start + 1
        for place, before in enumerate(needed):
            more = done | 1 << place
            if more != done and not before & ~done and more not in found[start:]:
                found.append(more)
    return (written, False) if len(found) > MOST_DOWN_SETS else (found, True)


def execution_orders(problem: Problem, group: Names, most: int | None = None) -> list[Names]:
    """Orders in which the Einsums of a group may run, the first `most` of them."""
    if problem.mapspace.order == "given":
        return [group]
    graph = producers(problem)

    def extend(done: Names, left: set[str]) -> Iterator[Names]:
        if not left:
            yield done
        for name in group:
            if name in left and not graph[name] & left:
                yield from extend((*done, name), left - {name})

    return list(islice(extend((), set(group)), most))


def partitions(problem: Problem, groups: Sequence[Names]) -> Iterator[list[Names]]:
    """All partitions of the cascade into these groups that can run one after another, in such an order."""
    names = [e.name for e in problem.cascade.einsums]
    graph = producers(problem)

    def extend(chosen: list[Names], left: list[str]) -> Iterator[list[Names]]:
        if not left:
            yield chosen
            return
        for group in groups:
            if left[0] in group and set(group) <= set(left):
                yield from extend([*chosen, group], [name for name in left if name not in group])

    for partition in extend([], names):
        owner = {name: group for group in partition for name in group}
        sorter: TopologicalSorter[Names] = TopologicalSorter()
        for group in partition:
            sorter.add(group, *{owner[p] for name in group for p in graph[name]} - {group})
        try:
            yield list(sorter.static_order())
        except CycleError:
            continue  # these groups would have to run before each other


def connected(problem: Problem, group: Names) -> bool:
    """Whether tensors that Einsums of the group have in common may hold it together."""
    uses = {}
    for name in group:
        reads = {access.tensor for access in problem.cascade.by_name[name].inputs}
        uses[name] = {name, *(reads if problem.mapspace.shared_inputs else reads.intersection(group))}
    reached, tensors = {group[0]}, set(uses[group[0]])
    while more := {name for name in group if name not in reached and uses[name] & tensors}:
        reached |= more
        tensors |= {tensor for name in more for tensor in uses[name]}
    return len(reached) == len(group)
