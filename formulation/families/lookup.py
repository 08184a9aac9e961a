"""Lookups: a quantity read from a table over tile choices, where the table depends on how a unit is used.

The result is needed from below only. A table over one choice that does not depend on the use costs no
variable at all; otherwise the distinct values form a staircase of literals, and every entry of the table
lifts it to its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from exactile.formulation.families.model import Lit, Model, Quantity

Table = npt.NDArray[np.int64]


def lookup(
    model: Model, name: str, axes: Sequence[Sequence[Lit]], tables: Sequence[tuple[Lit, Table]]
) -> Quantity:
    """The entry at the chosen place of the table whose literal holds (exactly one does).

    `axes` are staircases, one per axis of the tables, each beginning with a literal that always holds.
    """
    values = np.unique(np.concatenate([table.ravel() for _, table in tables]))
    if len(values) == 1:
        return Quantity(int(values[0]))
    if len(tables) == 1 and len(axes) == 1:
        base, *rest = tables[0][1].tolist()
        return Quantity(base, tuple(zip(axes[0][1:], rest, strict=True)))
    steps = [model.boolean(f"{name}≥{value}") for value in values[1:].tolist()]
    for lower, higher in pairwise(steps):
        model.implies((higher,), lower)
    lift = _Lift(model, steps, values)
    for literal, table in tables:
        lift(axes, (literal,), table, int(values[0]))
    quantity = Quantity(int(values[0]), tuple(zip(steps, values[1:].tolist(), strict=True)))
    _tighten(model, quantity, axes, tables)
    return quantity


@dataclass(frozen=True)
class _Lift:
    """Every entry of a table lifts the staircase `steps` of `values`."""

    model: Model
    steps: Sequence[Lit]
    values: Table

    def __call__(
        self, axes: Sequence[Sequence[Lit]], given: tuple[Lit, ...], table: Table, known: int
    ) -> None:
        """`known`: what `given` already reaches. What all entries along an axis reach is said once."""
        least = int(table.min())
        if least > known:
            place = int(np.searchsorted(self.values, least))
            self.model.implies(given, self.steps[place - 1])
        known = max(known, least)
        if not axes or (table <= known).all():
            return
        moves = np.diff(table, axis=0)
        rising, falling = bool((moves >= 0).all()), bool((moves <= 0).all())
        for place, part in enumerate(table):
            if (part > known).any():
                here = () if falling else (axes[0][place],)
                ahead = () if rising or place == len(table) - 1 else (-axes[0][place + 1],)
                self(axes[1:], (*given, *here, *ahead), np.asarray(part), known)


def _tighten(
    model: Model,
    quantity: Quantity,
    axes: Sequence[Sequence[Lit]],
    tables: Sequence[tuple[Lit, Table]],
) -> None:
    """Rows that a relaxation needs: per axis, and per table and axis, the least entry of each choice."""
    total = model.linear(quantity)
    merged = np.minimum.reduce([table for _, table in tables])
    for axis, literals in enumerate(axes):
        others = tuple(a for a in range(len(axes)) if a != axis)
        for when, table in (((), merged), *(((lit,), table) for lit, table in tables)):
            if when and len(tables) == 1:
                continue
            base, *rest = (table.min(axis=others) if others else table).tolist()
            floor = model.linear(Quantity(base, tuple(zip(literals[1:], rest, strict=True))))
            if max([base, *rest]) > quantity.base:
                terms = [*total.terms, *((v, -c) for v, c in floor.terms)]
                model.at_least(terms, floor.constant - total.constant, when)
