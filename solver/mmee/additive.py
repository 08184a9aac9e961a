"""Objectives that add up over groups: every group on its own, and the cheapest partition by a master."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from math import ceil

from exactile.formulation.encoding.bounds import compulsory
from exactile.solver.mmee.candidates import Candidate
from exactile.solver.mmee.enumeration import Best, Enumeration
from exactile.solver.mmee.goal import Lexicographic
from exactile.solver.mmee.master import Master, Values
from exactile.solver.mmee.support import MAX_EINSUMS
from exactile.solver.orders import Names


class Additive(Enumeration):
    """Groups are bounded from below until they are searched; so is every partition, and the best of all.

    The master over least known costs gives the answer, the same master over bounds gives its bound.
    """

    @cached_property
    def master(self) -> Master:
        """All partitions of the cascade."""
        return Master(self.problem, list(self.candidates.by_names))

    @cached_property
    def floors(self) -> dict[Names, Values]:
        """Lower bounds of the points of all groups."""
        scales = [self.space.scale(key) for key in self.keys]
        return {
            names: tuple(
                ceil(floor * scale) for floor, scale in zip(candidate.floor(self.keys), scales, strict=True)
            )
            for names, candidate in self.candidates.by_names.items()
        }

    def search_all(self) -> bool:
        if len(self.problem.cascade.einsums) > MAX_EINSUMS:
            return self._small_first()
        while waiting := self._promising():
            for candidate in waiting:
                self._search(candidate)
                if self.control.stopped:
                    return False
                if not candidate.points:
                    break
            self.report()
        return True

    def _promising(self) -> list[Candidate]:
        """What is still to be searched of the partition with the least bound."""
        found = self.master.partition(self._bounds())
        groups = [] if found is None else [self.candidates.by_names[names] for names in found[1]]
        return [candidate for candidate in groups if not candidate.searched]

    def _small_first(self) -> bool:
        """Every group, cheap ones first, unless no partition with it can beat the best so far."""
        candidates = self.candidates.by_names.values()
        for candidate in sorted(candidates, key=lambda c: (len(c.names), sum(c.tilings))):
            if not self._could_improve(candidate):
                continue
            if not candidate.small:
                candidate.too_large = True
                continue
            self._search(candidate)
            if self.control.stopped:
                return False
            self.report()
        return True

    def _could_improve(self, candidate: Candidate) -> bool:
        best = self.master.partition(self._found())
        through = self.master.through(self._bounds()).get(candidate.names)
        return through is not None and (best is None or through < best[0])

    def _search(self, candidate: Candidate) -> None:
        self.search(candidate, Lexicographic(self.keys), self.control)

    def _found(self) -> dict[Names, Values]:
        """The best point of every group that has one."""
        candidates = self.candidates.by_names.items()
        return {names: min(candidate.points) for names, candidate in candidates if candidate.points}

    def _bounds(self) -> Mapping[Names, Values]:
        """A lower bound of every group: its optimum if it was searched; none if nothing fits."""
        bounds = dict(self.floors)
        for names, candidate in self.candidates.by_names.items():
            if candidate.searched:
                del bounds[names]
                if candidate.points:
                    bounds[names] = min(candidate.points)
        return bounds

    def best(self) -> Best | None:
        found = self.master.partition(self._found())
        if found is None:
            return None
        return found[1], [min(self.candidates.by_names[names].points) for names in found[1]]

    def bound(self) -> Fraction | None:
        minimize = self.problem.objective.minimize
        least = compulsory(self.problem, minimize)
        if not self.candidates.every_order:
            return least
        found = self.master.partition(self._bounds())
        return None if found is None else max(least, self.exact(minimize, found[0]))
