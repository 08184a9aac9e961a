"""The engine: candidate groups, the goal that each of them serves, and the best combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt

from exactile.formulation.core import evaluate
from exactile.formulation.encoding.bounds import compulsory
from exactile.formulation.encoding.metrics import EXACT_LIMIT
from exactile.formulation.encoding.monomials import Group, metric_space, slot_costs
from exactile.formulation.encoding.plan import Plan, plans
from exactile.formulation.encoding.shape import GroupSpec, group_specs
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Objective, Problem
from exactile.solver.engine import Control, Outcome, Space
from exactile.solver.mmee.cache import cached_structures
from exactile.solver.mmee.decode import group_mapping
from exactile.solver.mmee.goal import Floats, Front, Goal, Lexicographic
from exactile.solver.mmee.infeasible import Candidate as Unreachable
from exactile.solver.mmee.infeasible import explain
from exactile.solver.mmee.partitions import Names, candidate_groups, execution_orders, partitions
from exactile.solver.mmee.search import Choice, search_group
from exactile.solver.mmee.support import require_supported

SLACK = 1e-12
"""Relative width of a tie above 2**53, where float64 no longer holds every integer."""

Point = tuple[int, ...]


def mmee(problem: Problem, control: Control) -> Outcome:
    """Search the whole mapspace of `problem` by enumeration.

    Returns the optimum with its proof, or, when `control` stops it, the best mapping so far and a
    valid bound. Raises `UnsupportedProblem` for machines and cascades it cannot list.
    """
    require_supported(problem)
    return _Enumeration(problem, control).run()


@dataclass
class _Candidate:
    """A group with the specs to search and the points found."""

    names: Names
    specs: list[GroupSpec]
    points: dict[Point, Choice] = field(default_factory=dict)
    complete: bool = False


class _Enumeration:
    def __init__(self, problem: Problem, control: Control) -> None:
        self.problem, self.control = problem, control
        objective = problem.objective
        coupled = "edp" in objective.keys or bool(objective.subject_to)
        quantities = [
            k for key in objective.keys for k in (("energy", "latency") if key == "edp" else (key,))
        ]
        limited = [
            k for key in objective.subject_to for k in (("energy", "latency") if key == "edp" else (key,))
        ]
        self.keys = tuple(dict.fromkeys((*quantities, *limited))) if coupled else objective.keys
        self.coupled, self.explaining = coupled, False
        self.structures = self.tilings = self.evaluated = 0
        self.candidates = [self._candidate(names) for names in candidate_groups(problem)]
        self.candidates = [c for c in self.candidates if c.specs]
        self.space = metric_space(problem, [spec for c in self.candidates for spec in c.specs])
        self.partitions = list(partitions(problem, [c.names for c in self.candidates]))
        self._plans: dict[tuple[Names, int], list[tuple[Group, list[Plan]]]] = {}

    def _candidate(self, names: Names) -> _Candidate:
        hardware, mapspace = self.problem.hardware, self.problem.mapspace
        specs = [
            spec
            for order in execution_orders(self.problem, names)
            for spec in group_specs(
                self.problem.cascade,
                order,
                mapspace,
                double_buffer=hardware.levels[1].double_buffer,
                batch_outermost="latency" not in self.keys,
            )
        ]
        return _Candidate(names, specs)

    def run(self) -> Outcome:
        by_name = {c.names: c for c in self.candidates}
        if self.coupled:
            self._search_coupled(by_name)
        else:
            for candidate in self.candidates:
                self._search(candidate, Lexicographic(self.keys))
                if not self.control.stopped:
                    self._report(by_name)
        best = self._best(by_name)
        complete = all(c.complete for c in self.candidates)
        return self._outcome(best, complete)

    def _search(self, candidate: _Candidate, goal: Goal) -> None:
        """Search one group; above 2**53 again with ties kept and rescored exactly."""
        complete = True
        for group, group_plans in self._groups(candidate):
            done, evaluated = search_group(group, group_plans, goal, self.control)
            complete &= done
            self.evaluated += evaluated
        if isinstance(goal, Lexicographic):
            large = goal.best is not None and float(np.abs(goal.best).max()) >= EXACT_LIMIT / 4
            if large and not goal.slack:
                self._search(candidate, Lexicographic(goal.keys, SLACK))
                return
            found = goal.found
        else:
            assert isinstance(goal, Front)
            found = list(zip(goal.points, goal.payload, strict=True))
        for values, payload in found:
            assert isinstance(payload, Choice)
            by_key = dict(zip(goal.keys, values, strict=True))
            candidate.points.setdefault(tuple(int(by_key[key]) for key in self.keys), payload)
        candidate.complete = complete

    def _groups(self, candidate: _Candidate) -> list[tuple[Group, list[Plan]]]:
        key = (candidate.names, 0)
        if key not in self._plans:
            entries = []
            for spec in candidate.specs:
                masks = cached_structures(spec.shape)
                costs = slot_costs(self.problem.cascade, self.problem.hardware, spec)
                group = Group(self.problem, spec, self.space, costs, "latency" in self.keys)
                entries.append((group, plans(spec, masks)))
                self.structures += len(masks)
                self.tilings = max(self.tilings, _tilings(group))
            self._plans[key] = entries
        return self._plans[key]

    def _search_coupled(self, by_name: Map[Names, _Candidate]) -> None:
        """Objectives that do not add up over groups: Pareto fronts, cut off by what complete partitions
        can still reach."""
        least: dict[Names, Point | None] = {}
        for candidate in self.candidates:
            row = []
            for key in self.keys:
                goal = Lexicographic((key, *(k for k in self.keys if k != key)))
                self._search(candidate, goal)
                row.append(None if goal.best is None else int(goal.best[0]))
            least[candidate.names] = None if None in row else tuple(v for v in row if v is not None)
        for candidate in self.candidates:
            if self.control.stopped:
                return
            goal_front = Front(self.keys, self._admit(candidate, least, self._best(by_name)))
            complete_before = candidate.complete
            self._search(candidate, goal_front)
            candidate.complete &= complete_before

    def _admit(
        self,
        candidate: _Candidate,
        least: Map[Names, Point | None],
        best: tuple[list[Names], list[Point]] | None,
    ) -> Callable[[Floats], npt.NDArray[np.bool_]]:
        offsets = []
        for partition in self.partitions:
            if candidate.names in partition:
                others = [least[names] for names in partition if names != candidate.names]
                if None not in others:
                    offsets.append(
                        [sum(o[i] for o in others if o is not None) for i in range(len(self.keys))]
                    )
        limit = None if best is None else self._value(_total(best[1]))

        def admit(values: Floats) -> npt.NDArray[np.bool_]:
            mask = np.zeros(len(values), dtype=bool)
            for offset in offsets:
                mask |= self._reachable(values + np.array(offset, dtype=np.float64), limit)
            return mask

        return admit

    def _reachable(self, values: Floats, limit: tuple[Fraction, ...] | None) -> npt.NDArray[np.bool_]:
        """Whether quantities (or lower bounds of them) respect the limits and reach the incumbent."""
        mask = np.ones(len(values), dtype=bool)
        room = 1 + SLACK
        for name, bound in self.problem.objective.subject_to.items():
            mask &= self._floats(name, values) <= float(bound) * room
        if limit is not None:
            mask &= self._floats(self.problem.objective.minimize, values) <= float(limit[0]) * room
        return mask

    def _floats(self, name: str, values: Floats) -> Floats:
        if name == "edp":
            return self._floats("energy", values) * self._floats("latency", values)
        column: Floats = values[:, self.keys.index(name)] / self.space.scale(name)
        return column

    def _exact(self, name: str, point: Sequence[int]) -> Fraction:
        if name == "edp":
            return self._exact("energy", point) * self._exact("latency", point)
        return Fraction(point[self.keys.index(name)], self.space.scale(name))

    def _value(self, point: Sequence[int]) -> tuple[Fraction, ...]:
        return tuple(self._exact(key, point) for key in self.problem.objective.keys)

    def _best(self, by_name: Map[Names, _Candidate]) -> tuple[list[Names], list[Point]] | None:
        """The best complete partition among the points found so far, in exact arithmetic."""
        best: tuple[tuple[Fraction, ...], list[Names], list[Point]] | None = None
        for partition in self.partitions:
            found = [by_name[names] for names in partition]
            if any(not c.points for c in found):
                continue
            for total, parts in _combine([list(c.points) for c in found], self.coupled):
                if any(self._exact(k, total) > b for k, b in self.problem.objective.subject_to.items()):
                    continue
                value = self._value(total)
                if best is None or value < best[0]:
                    best = (value, partition, parts)
        return None if best is None else best[1:]

    def _report(self, by_name: Map[Names, _Candidate]) -> None:
        best = self._best(by_name)
        if best is not None:
            self.control.report(self._value(_total(best[1]))[0], None)

    def _outcome(self, best: tuple[list[Names], list[Point]] | None, complete: bool) -> Outcome:
        space = Space(self.structures, self.tilings, self.evaluated)
        minimize = self.problem.objective.minimize
        if best is None:
            if complete:
                return Outcome("infeasible", proof="mmee", reason=self._reason(), space=space)
            return Outcome("unknown", bound=compulsory(self.problem, minimize), space=space)
        names, parts = best
        by_name = {c.names: c for c in self.candidates}
        mapping = self._exactly_best(
            [[by_name[n].points[p]] for n, p in zip(names, parts, strict=True)], names, parts, by_name
        )
        value = self._value(_total(parts))[0]
        if complete:
            bound = (
                evaluate(self.problem.cascade, self.problem.hardware, mapping).quantity(minimize)
                if self._inexact(parts)
                else value
            )
            self.control.report(value, bound)
            return Outcome("optimal", mapping, bound, "mmee", space=space)
        return Outcome("feasible", mapping, compulsory(self.problem, minimize), "none", space=space)

    def _reason(self) -> str:
        """Why nothing is feasible; relaxed problems are decided by traffic alone, the cheapest search."""

        def feasible(relaxed: Problem) -> bool:
            if not relaxed.objective.subject_to:
                relaxed = replace(relaxed, objective=Objective("dram_traffic", ()))
            search = _Enumeration(relaxed, self.control)
            search.explaining = True
            return search.run().mapping is not None

        if self.explaining:
            return ""
        limited = {
            k
            for key in self.problem.objective.subject_to
            for k in (("energy", "latency") if key == "edp" else (key,))
        }
        found = []
        for candidate in self.candidates:
            least = None
            if candidate.points:
                least = {key: min(self._exact(key, point) for point in candidate.points) for key in limited}
            found.append(Unreachable(candidate.names, self._groups(candidate), least))
        return explain(self.problem, found, self.partitions, feasible)

    def _inexact(self, parts: Sequence[Point]) -> bool:
        return any(v >= EXACT_LIMIT / 4 for part in parts for v in part)

    def _exactly_best(
        self,
        choices: list[list[Choice]],
        names: list[Names],
        parts: list[Point],
        by_name: Map[Names, _Candidate],
    ) -> Mapping:
        """The mapping of the best point; near ties beyond 2**53 are rescored by the core."""
        groups = [[group_mapping(c) for c in options] for options in choices]
        if not self._inexact(parts) or self.coupled:
            return Mapping(tuple(options[0] for options in groups))
        groups = [
            [group_mapping(c) for p, c in by_name[n].points.items() if p[0] <= part[0] * (1 + SLACK)]
            for n, part in zip(names, parts, strict=True)
        ]
        mappings = [Mapping(combination) for combination in product(*groups)]
        cascade, hardware = self.problem.cascade, self.problem.hardware

        def score(mapping: Mapping) -> tuple[Fraction, ...]:
            cost = evaluate(cascade, hardware, mapping)
            return tuple(cost.quantity(key) for key in self.problem.objective.keys)

        return min(mappings, key=score)


def _tilings(group: Group) -> int:
    total = 1
    for trips, _ in group.tilings.values():
        total *= len(trips)
    return total


def _total(parts: Sequence[Point]) -> Point:
    return tuple(sum(column) for column in zip(*parts, strict=True))


def _combine(fronts: Sequence[list[Point]], pareto: bool) -> list[tuple[Point, list[Point]]]:
    """Sums of one point per group; of a Pareto search only the undominated sums."""
    sums: list[tuple[Point, list[Point]]] = [(point, [point]) for point in fronts[0]]
    for front in fronts[1:]:
        sums = [(_total((total, point)), [*parts, point]) for total, parts in sums for point in front]
        if pareto:
            sums = _undominated(sums)
    return sums


def _undominated(sums: list[tuple[Point, list[Point]]]) -> list[tuple[Point, list[Point]]]:
    kept: list[tuple[Point, list[Point]]] = []
    for total, parts in sorted(sums, key=lambda entry: entry[0]):
        if not any(all(a <= b for a, b in zip(other, total, strict=True)) for other, _ in kept):
            kept.append((total, parts))
    return kept
