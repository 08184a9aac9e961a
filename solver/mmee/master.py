"""The master problem: the cheapest way to cut a cascade into groups, as a shortest path.

A node of the path is the set of Einsums that are done, a step runs one group. Costs are tuples compared
lexicographically; sums of such tuples keep their order, so shortest paths are right for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exactile.formulation.problem import Problem
from exactile.solver.orders import Names, stages

Values = tuple[int, ...]
Costs = Mapping[Names, Values]


@dataclass(frozen=True)
class Step:
    """A group that may run once the Einsums `before` are done; positions in the list of stages."""

    before: int
    after: int
    group: Names


class Master:
    """All partitions of a cascade into `groups`, in all execution orders that `stages` knows.

    `every`: these are all orders that the mapspace has.
    """

    def __init__(self, problem: Problem, groups: Sequence[Names]) -> None:
        names = [einsum.name for einsum in problem.cascade.einsums]
        done, self.every = stages(problem)
        done.sort(key=int.bit_count)
        places = {stage: place for place, stage in enumerate(done)}
        masks = [(sum(1 << names.index(name) for name in group), group) for group in groups]
        self._count = len(done)
        self._whole = done[-1] == (1 << len(names)) - 1
        self._steps = [
            Step(place, places[stage | mask], group)
            for place, stage in enumerate(done)
            for mask, group in masks
            if not stage & mask and stage | mask in places
        ]

    def partition(self, costs: Costs) -> tuple[Values, list[Names]] | None:
        """The cheapest partition and its groups in execution order; groups without a cost cannot be used."""
        reached, last = self._forward(costs)
        total = reached[-1]
        if total is None or not self._whole:
            return None
        groups, place = [], self._count - 1
        while place:
            step = last[place]
            groups.append(step.group)
            place = step.before
        return total, groups[::-1]

    def through(self, costs: Costs) -> dict[Names, Values]:
        """For every group the cost of the cheapest partition that has it."""
        before, after = self._forward(costs)[0], self._backward(costs)
        found: dict[Names, Values] = {}
        for step in self._steps:
            head, own, tail = before[step.before], costs.get(step.group), after[step.after]
            if head is not None and own is not None and tail is not None:
                total = _sum(_sum(head, own), tail)
                found[step.group] = min(found.get(step.group, total), total)
        return found

    def _forward(self, costs: Costs) -> tuple[list[Values | None], dict[int, Step]]:
        """Per stage the least cost to get there, and the last step."""
        reached: list[Values | None] = [None] * self._count
        reached[0] = (0,) * _width(costs)
        last: dict[int, Step] = {}
        for step in self._steps:
            start, own = reached[step.before], costs.get(step.group)
            if start is not None and own is not None:
                total, known = _sum(start, own), reached[step.after]
                if known is None or total < known:
                    reached[step.after], last[step.after] = total, step
        return reached, last

    def _backward(self, costs: Costs) -> list[Values | None]:
        """Per stage the least cost of what is still to be done."""
        left: list[Values | None] = [None] * self._count
        left[-1] = (0,) * _width(costs)
        for step in reversed(self._steps):
            rest, own = left[step.after], costs.get(step.group)
            if rest is not None and own is not None:
                total, known = _sum(rest, own), left[step.before]
                left[step.before] = total if known is None else min(total, known)
        return left


def _width(costs: Costs) -> int:
    return len(next(iter(costs.values()), ()))


def _sum(first: Values, second: Values) -> Values:
    return tuple(a + b for a, b in zip(first, second, strict=True))
