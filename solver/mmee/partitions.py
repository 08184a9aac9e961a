"""Ways to cut a cascade into fused groups: candidate groups, their orders, and complete partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import networkx as nx

from exactile.formulation.problem import Problem

Names = tuple[str, ...]


def dependencies(problem: Problem) -> nx.DiGraph[str]:
    """Producer → consumer, by output name."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(e.name for e in problem.cascade.einsums)
    for einsum in problem.cascade.einsums:
        for access in einsum.inputs:
            if access.tensor in problem.cascade.by_name:
                graph.add_edge(access.tensor, einsum.name)
    return graph


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
    graph = dependencies(problem)
    return [group for size in sizes for group in combinations(names, size) if _convex(graph, group)]


def _convex(graph: nx.DiGraph[str], group: Names) -> bool:
    """No path leaves the group and comes back: otherwise the groups could not run one after another."""
    inside = set(group)
    outside_after = {n for name in group for n in nx.descendants(graph, name)} - inside
    return not any(inside & nx.descendants(graph, name) for name in outside_after)


def execution_orders(problem: Problem, group: Names) -> list[Names]:
    """Orders in which the Einsums of a group may run."""
    if problem.mapspace.order == "given":
        return [group]
    graph = dependencies(problem).subgraph(group)
    return [tuple(order) for order in nx.all_topological_sorts(graph)]


def partitions(problem: Problem, groups: Sequence[Names]) -> Iterator[list[Names]]:
    """All partitions of the cascade into these groups that can run one after another, in such an order."""
    graph = dependencies(problem)
    names = [e.name for e in problem.cascade.einsums]

    def extend(chosen: list[Names], left: list[str]) -> Iterator[list[Names]]:
        if not left:
            yield chosen
            return
        for group in groups:
            if left[0] in group and set(group) <= set(left):
                yield from extend([*chosen, group], [name for name in left if name not in group])

    for partition in extend([], names):
        owner = {name: index for index, group in enumerate(partition) for name in group}
        quotient: nx.DiGraph[int] = nx.DiGraph()
        quotient.add_nodes_from(range(len(partition)))
        quotient.add_edges_from((owner[a], owner[b]) for a, b in graph.edges if owner[a] != owner[b])
        if nx.is_directed_acyclic_graph(quotient):
            yield [partition[i] for i in nx.lexicographical_topological_sort(quotient)]
