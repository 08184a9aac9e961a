"""A model in no solver's language: Booleans, integers, clauses, linear rows and products.

Variables are numbered from 1. A literal is the number of a Boolean, negative for its negation, as in
DIMACS. A `Quantity` is a positive integer that literals choose (a trip count, a footprint); the product
of quantities is the one nonlinear relation, and it is needed from below only, since every cost and
every footprint grows with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Lit = int
Terms = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """`low ≤ Σ coefficient·variable` over the `terms`, where every literal of `when` holds.

    `lifts` is a variable that the row keeps from below and that has no other purpose: who does not need
    the variable does not need the row.
    """

    terms: Terms
    low: int
    when: tuple[Lit, ...] = ()
    lifts: int | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A positive integer that a staircase of literals decides.

    Every literal of `steps` implies the one before it; the value of the last that holds is taken, `base`
    if none does. Values need not rise.
    """

    base: int
    steps: tuple[tuple[Lit, int], ...] = ()

    @property
    def values(self) -> tuple[int, ...]:
        return (self.base, *(value for _, value in self.steps))

    @property
    def low(self) -> int:
        return min(self.values)

    @property
    def high(self) -> int:
        return max(self.values)

    @property
    def fixed(self) -> bool:
        return self.low == self.high

    def increments(self) -> Iterable[tuple[Lit, int]]:
        """`(literal, amount)`: the value is `base` plus the amounts of the literals that hold."""
        for (literal, value), last in zip(self.steps, self.values, strict=False):
            yield literal, value - last

    def floors(self) -> Iterable[tuple[int, tuple[Lit, ...]]]:
        """`(value, condition)`: the quantity is at least the value where all of the condition holds.

        Together they say the quantity from below. A staircase that only rises or only falls needs one
        literal each, which holds for every step beyond as well.
        """
        values = self.values
        rising = all(a <= b for a, b in pairwise(values))
        falling = all(a >= b for a, b in pairwise(values))
        for place, value in enumerate(values):
            here = () if place == 0 or falling else (self.steps[place - 1][0],)
            ahead = () if place == len(self.steps) or rising else (-self.steps[place][0],)
            yield value, (*here, *ahead)


@dataclass(frozen=True, slots=True)
class Product:
    """`result ≥ ∏ factors`."""

    result: int
    factors: tuple[Quantity, ...]


@dataclass(frozen=True)
class Linear:
    """`constant + Σ coefficient·variable`, as a sum that grows."""

    constant: int = 0
    terms: Terms = ()

    def __add__(self, other: Linear) -> Linear:
        return Linear(self.constant + other.constant, self.terms + other.terms)

    def times(self, factor: int) -> Linear:
        if not factor:
            return Linear()
        return Linear(self.constant * factor, tuple((v, c * factor) for v, c in self.terms))

    def merged(self) -> Linear:
        """One term per variable, none of them zero."""
        total: dict[int, int] = {}
        for variable, coefficient in self.terms:
            total[variable] = total.get(variable, 0) + coefficient
        return Linear(self.constant, tuple((v, c) for v, c in total.items() if c))


@dataclass
class Model:
    """Variables with bounds, and constraints on them. `TRUE` is a literal that always holds."""

    names: list[str] = field(default_factory=lambda: ["", "true"])
    lows: list[int] = field(default_factory=lambda: [0, 1])
    highs: list[int] = field(default_factory=lambda: [0, 1])
    clauses: list[tuple[Lit, ...]] = field(default_factory=list)
    one_hots: list[tuple[Lit, ...]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)

    TRUE = 1

    def boolean(self, name: str) -> Lit:
        return self.integer(name, 0, 1)

    def integer(self, name: str, low: int, high: int) -> int:
        self.names.append(name)
        self.lows.append(low)
        self.highs.append(high)
        return len(self.names) - 1

    def clause(self, *literals: Lit) -> None:
        """At least one of the literals holds."""
        kept = tuple(dict.fromkeys(lit for lit in literals if lit != -self.TRUE))
        if self.TRUE in kept or any(-lit in kept for lit in kept):
            return
        self.clauses.append(kept)

    def implies(self, condition: Sequence[Lit], *literals: Lit) -> None:
        """Where all of `condition` holds, at least one of `literals` does."""
        self.clause(*(-lit for lit in condition), *literals)

    def fix(self, literal: Lit) -> None:
        self.clause(literal)

    def equal(self, first: Lit, second: Lit, when: Sequence[Lit] = ()) -> None:
        if first != second:
            self.implies((*when, first), second)
            self.implies((*when, second), first)

    def exactly_one(self, literals: Sequence[Lit]) -> None:
        self.one_hots.append(tuple(literals))

    def conjunction(self, literals: Sequence[Lit], name: str) -> Lit:
        """A literal that holds exactly where all of `literals` do."""
        kept = tuple(dict.fromkeys(lit for lit in literals if lit != self.TRUE))
        if -self.TRUE in kept:
            return -self.TRUE
        if not kept:
            return self.TRUE
        if len(kept) == 1:
            return kept[0]
        both = self.boolean(name)
        for literal in kept:
            self.implies((both,), literal)
        self.implies(kept, both)
        return both

    def at_least(
        self,
        terms: Iterable[tuple[int, int]],
        low: int,
        when: Sequence[Lit] = (),
        lifts: int | None = None,
    ) -> None:
        """`Σ coefficient·variable ≥ low` where all of `when` holds; `lifts` as in `Row`."""
        merged = Linear(0, tuple(terms)).merged()
        conditions = tuple(lit for lit in when if lit != self.TRUE)
        if -self.TRUE not in conditions:
            self.rows.append(Row(merged.terms, low, conditions, lifts))

    def lift(self, result: int, value: Linear, when: Sequence[Lit] = ()) -> None:
        """`result ≥ value` where all of `when` holds."""
        terms = ((result, 1), *((v, -c) for v, c in value.terms))
        self.at_least(terms, value.constant, when, result)

    def needed(self, quantities: Iterable[Linear]) -> set[int]:
        """Variables that decide what is feasible or these quantities."""
        lifting: dict[int, list[int]] = {}
        waiting = [v for quantity in quantities for v, _ in quantity.terms]
        for row in self.rows:
            variables = [v for v, _ in row.terms]
            if row.lifts is None:
                waiting += variables
            else:
                lifting.setdefault(row.lifts, []).extend(variables)
        found: set[int] = set()
        while waiting:
            variable = waiting.pop()
            if variable not in found:
                found.add(variable)
                waiting += lifting.get(variable, ())
        return found

    def linear(self, quantity: Quantity) -> Linear:
        """A quantity as a sum of variables."""
        constant, terms = quantity.base, []
        for literal, amount in quantity.increments():
            if literal < 0:
                constant += amount
                terms.append((-literal, -amount))
            else:
                terms.append((literal, amount))
        return Linear(constant, tuple(terms))

    def product(
        self, name: str, factors: Iterable[Quantity], high: int | None = None, least: int = 0
    ) -> Linear:
        """The product of quantities as a sum of variables: itself if only one factor varies.

        `high` is an upper limit on the product, if a larger one is of no use; `least` is known to be
        reached.
        """
        constant, varying = 1, []
        for factor in factors:
            if factor.fixed:
                constant *= factor.base
            else:
                varying.append(factor)
        if not varying or not constant:
            return Linear(constant)
        if len(varying) == 1:
            single = self.linear(varying[0]).times(constant)
            if least > self.bounds(single)[0]:
                self.at_least(single.terms, least - single.constant)
            return single
        low = top = 1
        for factor in varying:
            low, top = low * factor.low, top * factor.high
        low = max(low, -(-least // constant))
        if high is not None:
            top = max(low, min(top, high // constant))
        result = self.integer(name, low, top)
        self.products.append(Product(result, tuple(varying)))
        return Linear(0, ((result, constant),))

    def bounds(self, linear: Linear) -> tuple[int, int]:
        """The least and greatest value that the bounds of the variables allow."""
        low = high = linear.constant
        for variable, coefficient in linear.terms:
            ends = coefficient * self.lows[variable], coefficient * self.highs[variable]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def where(self, name: str, value: Linear, when: Sequence[Lit], floor: int = 0) -> Linear:
        """A variable that is at least `value` where all of `when` holds, and 0 elsewhere.

        `floor` is a lower bound of the value, which makes the relaxation tighter.
        """
        conditions = tuple(dict.fromkeys(lit for lit in when if lit != self.TRUE))
        if -self.TRUE in conditions:
            return Linear()
        if not conditions:
            return value
        result = self.integer(name, 0, max(0, self.bounds(value)[1]))
        self.lift(result, value, conditions)
        if floor and len(conditions) == 1:
            (literal,) = conditions
            positive = literal > 0
            factor, low = (-floor, 0) if positive else (floor, floor)
            self.at_least(((result, 1), (abs(literal), factor)), low, lifts=result)
        return Linear(0, ((result, 1),))
