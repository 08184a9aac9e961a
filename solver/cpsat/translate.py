"""From the neutral model to CP-SAT's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ortools.sat.python import cp_model

from exactile.formulation.families.model import Linear, Lit, Model, Product, Quantity, Row, Terms
from exactile.solver.engine import UnsupportedProblem

LARGEST = 1 << 62
"""CP-SAT wants the bounds of every sum below this."""


def _require_countable(wanted: Mapping[str, Linear]) -> None:
    """Raise `UnsupportedProblem` if one unit of something is more than CP-SAT can add up."""
    for name, linear in wanted.items():
        if any(abs(amount) >= LARGEST for amount in (linear.constant, *(c for _, c in linear.terms))):
            raise UnsupportedProblem(f"cpsat counts with 62 bits, which {name} (in whole units) exceeds")


class Translation:
    """The CP-SAT model of a `Model`, as far as the quantities in `wanted` need it.

    `variables[v]` is variable `v`. A quantity that could exceed what CP-SAT can count is capped: `capped`
    says that solutions beyond were left out.
    """

    def __init__(self, model: Model, wanted: Mapping[str, Linear]) -> None:
        self.source = model
        _require_countable(wanted)
        self.target = cp_model.CpModel()
        self.capped = False
        self._quantity_highs: dict[str, int] = {}
        self._lows, self._highs = list(model.lows), list(model.highs)
        self._needed = model.needed(wanted.values())
        self._cap(wanted.values())
        self.variables = [self._variable(v) for v in range(len(model.names))]
        for clause in model.clauses:
            self.target.add_bool_or([self.literal(lit) for lit in clause])
        for one_hot in model.one_hots:
            self.target.add_exactly_one([self.literal(lit) for lit in one_hot])
        for row in model.rows:
            if row.lifts is None or row.lifts in self._needed:
                constraint = self.target.add(self._sum(row.terms) >= row.low)
                if row.when:
                    constraint.only_enforce_if([self.literal(lit) for lit in row.when])
        for product in model.products:
            if product.result in self._needed:
                self._product(product)
        self.quantities = {name: self._quantity(name, linear) for name, linear in wanted.items()}

    def _cap(self, wanted: Iterable[Linear]) -> None:
        """No term of a quantity, and nothing that lifts one, is larger than CP-SAT can add up."""
        lifting: dict[int, list[Row]] = {}
        for row in self.source.rows:
            if row.lifts in self._needed:
                lifting.setdefault(row.lifts, []).append(row)
        waiting: list[int] = []

        def cap(terms: Terms, most: int) -> None:
            for variable, coefficient in terms:
                high = max(self._lows[variable], most // coefficient) if coefficient > 0 else LARGEST
                if high < self._highs[variable]:
                    self._highs[variable], self.capped = high, True
                    waiting.append(variable)

        for linear in wanted:
            cap(linear.terms, LARGEST // (2 * len(linear.terms) + 2))
        # all domains together have to be countable too
        wide = [v for v in self._needed if self._highs[v] > 1]
        for variable in wide:
            cap(((variable, 1),), LARGEST // (4 * len(wide)))
        while waiting:
            result = waiting.pop()
            for row in lifting.get(result, ()):
                from_below = tuple((v, -c) for v, c in row.terms if v != result)
                room = LARGEST // (2 * len(row.terms)) if row.when else self._highs[result] - row.low
                cap(from_below, room)

    def _variable(self, v: int) -> cp_model.IntVar:
        low, high, name = self._lows[v], self._highs[v], self.source.names[v]
        if v not in self._needed and high > 1:
            low = high = 0
        if (low, high) == (0, 1):
            return self.target.new_bool_var(name)
        return self.target.new_int_var(low, high, name)

    def literal(self, lit: Lit) -> cp_model.LiteralT:
        return self.variables[lit] if lit > 0 else ~self.variables[-lit]

    def _sum(self, terms: Sequence[tuple[int, int]]) -> cp_model.LinearExprT:
        return cp_model.LinearExpr.weighted_sum([self.variables[v] for v, _ in terms], [c for _, c in terms])

    def expression(self, linear: Linear) -> cp_model.LinearExprT:
        merged = linear.merged()
        return self._sum(merged.terms) + merged.constant

    def _quantity(self, name: str, linear: Linear) -> cp_model.IntVar:
        """A variable that is at least the sum, for an objective or a limit."""
        low, high = self._bounds(linear)
        variable = self.target.new_int_var(low, high, name)
        self._quantity_highs[name] = high
        self.target.add(variable >= self.expression(linear))
        return variable

    def limit(self, limits: Mapping[str, int]) -> bool:
        """Upper limits on quantities, in place of the last ones; false if one is out of reach."""
        for name, variable in self.quantities.items():
            domain = self.target.proto.variables[variable.index].domain
            high = min(self._quantity_highs[name], limits.get(name, self._quantity_highs[name]))
            if high < domain[0]:
                return False
            domain[1] = high
        return True

    def hint(self, solution: Sequence[int] | None) -> None:
        """Start from the values of a solution."""
        self.target.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in zip(self.variables, solution or (), strict=False):
            self.target.add_hint(variable, value)

    def _bounds(self, linear: Linear) -> tuple[int, int]:
        low = high = linear.constant
        for variable, coefficient in linear.terms:
            ends = coefficient * self._lows[variable], coefficient * self._highs[variable]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _product(self, product: Product) -> None:
        """Factor by factor, the one with the most steps first: that stays a sum."""
        *factors, last = sorted(product.factors, key=lambda q: len(q.steps))
        so_far = self.expression(self.source.linear(last))
        low, high, most = last.low, last.high, self._highs[product.result]
        for factor in reversed(factors[1:]):
            low, high = low * factor.low, min(factor.high * high, most)
            partial = self.target.new_int_var(low, high, f"partial {self.source.names[product.result]}")
            self._times(factor, so_far, partial)
            so_far = partial
        self._times(factors[0], so_far, self.variables[product.result])

    def _times(self, factor: Quantity, other: cp_model.LinearExprT, result: cp_model.IntVar) -> None:
        """`result ≥ factor · other`: one row per value of the factor, enforced where it is taken."""
        for amount, condition in factor.floors():
            row = self.target.add(result >= amount * other)
            if condition:
                row.only_enforce_if([self.literal(literal) for literal in condition])
