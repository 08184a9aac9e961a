"""The engine: which groups to search for what, and the best combination of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from exactile.formulation.core import evaluate
from exactile.formulation.encoding.bounds import compulsory
from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.metrics import EXACT_LIMIT
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome, Space, Status, UnsupportedProblem
from exactile.solver.explain import explain
from exactile.solver.mmee.candidates import (
    Candidate,
    Candidates,
    Point,
    coupled,
    searched_keys,
)
from exactile.solver.mmee.decode import group_mapping
from exactile.solver.mmee.goal import Floats, Front, Goal, Lexicographic
from exactile.solver.mmee.search import search_group
from exactile.solver.mmee.smallest import smallest
from exactile.solver.mmee.support import require_supported
from exactile.solver.orders import Names

SLACK = 1e-12
"""Relative width of a tie above 2**53, where float64 no longer holds every integer."""

GRACE = 0.25
"""Seconds that a stopped search may still spend on finding any mapping at all."""

Best = tuple[list[Names], list[Point]]


def mmee(problem: Problem, control: Control) -> Outcome:
    """Search the whole mapspace of `problem` by enumeration.

    Returns the optimum with its proof, or, when `control` stops it, the best mapping so far and a
    valid bound. Raises `UnsupportedProblem` for machines and cascades it cannot list.
    """
    require_supported(problem)
    # the matrices are small: one thread multiplies them faster than two that wait for each other
    with threadpool_limits(limits=1, user_api="blas"):
        if problem.mapspace.tile_sizes == "all":
            outcome = _coarse_first(problem, control)
        else:
            outcome = _Enumeration(problem, control).run()
        if outcome.status == "infeasible":
            return replace(outcome, reason=explain(problem, control, _search, smallest))
        return outcome


def _search(problem: Problem, control: Control) -> Outcome:
    """The search that an explanation asks about relaxed problems."""
    return _Enumeration(problem, control).run(rescuing=False)


def _coarse_first(problem: Problem, control: Control) -> Outcome:
    """Search the divisors before all tile sizes: a good mapping early, in case there is no more time."""
    divisors = replace(problem, mapspace=replace(problem.mapspace, tile_sizes="divisors"))
    coarse = _Enumeration(divisors, control).run()
    status: Status = "unknown" if coarse.mapping is None else "feasible"
    bound = compulsory(problem, problem.objective.minimize)
    unfinished = replace(coarse, status=status, bound=bound, proof="none", reason=None)
    if control.stopped:
        return unfinished
    try:
        fine = _Enumeration(problem, control).run(rescuing=coarse.mapping is None)
    except UnsupportedProblem as error:
        if coarse.mapping is None:
            raise
        return replace(unfinished, reason=str(error))
    if fine.status in ("optimal", "infeasible") or coarse.mapping is None:
        return fine
    better = fine.mapping is not None and _score(problem, fine.mapping) < _score(problem, coarse.mapping)
    return replace(fine, status="feasible", mapping=fine.mapping if better else coarse.mapping)


def _score(problem: Problem, mapping: Mapping) -> tuple[Fraction, ...]:
    """The objective of a mapping, key by key, as the core computes it."""
    cost = evaluate(problem.cascade, problem.hardware, mapping)
    return tuple(cost.quantity(key) for key in problem.objective.keys)


class _Enumeration:
    """One run. Points of groups are scaled quantities in the order of `keys`."""

    def __init__(self, problem: Problem, control: Control) -> None:
        self.problem, self.control = problem, control
        self.coupled, self.keys = coupled(problem.objective), searched_keys(problem.objective)
        self.candidates = Candidates(problem, self.keys, control.checkpoint)
        self.space = self.candidates.space
        self.evaluated = 0

    def run(self, *, rescuing: bool = True) -> Outcome:
        """Search; `rescuing` asks for any mapping if the search is stopped before it has one."""
        complete = self._search_coupled() if self.coupled else self._search_additive()
        best = self._best()
        if best is None and not complete and rescuing:
            self._rescue()
            best = self._best()
        if best is not None:
            return self._found(best, complete)
        minimize = self.problem.objective.minimize
        if not complete:
            return Outcome("unknown", bound=compulsory(self.problem, minimize), space=self._space())
        return Outcome("infeasible", proof="mmee", space=self._space())

    def _search_additive(self) -> bool:
        """Partitions by rising lower bound, until the bound reaches the best so far."""
        for partition in self.candidates.partitions:
            best = self._best()
            if best is not None and self.candidates.floor(partition) >= self._value(_total(best[1])):
                continue
            for names in partition:
                candidate = self.candidates.by_names[names]
                if not candidate.searched:
                    self._search(candidate, Lexicographic(self.keys), self.control)
                if self.control.stopped:
                    return False
                if not candidate.points:
                    break
            self._report()
        return True

    def _search_coupled(self) -> bool:
        """Objectives that do not add up over groups: the least of every quantity, then Pareto fronts of
        what complete partitions can still reach."""
        candidates = self.candidates.by_names.values()
        least: dict[Names, Point | None] = {}
        for candidate in candidates:
            row = [self._least(candidate, key) for key in self.keys]
            if self.control.stopped:
                return False
            least[candidate.names] = None if None in row else tuple(v for v in row if v is not None)
        for candidate in candidates:
            offsets = self._offsets(candidate, least)
            if len(offsets):
                self._search(candidate, Front(self.keys, self._admit(offsets)), self.control)
                self._report()
            if self.control.stopped:
                return False
        return True

    def _search(self, candidate: Candidate, goal: Goal, control: Control) -> None:
        """Search one group; above 2**53 again with ties kept and rescored exactly."""
        complete = True
        for group, group_plans in candidate.groups(self.space):
            done, evaluated = search_group(group, group_plans, goal, control)
            complete &= done
            self.evaluated += evaluated
        large = isinstance(goal, Lexicographic) and _large(goal.best)
        if isinstance(goal, Lexicographic) and large and not goal.slack:
            self._search(candidate, Lexicographic(goal.keys, SLACK), control)
            return
        for values, choice in goal.results():
            by_key = dict(zip(goal.keys, values, strict=True))
            candidate.points.setdefault(tuple(int(by_key[key]) for key in self.keys), choice)
        candidate.searched = complete

    def _least(self, candidate: Candidate, key: str) -> int | None:
        """A lower bound of one scaled quantity of a group, `None` if nothing fits; keeps what was found."""
        if key == "operations":
            return int(candidate.floor((key,))[0] * self.space.scale(key))
        goal = Lexicographic((key,))
        for group, group_plans in candidate.groups(self.space):
            self.evaluated += search_group(group, group_plans, goal, self.control)[1]
        for _, choice in goal.results():
            mapping = Mapping((group_mapping(choice),))
            cost = evaluate(self.problem.cascade, self.problem.hardware, mapping)
            point = tuple(int(cost.quantity(k) * self.space.scale(k)) for k in self.keys)
            candidate.points.setdefault(point, choice)
        return None if goal.best is None else int(goal.best[0])

    def _rescue(self) -> None:
        """Nothing was found in time: look for any mapping, Einsum by Einsum, by traffic alone."""
        control = Control(GRACE)
        for names, candidate in self.candidates.by_names.items():
            if len(names) == 1 and not candidate.points:
                self._search(candidate, Lexicographic(self.keys), control)

    def _offsets(self, candidate: Candidate, least: dict[Names, Point | None]) -> Floats:
        """Per partition with this group that could still matter: the least the other groups add."""
        rows = []
        limit = self._limit()
        for partition in self.candidates.partitions:
            if candidate.names not in partition:
                continue
            parts = [least[names] for names in partition]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                whole = np.array([_total(known)], dtype=np.float64)
                if self._reachable(whole, limit)[0]:
                    own = least[candidate.names]
                    assert own is not None
                    rows.append([t - o for t, o in zip(_total(known), own, strict=True)])
        return np.array(rows, dtype=np.float64)

    def _admit(self, offsets: Floats) -> Callable[[Floats], npt.NDArray[np.bool_]]:
        limit = self._limit()

        def admit(values: Floats) -> npt.NDArray[np.bool_]:
            mask = np.zeros(len(values), dtype=bool)
            for offset in offsets:
                mask |= self._reachable(values + offset, limit)
            return mask

        return admit

    def _limit(self) -> Fraction | None:
        best = self._best()
        return None if best is None else self._value(_total(best[1]))[0]

    def _reachable(self, values: Floats, limit: Fraction | None) -> npt.NDArray[np.bool_]:
        """Whether quantities (or lower bounds of them) respect the limits and reach the incumbent."""
        mask = np.ones(len(values), dtype=bool)
        room = 1 + SLACK
        for name, bound in self.problem.objective.subject_to.items():
            mask &= self._floats(name, values) <= float(bound) * room
        if limit is not None:
            mask &= self._floats(self.problem.objective.minimize, values) <= float(limit) * room
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

    def _best(self) -> Best | None:
        """The best complete partition among the points found so far, in exact arithmetic."""
        best: tuple[tuple[Fraction, ...], Best] | None = None
        for partition in self.candidates.partitions:
            found = [self.candidates.by_names[names] for names in partition]
            if any(not c.points for c in found):
                continue
            for total, parts in _combine([list(c.points) for c in found], self.coupled):
                if any(self._exact(k, total) > b for k, b in self.problem.objective.subject_to.items()):
                    continue
                value = self._value(total)
                if best is None or value < best[0]:
                    best = value, (partition, parts)
        return None if best is None else best[1]

    def _report(self) -> None:
        best = self._best()
        if best is not None:
            self.control.report(self._value(_total(best[1]))[0], None)

    def _found(self, best: Best, complete: bool) -> Outcome:
        minimize = self.problem.objective.minimize
        mapping = self._mapping(best)
        if not complete:
            bound = compulsory(self.problem, minimize)
            return Outcome("feasible", mapping, bound, "none", space=self._space())
        value = self._value(_total(best[1]))[0]
        if _large(best[1]):
            value = evaluate(self.problem.cascade, self.problem.hardware, mapping).quantity(minimize)
        self.control.report(value, value)
        return Outcome("optimal", mapping, value, "mmee", space=self._space())

    def _mapping(self, best: Best) -> Mapping:
        """The mapping of the best point; near ties beyond 2**53 are rescored by the core."""
        names, parts = best
        candidates = [self.candidates.by_names[n] for n in names]
        if self.coupled or not _large(parts):
            chosen = [c.points[part] for c, part in zip(candidates, parts, strict=True)]
            return Mapping(tuple(group_mapping(choice) for choice in chosen))
        near = [
            [group_mapping(choice) for p, choice in c.points.items() if p[0] <= part[0] * (1 + SLACK)]
            for c, part in zip(candidates, parts, strict=True)
        ]
        return min(
            (Mapping(groups) for groups in product(*near)), key=lambda mapping: _score(self.problem, mapping)
        )

    def _space(self) -> Space:
        """What was listed. Groups that a lower bound ruled out were not."""
        listed = [c for c in self.candidates.by_names.values() if c.listed]
        tilings = [_tilings(group) for c in listed for group, _ in c.groups(self.space)]
        return Space(sum(c.structures for c in listed), max(tilings, default=0), self.evaluated)


def _large(values: object) -> bool:
    """Whether some value is beyond what float64 holds exactly, with room for sums."""
    return values is not None and float(np.abs(np.array(values, dtype=np.float64)).max()) >= EXACT_LIMIT / 4


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
