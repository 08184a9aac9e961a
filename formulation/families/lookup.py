"""Lookups: a quantity read from a table over tile choices, where the table depends on how a unit is used.

The result is needed from below only. A table over one choice that does not depend on the use costs no
variable at all; otherwise the distinct values form a staircase of literals, and every entry of the table
lifts it to its value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from exactile.formulation.families.decisions import of_one_hot
from exactile.formulation.families.model import Lit, Model, Quantity

Table = npt.NDArray[np.int64]


def lookup(
    model: Model, name: str, choices: Sequence[Sequence[Lit]], tables: Sequence[tuple[Lit, Table]]
) -> Quantity:
    """The entry at the chosen place of the table whose literal holds (exactly one does).

    `choices` are one-hots, one per axis of the tables.
    """
    values = np.unique(np.concatenate([table.ravel() for _, table in tables]))
    if len(values) == 1:
        return Quantity(int(values[0]))
    if len(tables) == 1 and len(choices) == 1:
        entries = tables[0][1].tolist()
        return of_one_hot(list(zip(choices[0], entries, strict=True)))
    steps = [model.boolean(f"{name}≥{value}") for value in values[1:].tolist()]
    for higher, lower in zip(steps[1:], steps, strict=False):
        model.implies((higher,), lower)
    for literal, table in tables:
        _lift(model, steps, values, choices, (literal,), table)
    quantity = Quantity(int(values[0]), tuple(zip(steps, values[1:].tolist(), strict=True)), "steps")
    _tighten(model, quantity, choices, tables)
    return quantity


def _lift(
    model: Model,
    steps: Sequence[Lit],
    values: Table,
    choices: Sequence[Sequence[Lit]],
    given: tuple[Lit, ...],
    table: Table,
) -> None:
    """Every entry of a table lifts the staircase; what all entries of an axis reach is said once."""
    least = int(table.min())
    place = int(np.searchsorted(values, least))
    if place:
        model.implies(given, steps[place - 1])
    if not choices or (table == least).all():
        return
    for literal, part in zip(choices[0], table, strict=True):
        if (part > least).any():
            _lift(model, steps, values, choices[1:], (*given, literal), np.asarray(part))


def _tighten(
    model: Model,
    quantity: Quantity,
    choices: Sequence[Sequence[Lit]],
    tables: Sequence[tuple[Lit, Table]],
) -> None:
    """Rows that a relaxation needs: per axis, and per table and axis, the least entry of each choice."""
    total = model.linear(quantity)
    merged = np.minimum.reduce([table for _, table in tables])
    for axis, literals in enumerate(choices):
        others = tuple(a for a in range(len(choices)) if a != axis)
        for when, table in (((), merged), *(((lit,), table) for lit, table in tables)):
            if when and len(tables) == 1:
                continue
            least = table.min(axis=others) if others else table
            if (least > quantity.base).any():
                terms = [(lit, -int(value)) for lit, value in zip(literals, least, strict=True)]
                model.at_least([*total.terms, *terms], -total.constant, when)
