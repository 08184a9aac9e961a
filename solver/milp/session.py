"""A linear program that is solved again and again with other objectives and limits.

HiGHS computes in floating point, so nothing it says is taken as it is. Every solution is decoded and judged
in exact integers; one that breaks a capacity or a limit by less than HiGHS can see is cut off, and the
program solved again. Bounds are lowered by the tolerance. A claim that a solution is optimal is passed on
only if its exact cost agrees with the claimed value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, isfinite

from exactile.formulation.core import evaluate, violations
from exactile.formulation.families.build import Formulation
from exactile.formulation.families.decode import Holds, decode
from exactile.formulation.families.model import Linear, Lit
from exactile.solver.engine import Control
from exactile.solver.exact.session import Answer, Incumbent
from exactile.solver.milp.highs import Solved, solve
from exactile.solver.milp.linear_program import LinearProgram
from exactile.solver.milp.translate import translate

TOLERANCE = 1e-6
MOST_CUTS = 50
"""Illegal solutions cut off in one solve before it is given up."""


class MilpSession:
    """`limits` and objective of the last solve are taken back before the next."""

    proof = "milp (float, 1e-6)"

    def __init__(self, formulation: Formulation) -> None:
        self.formulation = formulation
        self.target = LinearProgram(
            formulation.decisions.layout.problem.name,
            translate(formulation.model),
            formulation.costs.quantities,
        )
        self._last: list[float] | None = None

    def minimize(self, key: str, limits: Mapping[str, int], control: Control, incumbent: Incumbent) -> Answer:
        """The least value of a quantity; see `Session`."""
        if not self.target.aim(key, limits):
            return Answer("infeasible")
        quantity, unit = self.target.quantities[key], self.target.scale

        def improved(value: float, bound: float) -> None:
            least = self._safe(quantity, bound * unit) if isfinite(bound) else None
            incumbent(quantity.constant + round(value * unit), least)

        best: int | None = None
        for _ in range(MOST_CUTS):
            if control.stopped:
                break
            solved = solve(self.target.problem, self.target.variables, self._last, control, improved)
            if solved.bound is not None:
                best = self._safe(quantity, solved.bound * unit)
            if solved.status == "infeasible":
                return Answer("infeasible")
            if solved.values is None:
                break
            answer = self._judged(key, limits, solved)
            if answer is not None:
                self._last = list(solved.values)
                return answer
        return Answer("unknown", best)

    @staticmethod
    def _safe(quantity: Linear, bound: float) -> int:
        """The least value of the quantity that a bound in floating point leaves possible."""
        step = LinearProgram.step(quantity)
        lowered = bound - TOLERANCE * max(1.0, abs(bound))
        return quantity.constant + step * ceil(lowered / step)

    def _judged(self, key: str, limits: Mapping[str, int], solved: Solved) -> Answer | None:
        """The answer that a solution gives, or `None` for one that is illegal: it is cut off."""
        assert solved.values is not None and solved.value is not None
        values, quantity, unit = solved.values, self.target.quantities[key], self.target.scale

        def holds(literal: Lit) -> bool:
            return values[literal] > 0.5 if literal > 0 else values[-literal] <= 0.5

        exact = self._exact(holds, limits)
        if exact is None:
            self.target.exclude([lit if holds(lit) else -lit for lit in self._decisions()])
            return None
        claimed = quantity.constant + solved.value * unit
        bound = None if solved.bound is None else min(exact[key], self._safe(quantity, solved.bound * unit))
        answer = Answer(solved.status, bound, holds)
        if abs(exact[key] - claimed) > TOLERANCE * max(1.0, abs(claimed)):
            return replace(answer, status="feasible")
        return answer

    def _exact(self, holds: Holds, limits: Mapping[str, int]) -> dict[str, int] | None:
        """Exact scaled quantities of a solution; `None` if its mapping is illegal or breaks a limit."""
        problem, space = self.formulation.decisions.layout.problem, self.formulation.costs.space
        mapping = decode(self.formulation, holds)
        if violations(problem.cascade, problem.hardware, mapping, problem.mapspace):
            return None
        cost = evaluate(problem.cascade, problem.hardware, mapping)
        exact = {name: int(cost.quantity(name) * space.scale(name)) for name in self.target.quantities}
        return None if any(exact[name] > most for name, most in limits.items()) else exact

    def _decisions(self) -> list[Lit]:
        """The literals that a mapping is read from."""
        decisions = self.formulation.decisions
        found = [
            *decisions.together,
            *decisions.shared.values(),
            *decisions.outside.values(),
            *decisions.link,
        ]
        found += [lit for literals in decisions.reach.values() for lit in literals]
        found += [lit for use in self.formulation.uses for lit in use.literals]
        return [lit for lit in found if lit > 1]
