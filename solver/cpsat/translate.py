"""From the neutral model to CP-SAT's."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from exactile.formulation.families.model import Linear, Lit, Model, Product, Quantity


class Translation:
    """The CP-SAT model of a `Model`: `variables[v]` is variable `v`."""

    def __init__(self, model: Model) -> None:
        self.source = model
        self._highs: dict[str, int] = {}
        self.target = cp_model.CpModel()
        self.variables = [self._variable(v) for v in range(len(model.names))]
        for clause in model.clauses:
            self.target.add_bool_or([self.literal(lit) for lit in clause])
        for one_hot in model.one_hots:
            self.target.add_exactly_one([self.literal(lit) for lit in one_hot])
        for row in model.rows:
            total = self._sum(row.terms)
            constraint = self.target.add(total >= row.low)
            if row.when:
                constraint.only_enforce_if([self.literal(lit) for lit in row.when])
        for product in model.products:
            self._product(product)

    def _variable(self, v: int) -> cp_model.IntVar:
        low, high, name = self.source.lows[v], self.source.highs[v], self.source.names[v]
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

    def quantity(self, name: str, linear: Linear) -> cp_model.IntVar:
        """A variable that is at least the sum, for an objective or a limit."""
        merged = linear.merged()
        low, high = self.source.bounds(merged)
        variable = self.target.new_int_var(low, high, name)
        self.target.add(variable >= self.expression(merged))
        self._highs[name] = high
        return variable

    def set_high(self, name: str, variable: cp_model.IntVar, most: int | None) -> bool:
        """Limit a quantity from above (`None` takes the limit back); false if nothing is that small."""
        domain = self.target.proto.variables[variable.index].domain
        domain[1] = self._highs[name]
        if most is not None and most < domain[0]:
            return False
        domain[1] = self._highs[name] if most is None else min(self._highs[name], most)
        return True

    def _product(self, product: Product) -> None:
        factors = sorted(product.factors, key=lambda q: len(q.choices))
        total: Linear = self.source.linear(factors[-1])
        for position, factor in enumerate(reversed(factors[:-1])):
            last = position == len(factors) - 2
            total = self._times(factor, total, product.result if last else None)

    def _times(self, factor: Quantity, other: Linear, result: int | None) -> Linear:
        """At least `factor · other`: one row per value of the factor, enforced where it is taken."""
        low, high = self.source.bounds(other)
        if result is None:
            top = factor.high * high
            variable = self.target.new_int_var(max(0, factor.low * low), top, "partial product")
            self.variables.append(variable)
            self.source.names.append("partial product")
            self.source.lows.append(max(0, factor.low * low))
            self.source.highs.append(top)
            index = len(self.variables) - 1
        else:
            index = result
        target = self.variables[index]
        value = self.expression(other)
        self.target.add(target >= factor.low * value)
        for literal, amount in factor.choices:
            if amount > factor.low:
                self.target.add(target >= amount * value).only_enforce_if(self.literal(literal))
        if factor.base > factor.low:
            none = [~self.literal(literal) for literal, _ in factor.choices]
            self.target.add(target >= factor.base * value).only_enforce_if(none)
        return Linear(0, ((index, 1),))
