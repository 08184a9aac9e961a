"""What every search of the enumeration has in common: groups searched one by one, and the outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from exactile.formulation.core import evaluate
from exactile.formulation.encoding.bounds import compulsory
from exactile.formulation.encoding.metrics import EXACT_LIMIT
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome, Space, Stopped
from exactile.solver.mmee.candidates import Candidate, Candidates, Point, searched_keys
from exactile.solver.mmee.decode import group_mapping
from exactile.solver.mmee.goal import Goal, Lexicographic
from exactile.solver.mmee.plan_search import Choice
from exactile.solver.mmee.search import search_group
from exactile.solver.mmee.support import Limits
from exactile.solver.orders import Names

SLACK = 1e-12
"""Relative width of a tie above 2**53, where float64 no longer holds every integer."""

GRACE = 0.25
"""Seconds that a stopped search may still spend on finding any mapping at all."""

Best = tuple[list[Names], list[Point]]
"""A partition with the chosen point of every group."""


class Enumeration(ABC):
    """One run. Points of groups are scaled quantities in the order of `keys`."""

    def __init__(self, problem: Problem, control: Control, limits: Limits) -> None:
        self.problem, self.control = problem, control
        self.keys = searched_keys(problem.objective)
        self.candidates = Candidates(problem, self.keys, control.checkpoint, limits)
        self.space = self.candidates.space
        self.evaluated = 0

    @abstractmethod
    def search_all(self) -> bool:
        """Search the groups; whether nothing that can be listed is left. May raise `Stopped`."""

    @abstractmethod
    def best(self) -> Best | None:
        """The best complete partition among the points found so far."""

    @abstractmethod
    def bound(self) -> Fraction | None:
        """A lower bound of the objective by what is known so far; `None` if no partition is left."""

    def run(self, *, rescuing: bool = True) -> Outcome:
        """Search; `rescuing` asks for any mapping if the search is stopped before it has one."""
        try:
            complete = self.search_all()
        except Stopped:
            complete = False
        best = self.best()
        if best is None and not complete and rescuing:
            self._rescue()
            best = self.best()
        bound = self.bound()
        if best is None:
            return self._nothing(complete, bound)
        value = self.value(total(best[1]))[0]
        if bound is None or bound >= value:
            self.control.report(value, value)
            return Outcome("optimal", self._mapping(best), value, "mmee", space=self._space())
        reason = self._left_out() if complete else None
        self.control.report(value, bound)
        return Outcome("feasible", self._mapping(best), bound, "none", reason, self._space())

    def _nothing(self, complete: bool, bound: Fraction | None) -> Outcome:
        if complete and bound is None:
            return Outcome("infeasible", proof="mmee", space=self._space())
        least = compulsory(self.problem, self.problem.objective.minimize)
        reason = self._left_out() if complete else None
        return Outcome("unknown", bound=max(least, bound or least), reason=reason, space=self._space())

    def search(self, candidate: Candidate, goal: Goal, control: Control) -> None:
        """Search one group; above 2**53 again with ties kept and rescored exactly."""
        complete = True
        for group, group_plans in candidate.groups(self.space):
            done, evaluated = search_group(group, group_plans, goal, control)
            complete &= done
            self.evaluated += evaluated
        large = isinstance(goal, Lexicographic) and _large(goal.best)
        if isinstance(goal, Lexicographic) and large and not goal.slack:
            self.search(candidate, Lexicographic(goal.keys, SLACK), control)
            return
        for values, choice in goal.results():
            by_key = dict(zip(goal.keys, values, strict=True))
            point = self.rescored(choice) if large else tuple(int(by_key[key]) for key in self.keys)
            candidate.points.setdefault(point, choice)
        candidate.searched = complete

    def rescored(self, choice: Choice) -> Point:
        """The point of a choice in exact arithmetic, by the core."""
        mapping = Mapping((group_mapping(choice),))
        cost = evaluate(self.problem.cascade, self.problem.hardware, mapping)
        return tuple(int(cost.quantity(key) * self.space.scale(key)) for key in self.keys)

    def _rescue(self) -> None:
        """Nothing was found in time: look for any mapping, Einsum by Einsum, by traffic alone."""
        control = Control(GRACE)
        for names, candidate in self.candidates.by_names.items():
            if len(names) == 1 and not candidate.points:
                candidate.checkpoint = control.checkpoint
                self.search(candidate, Lexicographic(self.keys), control)

    def exact(self, name: str, point: Sequence[int]) -> Fraction:
        """A quantity of a point in base units."""
        if name == "edp":
            return self.exact("energy", point) * self.exact("latency", point)
        return Fraction(point[self.keys.index(name)], self.space.scale(name))

    def value(self, point: Sequence[int]) -> tuple[Fraction, ...]:
        """The objective of a point, key by key."""
        return tuple(self.exact(key, point) for key in self.problem.objective.keys)

    def report(self) -> None:
        """Tell the caller the best value so far."""
        best = self.best()
        if best is not None:
            self.control.report(self.value(total(best[1]))[0], None)

    def _mapping(self, best: Best) -> Mapping:
        chosen = [self.candidates.by_names[n].points[part] for n, part in zip(*best, strict=True)]
        return Mapping(tuple(group_mapping(choice) for choice in chosen))

    def _space(self) -> Space:
        """What was listed. Groups that a lower bound ruled out were not."""
        candidates = self.candidates.by_names.values()
        listed = [c for c in candidates if c.listed]
        largest = max((most for c in listed for most in c.tilings), default=0)
        found = Space(sum(c.structures for c in listed), largest, self.evaluated)
        return replace(found, groups=len(candidates), unlisted=sum(c.too_large for c in candidates))

    def _left_out(self) -> str | None:
        """What a search that was not stopped did not look at."""
        space = self._space()
        parts = []
        if space.unlisted:
            parts.append(
                f"{space.unlisted} of {space.groups} groups are too large to list; bounds stand for them"
            )
        if not self.candidates.every_order:
            parts.append("the Einsums have too many execution orders: only the written one was searched")
        return "; ".join(parts) or None


def total(parts: Sequence[Point]) -> Point:
    """The sum of the points of all groups."""
    return tuple(sum(column) for column in zip(*parts, strict=True))


def _large(values: object) -> bool:
    """Whether some value is beyond what float64 holds exactly, with room for sums."""
    return values is not None and float(np.abs(np.array(values, dtype=np.float64)).max()) >= EXACT_LIMIT / 4
