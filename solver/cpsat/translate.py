"""From the neutral model to CP-SAT's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ortools.sat.python import cp_model

from exactile.formulation.families.model import Linear, Lit, Model, Product, Row
from exactile.solver.engine import UnsupportedProblem

LARGEST = 1 << 62
"""CP-SAT wants the bounds of every sum below this."""


def _require_countable(amounts: Iterable[int], name: str) -> None:
    """Raise `UnsupportedProblem` if one unit of something is more than CP-SAT can add up."""
    if any(abs(amount) >= LARGEST for amount in amounts):
        raise UnsupportedProblem(f"cpsat counts with 62 bits, which {name} (in whole units) exceeds")


def _level(amounts: Sequence[int], total: int) -> int:
    """The greatest height to which all amounts can be cut down so that they add up to `total` at most."""
    left = total
    for position, amount in enumerate(sorted(amounts)):
        share = left // (len(amounts) - position)
        if amount > share:
            return share
        left -= amount
    return total


class Translation:
    """The CP-SAT model of a `Model`, as far as the quantities in `wanted` need it.

    `variables[v]` is variable `v`. `limits` are upper limits that hold for good; what they leave no room for
    is left out. So is what CP-SAT cannot count: then `beyond` is a number that one of the quantities reaches
    in every solution left out, else it is `None`.
    """

    def __init__(
        self, model: Model, wanted: Mapping[str, Linear], limits: Mapping[str, int] | None = None
    ) -> None:
        self.source = model
        self.target = cp_model.CpModel()
        self.limits = dict(limits or {})
        self.beyond: int | None = None
        self._saturated: set[int] = set()
        self._quantity_highs: dict[str, int] = {}
        self._lows, self._highs = list(model.lows), list(model.highs)
        self._needed = model.needed(wanted.values())
        for name, linear in wanted.items():
            _require_countable((linear.constant, *(c for _, c in linear.terms)), name)
        for row in self._kept():
            name = "a limit" if row.lifts is None else model.names[row.lifts]
            _require_countable((row.low, *(c for _, c in row.terms)), name)
        self._cap(wanted)
        self.variables = [self._variable(v) for v in range(len(model.names))]
        for clause in model.clauses:
            self.target.add_bool_or([self.literal(lit) for lit in clause])
        for one_hot in model.one_hots:
            self.target.add_exactly_one([self.literal(lit) for lit in one_hot])
        for row in self._kept():
            held = [self.literal(lit) for lit in row.when]
            self._at_least(self._sum(row.terms), row.low, held)
        for product in model.products:
            if product.result in self._needed:
                self._product(product)
        self.quantities = {name: self._quantity(name, linear) for name, linear in wanted.items()}

    def _kept(self) -> Iterator[Row]:
        """The rows that are needed."""
        return (row for row in self.source.rows if row.lifts is None or row.lifts in self._needed)

    def _cap(self, wanted: Mapping[str, Linear]) -> None:
        """No term of a quantity, and nothing that lifts one, exceeds its limit or what CP-SAT can add up."""
        lifting: dict[int, list[Row]] = {}
        for row in self._kept():
            if row.lifts is not None:
                lifting.setdefault(row.lifts, []).append(row)
        waiting: list[int] = []

        def cap(variable: int, most: int, loses_from: int | None = None) -> None:
            """`loses_from`: what a quantity reaches at least where the variable would exceed `most`."""
            high = max(self._lows[variable], most)
            if high < self._highs[variable]:
                self._highs[variable] = high
                waiting.append(variable)
                if loses_from is not None:
                    self._saturated.add(variable)
                    self.beyond = min(loses_from, self.beyond or loses_from)

        rebates = max((-self._least(linear) for linear in wanted.values()), default=0)
        for name, linear in wanted.items():
            least, share = self._bounds(linear)[0], LARGEST // (2 * len(linear.terms) + 2)
            for variable, coefficient in linear.terms:
                if coefficient > 0:
                    if name in self.limits:
                        room = self.limits[name] - least + coefficient * self._lows[variable]
                        cap(variable, room // coefficient)
                    cap(variable, share // coefficient, share // 2 - rebates)
        # all domains together have to be countable too, those of partial products among them
        wide = [v for v in self._needed if self._highs[v] > 1]
        partial = [p.result for p in self.source.products if p.result in self._needed for _ in p.factors[1:]]
        most = _level([self._highs[v] for v in (*wide, *partial, *partial)], LARGEST // 2)
        for variable in wide:
            cap(variable, most, most - most // 8 - rebates)
        while waiting:
            result = waiting.pop()
            for row in lifting.get(result, ()):
                share = LARGEST // (2 * len(row.terms))
                most = sum(max(c * self._lows[v], c * self._highs[v]) for v, c in row.terms) - row.low
                for variable, coefficient in row.terms:
                    if variable == result or coefficient > 0:
                        continue
                    if row.when:
                        cap(variable, share // -coefficient, share // 2 - rebates)
                    else:
                        cap(variable, (most - coefficient * self._lows[variable]) // -coefficient)

    def _least(self, linear: Linear) -> int:
        """The constant and all that can be taken off."""
        return min(0, linear.constant) + sum(c * self._highs[v] for v, c in linear.terms if c < 0)

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
        low, high, name = last.low, last.high, self.source.names[product.result]
        for factor in reversed(factors):
            result: cp_model.IntVar = self.variables[product.result]
            low, most = low * factor.low, min(factor.high * high, self._highs[product.result])
            if factor is not factors[0]:
                result = self.target.new_int_var(low, most, f"partial {name}")
            for amount, condition in factor.floors():
                held = [self.literal(literal) for literal in condition]
                part = so_far
                if amount * high > (most if product.result in self._saturated else LARGEST):
                    part = self._narrow(so_far, most // amount, held, product.result in self._saturated)
                self._at_least(result, amount * part, held)
            so_far, high = result, most

    def _narrow(
        self, value: cp_model.LinearExprT, most: int, held: Sequence[cp_model.LiteralT], saturates: bool
    ) -> cp_model.IntVar:
        """A variable of at least `value`, or of `most` where that is more and it `saturates`."""
        narrow, within = self.target.new_int_var(0, most, "narrow"), list(held)
        if saturates:
            full = self.target.new_bool_var("full")
            self.target.add(narrow == most).only_enforce_if(full)
            within.append(~full)
        self._at_least(narrow, value, within)
        return narrow

    def _at_least(
        self,
        value: cp_model.LinearExprT,
        least: cp_model.LinearExprT | int,
        held: Sequence[cp_model.LiteralT],
    ) -> None:
        """`value ≥ least` where all of `held` holds."""
        row = self.target.add(value >= least)
        if held:
            row.only_enforce_if(held)
