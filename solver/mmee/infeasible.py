"""Why a problem has no mapping, in a sentence: what is short, by how much, what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from exactile.formulation.core import violations
from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.plan import Plan
from exactile.formulation.encoding.scores import NodeScore
from exactile.formulation.encoding.shared_tiles import shared_count, shared_tiles
from exactile.formulation.mapping import Mapping, UnitMapping
from exactile.formulation.problem import Mapspace, Problem
from exactile.solver.mmee.decode import group_mapping
from exactile.solver.mmee.plan_search import Choice
from exactile.solver.orders import Names

_BLOCK = 1 << 20

Plans = list[tuple[Group, list[Plan]]]


@dataclass(frozen=True)
class Unreachable:
    """A group, its plans, and the least of each limited quantity that it can reach alone."""

    names: Names
    plans: Plans
    least: dict[str, Fraction] | None


def explain(
    problem: Problem,
    candidates: Sequence[Unreachable],
    partitions: Sequence[Sequence[Names]],
    feasible: Callable[[Problem], bool],
) -> str:
    """The sentence for a problem that was proved infeasible. `feasible` decides a relaxed problem."""
    by_name = {c.names: c for c in candidates}
    reached = [p for p in partitions if all(by_name[names].least is not None for names in p)]
    if reached:
        sentence = _limits(problem, [[by_name[names] for names in p] for p in reached])
    else:
        sentence = _shortage(problem, by_name, partitions)
    helps = [words for words, relaxed in _relaxations(problem) if feasible(relaxed)]
    if helps:
        return f"{sentence}; it would be feasible without {' or without '.join(helps)}"
    return sentence


def _limits(problem: Problem, partitions: Sequence[Sequence[Unreachable]]) -> str:
    """Limits of `subject_to` that nothing meets."""
    short = []
    for name, limit in problem.objective.subject_to.items():
        parts = ("energy", "latency") if name == "edp" else (name,)
        least = min(_reach(partition, parts) for partition in partitions)
        if least > limit:
            short.append(f"{name} is at least {_number(least)} and may be at most {_number(limit)}")
    if short:
        return "the limits cannot be met: " + ", ".join(short)
    names = ", ".join(f"{name} ≤ {_number(limit)}" for name, limit in problem.objective.subject_to.items())
    return f"each limit can be met, but no mapping meets all of {names}"


def _reach(partition: Sequence[Unreachable], parts: Sequence[str]) -> Fraction:
    product = Fraction(1)
    for part in parts:
        product *= sum((c.least[part] for c in partition if c.least is not None), Fraction(0))
    return product


def _number(value: Fraction) -> str:
    return f"{value.numerator:,}".replace(",", " ") if value.denominator == 1 else f"{float(value):.6g}"


def _shortage(
    problem: Problem, by_name: dict[Names, Unreachable], partitions: Sequence[Sequence[Names]]
) -> str:
    """The partition that is closest to fitting, and what is short in it."""
    best: tuple[float, str] | None = None
    smallest = {names: _smallest(candidate) for names, candidate in by_name.items()}
    for partition in partitions:
        found = [smallest[names] for names in partition]
        if any(choice is None for _, choice in found):
            continue
        need, choice = max(found, key=lambda entry: entry[0])
        assert choice is not None
        if best is None or need < best[0]:
            best = need, _sentence(problem, choice)
    if best is None:
        return "no loop structure satisfies the restrictions of the mapspace together with the dependencies"
    return best[1]


def _sentence(problem: Problem, choice: Choice) -> str:
    """The capacity violation of the group with the smallest tiles, in the words of the core."""
    level = problem.hardware.levels[1].name
    group = group_mapping(choice)
    others = [e.name for e in problem.cascade.einsums if e.name not in group.order]
    alone = Mapping((group,))
    for fault in violations(problem.cascade, problem.hardware, alone):
        if fault.startswith(f"{level}:") and "capacity" in fault:
            return f"even with the smallest tiles, {fault}"
    return f"{level}: {'+'.join(group.order)} does not fit beside {', '.join(others) or 'nothing'}"


def _smallest(candidate: Unreachable) -> tuple[float, Choice | None]:
    """The least peak of a group, in bits, and a point of the space that has it."""
    best: tuple[float, Choice | None] = (float("inf"), None)
    for group, plans in candidate.plans:
        for plan in plans:
            nodes = [NodeScore(group, plan, node) for node in plan.nodes]
            widest = max(len(node.node.rows) * node.table.unknowns for node in nodes)
            step = max(1, _BLOCK // widest)
            for start in range(0, shared_count(group, plan), step):
                which = np.arange(start, min(start + step, shared_count(group, plan)))
                found = _smallest_block(group, plan, nodes, which)
                if found[0] < best[0]:
                    best = found
    return best


def _smallest_block(
    group: Group, plan: Plan, nodes: Sequence[NodeScore], which: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> tuple[float, Choice]:
    shared = shared_tiles(group, plan, which)
    peaks = [node.peak(np.arange(len(node.node.rows)), shared) for node in nodes]
    need = np.zeros((len(plan.placed), len(which)))
    for node, peak in zip(nodes, peaks, strict=True):
        least = np.full_like(need, np.inf)
        np.minimum.at(least, node.skeletons, peak.min(axis=2))
        need = np.maximum(need, least)
    skeleton, t = np.unravel_index(int(need.argmin()), need.shape)
    rows, own, units = [], [], []
    for node, peak in zip(nodes, peaks, strict=True):
        mine = np.flatnonzero(node.skeletons == skeleton)
        row, column = np.unravel_index(int(peak[mine, t].argmin()), (len(mine), peak.shape[2]))
        rows.append(int(mine[row]))
        own.append(int(column))
        family = group.families[node.node.node][0]
        units.append(
            UnitMapping(family.unit.name, family.dataflow, family.transposed, family.spatial(0), family.order)
        )
    choice = Choice(group, plan, int(which[t]), tuple(rows), tuple(own), tuple(units))
    return float(need[skeleton, t]), choice


def _relaxations(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """The problem without one of its restrictions at a time, and what to call that restriction."""
    default, mapspace = Mapspace(), problem.mapspace
    for key in (
        "fusion",
        "tiles",
        "residency",
        "orders",
        "recomputation",
        "fused_outputs",
        "order",
        "tile_sizes",
    ):
        freest = "all" if key == "tile_sizes" else getattr(default, key)
        if getattr(mapspace, key) != freest:
            changes: dict[str, Any] = {key: freest}
            yield f"mapspace.{key}", replace(problem, mapspace=replace(mapspace, **changes))
    for name in problem.objective.subject_to:
        rest = {key: limit for key, limit in problem.objective.subject_to.items() if key != name}
        yield f"subject_to.{name}", replace(problem, objective=replace(problem.objective, subject_to=rest))
