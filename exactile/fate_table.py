"""The fates of tensors as a table for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from fractions import Fraction

from exactile.fate import Fate, fates
from exactile.formulation.cost import Cost
from exactile.formulation.mapping import Mapping
from exactile.formulation.mapping_text import Line
from exactile.formulation.problem import Problem
from exactile.formulation.quantity_text import grouped, metric, size
from exactile.table import Row, table

COLUMN = 36  # characters of a fate in one line


def fates_table(problem: Problem, mapping: Mapping, cost: Cost) -> list[Line]:
    """A line for each tensor and their sums; `saves` is what would move without the fate."""
    found = fates(problem, mapping, cost)
    extra = any(fate.extra_operations for fate in found)
    unit, outer = problem.hardware.energy_unit, problem.hardware.levels[0].name

    def cells(name: str, space: str, what: str, numbers: Sequence[Fraction]) -> tuple[str, ...]:
        moved, saved, energy, operations = numbers
        last = [_short(operations)] if extra else []
        return (
            name,
            space,
            what,
            grouped(moved),
            grouped(saved) if saved else "",
            _energy(energy, unit),
            *last,
        )

    rows = []
    for fate in found:
        tensor = problem.cascade.tensors[fate.tensor]
        text = fate_text(fate, len(mapping.groups) > 1, outer)
        first, *more = textwrap.wrap(text, COLUMN)
        rows.append(Row(cells(fate.tensor, size(tensor.size * tensor.bits), first, _numbers(fate))))
        rows += [Row(("", "", line, *[""] * (3 + extra))) for line in more]
    sums = [sum(column, Fraction(0)) for column in zip(*map(_numbers, found), strict=True)]
    rows.append(Row(cells("all", "", "", sums), "title"))
    header = (
        "tensor",
        "size",
        "fate",
        f"{outer}/B",
        "saves/B",
        "saves energy",
        *(["extra ops"] if extra else []),
    )
    return table(header, rows, left=3)


def fate_text(fate: Fate, numbered: bool = True, outer: str = "DRAM") -> str:
    """`fused in 4 into A`, `through DRAM 1 → 4`; group numbers only where there are several groups.

    `outer` is the name of the outermost level.
    """
    match fate.kind:
        case "from DRAM" | "shared":
            parts = [f"from {outer}{_groups(fate.read_in, numbered)}"]
        case "to DRAM":
            parts = [f"to {outer}{_groups([fate.written_in], numbered)}"]
        case "through DRAM":
            parts = [f"through {outer}" + (f" {fate.written_in} → {_list(fate.read_in)}" if numbered else "")]
        case _:
            parts = [f"fused{_groups([fate.written_in], numbered)} into {_list(fate.fused)}"]
    if fate.overwrites is not None:
        parts.append(f"in place of {fate.overwrites}")
    if fate.kind == "fused and written":
        parts.append(f"also to {outer}" + (f" → {_list(fate.read_in)}" if fate.read_in else ""))
    for fetch in fate.shared:
        where = f" in {fetch.group}" if len(fate.read_in) > 1 else ""
        parts.append(f"one fetch{where} for {_list(fetch.readers)}")
    return ", ".join(parts)


def _numbers(fate: Fate) -> tuple[Fraction, ...]:
    return fate.dram_bytes, fate.saved_bytes, fate.saved_energy, fate.extra_operations


def _energy(value: Fraction, unit: str) -> str:
    if not value:
        return ""
    return metric(value, -12, "J") if unit == "pJ" else grouped(round(value) if value >= 1000 else value)


def _short(value: Fraction) -> str:
    return metric(value, 0, "").strip() if value else ""


def _groups(numbers: Sequence[int | None], numbered: bool) -> str:
    return f" in {_list(numbers)}" if numbered else ""


def _list(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))
