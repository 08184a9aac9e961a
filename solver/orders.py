"""Ways to cut a cascade into fused groups: candidate groups, their orders, and complete partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, islice

from exactile.formulation.problem import Problem

Names = tuple[str, ...]
Graph = Mapping[str, set[str]]


def producers(problem: Problem) -> Graph:
    """For every Einsum (by output) the Einsums whose outputs it reads."""
    inside = problem.cascade.by_name
    return {
        einsum.name: {access.tensor for access in einsum.inputs if access.tensor in inside}
        for einsum in problem.cascade.einsums
    }


def candidate_groups(problem: Problem) -> list[Names]:
    """Sets of Einsums (in the written order) that may form a group, small ones first."""
    names = tuple(e.name for e in problem.cascade.einsums)
    fusion = problem.mapspace.fusion
    if fusion == "none":
        return [(name,) for name in names]
    if fusion != "free":
        return [tuple(sorted(group, key=names.index)) for group in fusion]
    sizes = range(1, len(names) + 1)
    if problem.mapspace.order == "given":
        return [names[start : start + size] for size in sizes for start in range(len(names) - size + 1)]
    before = _ancestors(producers(problem), names)
    return [group for size in sizes for group in combinations(names, size) if _convex(before, group)]


def _ancestors(graph: Graph, names: Names) -> Graph:
    """All Einsums that must run before each one; `names` is an execution order."""
    found: dict[str, set[str]] = {}
    for name in names:
        found[name] = graph[name].union(*(found[producer] for producer in graph[name]))
    return found


def _convex(before: Graph, group: Names) -> bool:
    """No path leaves the group and comes back: otherwise the groups could not run one after another."""
    inside = set(group)
    return not any(
        before[between] & inside and any(between in before[last] for last in group)
        for between in before.keys() - inside
    )


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
