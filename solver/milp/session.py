"""A linear program that is solved again and again with other objectives and limits.

The solvers compute in floating point, so nothing they say is taken as it is. Every solution is decoded and
judged in exact integers: one that breaks a capacity or a limit by less than they can see is cut off, one
whose exact cost is not what they say is looked for again with a finer tolerance. Bounds are lowered by the
tolerance, and a claim that contradicts a known solution is not passed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite

from exactile.formulation.core import evaluate, violations
from exactile.formulation.families.build import Formulation
from exactile.formulation.families.decode import decode
from exactile.formulation.families.model import Lit
from exactile.solver.engine import Control
from exactile.solver.exact.session import Answer, Incumbent
from exactile.solver.milp.linear_program import LinearProgram
from exactile.solver.milp.solved import Solved, Watch, installed
from exactile.solver.milp.translate import translate

TOLERANCE = 1e-6
"""Relative error that a proof may have."""
COARSE, FINE = 1e-6, 1e-9
"""What a solver may miss rows and whole numbers by, at first and after a doubtful solution."""
MOST_TRIES = 50
"""Doubtful solutions looked at in one solve before it is given up."""


@dataclass(frozen=True)
class _Point:
    """A legal solution: the values of the Booleans and the exact scaled quantities."""

    values: Mapping[int, bool]
    exact: Mapping[str, int]

    def holds(self, literal: Lit) -> bool:
        return self.values[literal] if literal > 0 else not self.values[-literal]

    def within(self, limits: Mapping[str, int]) -> bool:
        return all(self.exact[name] <= most for name, most in limits.items())


class MilpSession:
    """One program per set of quantities that are minimised or limited together."""

    proof = "milp (float, 1e-6)"
    tolerance = TOLERANCE

    def __init__(self, formulation: Formulation) -> None:
        self.formulation = formulation
        self._programs: dict[frozenset[str], LinearProgram] = {}
        self._known: _Point | None = None
        self._solve = installed()

    def minimize(self, key: str, limits: Mapping[str, int], control: Control, incumbent: Incumbent) -> Answer:
        """The least value of a quantity; see `Session`."""
        target = self._program(frozenset({key, *limits}))
        if not target.aim(key, limits):
            return Answer("infeasible")
        search = _Search(target, key, incumbent)

        def improved(values: Sequence[float], bound: float) -> None:
            point = self._point(values, target)
            if point is not None and point.within(limits):
                self._known = point
                search.improved(point, bound)

        watch = Watch(control, improved)
        start = {} if self._known is None else target.start(self._known.values)
        tolerance = COARSE
        for _ in range(MOST_TRIES):
            if control.stopped:
                break
            solved = self._solve(target.problem, target.variables, start, tolerance, watch)
            search.note(solved)
            if solved.status == "infeasible":
                return self._nothing(limits)
            if solved.values is None:
                break
            point = self._point(solved.values, target)
            if point is None or not point.within(limits):
                target.exclude(self._choices(solved.values))
            else:
                self._known = point
                doubtful = not search.agrees(point, solved)
                if solved.status != "optimal" or not doubtful or tolerance == FINE:
                    return search.answer(point, "feasible" if doubtful else solved.status)
            # HiGHS 1.16 may also return the start as the solution of a better value: go without one
            start, tolerance = {}, FINE
        if self._known is not None and self._known.within(limits):
            return search.answer(self._known, "feasible")
        return Answer("unknown", search.bound)

    def _program(self, keys: frozenset[str]) -> LinearProgram:
        if keys not in self._programs:
            quantities = {key: self.formulation.costs.quantities[key] for key in sorted(keys)}
            name = self.formulation.decisions.layout.problem.name
            program = translate(self.formulation.model, quantities.values())
            self._programs[keys] = LinearProgram(name, program, quantities)
        return self._programs[keys]

    def _nothing(self, limits: Mapping[str, int]) -> Answer:
        """What to make of a claim that nothing is feasible."""
        if self._known is not None and self._known.within(limits):
            return Answer("feasible", holds=self._known.holds)
        return Answer("infeasible")

    def _point(self, solution: Sequence[float], target: LinearProgram) -> _Point | None:
        """A solution in exact numbers; `None` if its mapping is illegal."""
        count = len(self.formulation.model.names)
        values = {v: solution[v] > 0.5 for v in range(1, count) if target.program.whole[v]}
        values[self.formulation.model.TRUE] = True
        problem, space = self.formulation.decisions.layout.problem, self.formulation.costs.space
        point = _Point(values, {})
        mapping = decode(self.formulation, point.holds)
        if violations(problem.cascade, problem.hardware, mapping, problem.mapspace):
            return None
        cost = evaluate(problem.cascade, problem.hardware, mapping)
        exact = {
            name: int(cost.quantity(name) * space.scale(name)) for name in self.formulation.costs.quantities
        }
        return _Point(values, exact)

    def _choices(self, solution: Sequence[float]) -> list[Lit]:
        """The literals of a solution that its mapping is read from."""
        decisions = self.formulation.decisions
        read = [*decisions.together, *decisions.shared.values(), *decisions.outside.values(), *decisions.link]
        read += [lit for literals in decisions.reach.values() for lit in literals]
        read += [lit for use in self.formulation.uses for lit in use.literals]
        variables = {abs(lit) for lit in read} - {self.formulation.model.TRUE}
        return [v if solution[v] > 0.5 else -v for v in sorted(variables)]


class _Search:
    """One quantity of a program: its values and bounds, from units of the objective to scaled units."""

    def __init__(self, target: LinearProgram, key: str, incumbent: Incumbent) -> None:
        self.target, self.key, self.incumbent = target, key, incumbent
        self.bound: int | None = None

    def improved(self, point: _Point, bound: float) -> None:
        """A better solution while the solver runs."""
        value = point.exact[self.key]
        self.incumbent(value, min(value, self._safe(bound)) if isfinite(bound) else None)

    def note(self, solved: Solved) -> None:
        """Keep the best bound: cutting off illegal solutions only raises it."""
        if solved.bound is not None:
            found = self._safe(solved.bound)
            self.bound = found if self.bound is None else max(self.bound, found)

    def agrees(self, point: _Point, solved: Solved) -> bool:
        """Whether the exact cost is what the solver says."""
        assert solved.value is not None
        claimed = self._scaled(solved.value)
        return abs(point.exact[self.key] - claimed) <= TOLERANCE * max(1.0, abs(claimed))

    def answer(self, point: _Point, status: str) -> Answer:
        bound = None if self.bound is None else min(self.bound, point.exact[self.key])
        return Answer("optimal" if status == "optimal" else "feasible", bound, point.holds)

    def _scaled(self, value: float) -> float:
        return self.target.quantities[self.key].constant + value * self.target.unit

    def _safe(self, bound: float) -> int:
        """The least value of the quantity that a bound in floating point leaves possible."""
        step, whole = self.target.step(self.key), bound * self.target.unit
        lowered = whole - TOLERANCE * max(1.0, abs(self._scaled(bound)))
        return self.target.quantities[self.key].constant + step * ceil(lowered / step)
