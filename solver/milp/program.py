"""A mixed-integer linear program in exact integers: columns with bounds, and rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from exactile.formulation.families.model import Linear, Lit, Terms


@dataclass(frozen=True, slots=True)
class Row:
    """`Σ coefficient·column ≥ low`, or `= low`."""

    terms: Terms
    low: int
    equal: bool = False


@dataclass
class Program:
    """Columns are numbered like the variables of the model that they come from; more may follow."""

    names: list[str]
    lows: list[int]
    highs: list[int]
    whole: list[bool]
    rows: list[Row] = field(default_factory=list)

    def column(self, name: str, low: int, high: int) -> int:
        """A new continuous column."""
        self.names.append(name)
        self.lows.append(low)
        self.highs.append(high)
        self.whole.append(False)
        return len(self.names) - 1

    def add(self, total: Linear, low: int, *, equal: bool = False) -> None:
        """The sum is at least `low` (or equal to it); what always holds is left out."""
        merged = total.merged()
        if equal or self.bounds(merged)[0] < low:
            self.rows.append(Row(merged.terms, low - merged.constant, equal))

    def bounds(self, linear: Linear) -> tuple[int, int]:
        """The least and greatest value that the bounds of the columns allow."""
        low = high = linear.constant
        for column, coefficient in linear.terms:
            ends = coefficient * self.lows[column], coefficient * self.highs[column]
            low, high = low + min(ends), high + max(ends)
        return low, high


def literal(lit: Lit) -> Linear:
    """A literal as 0 or 1."""
    return Linear(0, ((lit, 1),)) if lit > 0 else Linear(1, ((-lit, -1),))


def total(parts: Iterable[Linear]) -> Linear:
    """The sum of sums."""
    kept = tuple(parts)
    return Linear(sum(part.constant for part in kept), tuple(term for part in kept for term in part.terms))
