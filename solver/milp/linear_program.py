"""The PuLP problem of a program, with an objective and limits that change from solve to solve."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

import pulp  # type: ignore[import-untyped]

from exactile.formulation.families.model import Linear, Lit, Model, Terms
from exactile.solver.milp.program import Program, Row, literal, total

LIMIT_SLACK = 1e-9
"""Least relative slack of a limit."""
WIDEST = 1 << 20
"""Columns of larger values are counted in larger units, for solvers drop coefficients near zero."""


class LinearProgram:
    """A program with the quantities that may be its objective or limited.

    `problem` is PuLP's, `variables[c]` is column `c` in units of `units[c]`. One unit of the objective is
    `unit` of the quantity.
    """

    def __init__(self, name: str, program: Program, quantities: Mapping[str, Linear]) -> None:
        self.program, self.quantities = program, {key: q.merged() for key, q in quantities.items()}
        self.problem = pulp.LpProblem(re.sub(r"\W+", "_", name), pulp.LpMinimize)
        self.units = [_power_of_two(max(1, high // WIDEST)) for high in program.highs]
        self.variables = [self._variable(column) for column in range(len(program.names))]
        self.unit = 1
        for row in program.rows:
            self._add(row)
        self._limits = {key: self._limit(quantity) for key, quantity in self.quantities.items()}

    def _variable(self, column: int) -> Any:
        program = self.program
        name = re.sub(r"\W+", "_", program.names[column], flags=re.ASCII).strip("_")
        kind = pulp.LpInteger if program.whole[column] else pulp.LpContinuous
        unit = self.units[column]
        return self.problem.add_variable(
            f"x{column}_{name}"[:100], program.lows[column] / unit, program.highs[column] / unit, kind
        )

    def _add(self, row: Row) -> Any:
        """Coefficients are divided by a power of two near the largest of them, which changes no digit."""
        unit = self._unit(row.terms)
        terms = self._expression(row.terms, unit)
        sense = pulp.LpConstraintEQ if row.equal else pulp.LpConstraintGE
        constraint = pulp.LpConstraint(pulp.LpAffineExpression(terms), sense, rhs=row.low / unit)
        self.problem.addConstraint(constraint)
        return constraint

    def _limit(self, quantity: Linear) -> Any:
        """A row that keeps a quantity below its greatest value."""
        most = self.program.bounds(quantity)[1]
        return self._add(Row(quantity.times(-1).terms, quantity.constant - most))

    def aim(self, key: str, limits: Mapping[str, int]) -> bool:
        """Minimise a quantity under upper limits; false if one is out of reach.

        Limits are half a step wide of the mark: what meets one exactly stays clear of the solver's tolerance.
        """
        for name, quantity in self.quantities.items():
            low, high = self.program.bounds(quantity)
            most = min(high, limits.get(name, high))
            if most < low:
                return False
            step, room = self.step(name), most - quantity.constant
            slack = max(step / 2, LIMIT_SLACK * abs(room))
            self._limits[name].changeRHS(-(room - room % step + slack) / self._unit(quantity.terms))
        self._minimize(key)
        return True

    def _minimize(self, key: str) -> None:
        """The objective is divided so that its least value is in the thousands."""
        quantity = self.quantities[key]
        least = self.program.bounds(quantity)[0] - quantity.constant
        self.unit = _power_of_two(max(self.step(key), least // 1000))
        self._objective(quantity, self.unit)

    def _objective(self, quantity: Linear, unit: int) -> None:
        terms = self._expression(quantity.terms, unit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PuLP warns when an objective is replaced
            self.problem.setObjective(pulp.LpAffineExpression(terms))

    def price(self, key: str, scale: int) -> None:
        """Take a quantity with its constant, divided by `scale`, as the objective."""
        quantity = self.quantities[key]
        whole = Linear(0, ((Model.TRUE, quantity.constant), *quantity.terms)).merged()
        self._objective(whole, scale)

    def _expression(self, terms: Terms, unit: int) -> dict[Any, float]:
        return {self.variables[v]: c * self.units[v] / unit for v, c in terms}

    def _unit(self, terms: Terms) -> int:
        return _power_of_two(max((abs(c) * self.units[v] for v, c in terms), default=1))

    def step(self, key: str) -> int:
        """All values of a quantity lie a multiple of this apart."""
        return gcd(*(c for _, c in self.quantities[key].terms)) or 1

    def exclude(self, chosen: Sequence[Lit]) -> None:
        """Not all of these literals hold."""
        rest = total(literal(-lit) for lit in chosen).merged()
        self._add(Row(rest.terms, 1 - rest.constant))

    def start(self, values: Mapping[int, bool]) -> dict[Any, float]:
        """Values of columns as values of the variables of PuLP's problem."""
        used = {id(variable) for variable in self.problem.variables()}
        pairs = ((self.variables[column], float(value)) for column, value in values.items())
        return {variable: value for variable, value in pairs if id(variable) in used}


def _power_of_two(value: int) -> int:
    """The greatest one that is no larger."""
    return 1 << (value.bit_length() - 1)
