"""Objectives that do not add up over groups (energy × latency, limits): a Pareto front for every group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.bounds import compulsory
from exactile.solver.mmee.candidates import Candidate, Point
from exactile.solver.mmee.enumeration import SLACK, Best, Enumeration, total
from exactile.solver.mmee.goal import Floats, Front, Lexicographic
from exactile.solver.mmee.search import search_group
from exactile.solver.orders import Names


class Coupled(Enumeration):
    """The least of every quantity of every group, then fronts of what complete partitions can still reach."""

    complete = False

    def search_all(self) -> bool:
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
                self.search(candidate, Front(self.keys, self._admit(offsets)), self.control)
                self.report()
            if self.control.stopped:
                return False
        self.complete = True
        return True

    def _least(self, candidate: Candidate, key: str) -> int | None:
        """A lower bound of one scaled quantity of a group, `None` if nothing fits; keeps what was found."""
        if key == "operations":
            return int(candidate.floor((key,))[0] * self.space.scale(key))
        goal = Lexicographic((key,))
        for group, group_plans in candidate.groups(self.space):
            self.evaluated += search_group(group, group_plans, goal, self.control)[1]
        for _, choice in goal.results():
            candidate.points.setdefault(self.rescored(choice), choice)
        return None if goal.best is None else int(goal.best[0])

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
                whole = np.array([total(known)], dtype=np.float64)
                if self._reachable(whole, limit)[0]:
                    own = least[candidate.names]
                    assert own is not None
                    rows.append([t - o for t, o in zip(total(known), own, strict=True)])
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
        best = self.best()
        return None if best is None else self.value(total(best[1]))[0]

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

    def bound(self) -> Fraction | None:
        if not self.complete:
            return compulsory(self.problem, self.problem.objective.minimize)
        best = self.best()
        return None if best is None else self.value(total(best[1]))[0]

    def best(self) -> Best | None:
        best: tuple[tuple[Fraction, ...], Best] | None = None
        for partition in self.candidates.partitions:
            found = [self.candidates.by_names[names] for names in partition]
            if any(not c.points for c in found):
                continue
            for whole, parts in _combine([list(c.points) for c in found]):
                if any(self.exact(k, whole) > b for k, b in self.problem.objective.subject_to.items()):
                    continue
                value = self.value(whole)
                if best is None or value < best[0]:
                    best = value, (partition, parts)
        return None if best is None else best[1]


def _combine(fronts: Sequence[list[Point]]) -> list[tuple[Point, list[Point]]]:
    """Sums of one point per group; only the undominated ones."""
    sums: list[tuple[Point, list[Point]]] = [(point, [point]) for point in fronts[0]]
    for front in fronts[1:]:
        sums = [(total((whole, point)), [*parts, point]) for whole, parts in sums for point in front]
        sums = _undominated(sums)
    return sums


def _undominated(sums: list[tuple[Point, list[Point]]]) -> list[tuple[Point, list[Point]]]:
    kept: list[tuple[Point, list[Point]]] = []
    for whole, parts in sorted(sums, key=lambda entry: entry[0]):
        if not any(all(a <= b for a, b in zip(other, whole, strict=True)) for other, _ in kept):
            kept.append((whole, parts))
    return kept
