"""The PuLP problem of a program, with an objective and limits that change from solve to solve."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

import pulp  # type: ignore[import-untyped]

from exactile.formulation.families.model import Linear, Lit
from exactile.solver.milp.program import Program, Row, literal, total

LIMIT_SLACK = 1e-9
"""Relative slack of a limit: the solution that a limit was taken from stays within it."""


class LinearProgram:
    """`problem` is PuLP's, `variables[c]` is column `c`, `scale` turns its objective into scaled units."""

    def __init__(self, name: str, program: Program, quantities: Mapping[str, Linear]) -> None:
        self.program, self.quantities = program, {key: q.merged() for key, q in quantities.items()}
        self.problem = pulp.LpProblem(re.sub(r"\W+", "_", name), pulp.LpMinimize)
        self.variables = [self._variable(column) for column in range(len(program.names))]
        self.scale = 1
        for row in program.rows:
            self._add(row)
        self._limits = {key: self._limit(key, quantity) for key, quantity in self.quantities.items()}

    def _variable(self, column: int) -> Any:
        program = self.program
        name = re.sub(r"\W+", "_", program.names[column], flags=re.ASCII).strip("_")
        kind = pulp.LpInteger if program.whole[column] else pulp.LpContinuous
        return self.problem.add_variable(
            f"x{column}_{name}"[:200], program.lows[column], program.highs[column], kind
        )

    def _add(self, row: Row) -> Any:
        """Coefficients are divided by a power of two near the largest of them, which changes no digit."""
        unit = _power_of_two(max((abs(c) for _, c in row.terms), default=1))
        terms = {self.variables[v]: c / unit for v, c in row.terms}
        sense = pulp.LpConstraintEQ if row.equal else pulp.LpConstraintGE
        constraint = pulp.LpConstraint(pulp.LpAffineExpression(terms), sense, rhs=row.low / unit)
        self.problem.addConstraint(constraint)
        return constraint

    def _limit(self, key: str, quantity: Linear) -> tuple[Any, int]:
        """A row that keeps a quantity below its greatest value, and the unit in which it does."""
        most = self.program.bounds(quantity)[1]
        row = Row(quantity.times(-1).terms, quantity.constant - most)
        return self._add(row), _power_of_two(max((abs(c) for _, c in row.terms), default=1))

    def aim(self, key: str, limits: Mapping[str, int]) -> bool:
        """Minimise a quantity under upper limits; false if nothing is that small."""
        for name, (constraint, unit) in self._limits.items():
            quantity = self.quantities[name]
            low, high = self.program.bounds(quantity)
            most = min(high, limits.get(name, high))
            if most < low:
                return False
            room = most - quantity.constant
            step = self.step(quantity)
            room -= room % step
            constraint.changeRHS(-(room + max(step / 2, LIMIT_SLACK * abs(room))) / unit)
        self._minimize(self.quantities[key])
        return True

    def _minimize(self, quantity: Linear) -> None:
        """The objective is divided so that its least value is in the thousands."""
        least = self.program.bounds(quantity)[0] - quantity.constant
        self.scale = _power_of_two(max(1, self.step(quantity), least // 1000))
        terms = {self.variables[v]: c / self.scale for v, c in quantity.terms}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PuLP warns when an objective is replaced
            self.problem.setObjective(pulp.LpAffineExpression(terms))

    @staticmethod
    def step(quantity: Linear) -> int:
        """All values of a quantity lie a multiple of this apart."""
        return gcd(*(c for _, c in quantity.terms)) or 1

    def exclude(self, chosen: Sequence[Lit]) -> None:
        """Not all of these literals hold."""
        rest = total(literal(-lit) for lit in chosen).merged()
        self._add(Row(rest.terms, 1 - rest.constant))


def _power_of_two(value: int) -> int:
    return 1 << (value.bit_length() - 1)
