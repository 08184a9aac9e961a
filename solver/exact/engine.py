"""From a problem to an outcome by sessions: every execution order in turn, each under the best so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from exactile.formulation.core import evaluate
from exactile.formulation.encoding.bounds import compulsory
from exactile.formulation.families.build import Formulation, build
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Objective, Problem
from exactile.solver.construct import construct
from exactile.solver.engine import Control, Outcome, Status, Stopped
from exactile.solver.exact.session import Loader
from exactile.solver.exact.stages import Found, Stages, better
from exactile.solver.explain import explain, roomy
from exactile.solver.orders import Names, execution_orders

MOST_ORDERS = 120
"""Execution orders solved one after the other: all that five Einsums can have."""

FEW_EINSUMS = 4
"""Larger cascades start from a constructed mapping, and their ties are broken in one order only."""

ROOM = 3
"""Of a large cascade, mappings of up to so many times the best are looked at (`bench/cpsat_starts.py`)."""


def solve(problem: Problem, control: Control, load: Loader) -> Outcome:
    """The best mapping over all execution orders, with the proof of the sessions that `load` makes."""

    def search(problem: Problem, control: Control) -> Outcome:
        if problem.mapspace.tile_sizes == "divisors":
            return _Run(problem, control, load).outcome()
        # far fewer tiles, and hardly ever far from the best: a quick incumbent cuts the large space
        divisors = replace(problem, mapspace=replace(problem.mapspace, tile_sizes="divisors"))
        coarse = _Run(divisors, control, load, part=True)
        coarse.outcome()
        return _Run(problem, control, load, coarse.best).outcome()

    def smallest(problem: Problem, control: Control) -> Mapping | None:
        outcome = search(replace(roomy(problem), objective=Objective("peak", ())), control)
        if outcome.status not in ("optimal", "infeasible"):
            raise Stopped
        return outcome.mapping

    outcome = search(problem, control)
    if outcome.status == "infeasible":
        return replace(outcome, reason=explain(problem, control, search, smallest))
    return outcome


def formulations(problem: Problem) -> Iterator[Formulation]:
    """One model per execution order."""
    for order in _orders(problem)[:MOST_ORDERS]:
        yield build(problem, order, problem.objective.measured)


def _orders(problem: Problem) -> list[Names]:
    """Orders of the whole cascade in which the groups that the mapspace asks for are intervals."""
    names = tuple(einsum.name for einsum in problem.cascade.einsums)
    fusion = problem.mapspace.fusion
    orders = execution_orders(problem, names, MOST_ORDERS + 1)
    if isinstance(fusion, str):
        return orders
    return [order for order in orders if all(_contiguous(order, group) for group in fusion)]


def _contiguous(order: Names, group: Names) -> bool:
    places = sorted(order.index(name) for name in group)
    return places[-1] - places[0] == len(places) - 1


class _Run:
    def __init__(
        self,
        problem: Problem,
        control: Control,
        load: Loader,
        start: Found | None = None,
        *,
        part: bool = False,
    ) -> None:
        """`start`: the best so far; `part`: not all that may be searched, so bounds are none of the whole."""
        self.problem, self.control, self.load, self.part = problem, control, load, part
        self.best = start
        self.large = len(problem.cascade.einsums) > FEW_EINSUMS

    def outcome(self) -> Outcome:
        orders = _orders(self.problem)
        if self.large and self.best is None:
            self._start(orders[0])
        least = compulsory(self.problem, self.problem.objective.minimize)
        complete = len(orders) <= MOST_ORDERS
        bounds = [] if complete else [least]
        solved: list[tuple[Names, Stages]] = []
        for order in orders[:MOST_ORDERS]:
            if self.control.stopped:
                complete = False
                bounds.append(least)
                break
            stages = self._stages(order, alone=len(orders) == 1)
            stage = stages.lead(self.problem.objective.subject_to, self.best)
            solved.append((order, stages))
            self.best = better(self.problem.objective.minimize, self.best, stage.best)
            complete &= stage.complete
            if stage.bound is not None or not stage.infeasible:
                bounds.append(max(least, stage.bound or least))
        if complete:
            self._settle(solved)
        return self._outcome(complete, min(bounds, default=least))

    def _start(self, order: Names) -> None:
        """A first mapping of a large cascade, quickly."""
        mapping = construct(self.problem, self.control.share(10), order)
        if mapping is None:
            return
        cost = evaluate(self.problem.cascade, self.problem.hardware, mapping)
        if all(cost.quantity(key) <= most for key, most in self.problem.objective.subject_to.items()):
            self.best = Found(mapping, cost)
            self.control.report(cost.quantity(self.problem.objective.minimize), None)

    def _stages(self, order: Names, *, alone: bool) -> Stages:
        session = self.load(build(self.problem, order, self.problem.objective.measured))
        bounding, room = alone and not self.part, ROOM if self.large else 1
        return Stages(self.problem, session, self.control, bounding, room)

    def _settle(self, solved: Sequence[tuple[Names, Stages]]) -> None:
        """Break ties over all orders; for large cascades, where each takes long, in that of the best."""
        for order, stages in solved:
            if self.best is not None and not (self.large and order != self._order_of(self.best)):
                self.best = stages.settle(self.problem.objective.subject_to, self.best)

    def _order_of(self, found: Found) -> Names:
        return tuple(name for group in found.mapping.groups for name in group.order)

    def _outcome(self, complete: bool, bound: Fraction) -> Outcome:
        status: Status = "unknown"
        if self.best is None:
            if complete:
                return Outcome("infeasible", proof=self.load.proof)
            return Outcome(status, bound=bound)
        value = self.best.cost.quantity(self.problem.objective.minimize)
        status = "optimal" if complete else "feasible"
        found = Outcome(status, self.best.mapping, value if complete else min(bound, value), self.load.proof)
        self.control.report(value, None if self.part else found.bound)
        return found if complete else replace(found, proof="none")
