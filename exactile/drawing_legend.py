"""What stands beside the picture: the groups with their cost, and what the lines mean."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from exactile.formulation.cost import Cost
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.palette import Paint, paint
from exactile.report import group_summary

STYLES = (
    ("fused", "fused: stays on chip"),
    ("shared", "one fetch for several readers"),
    ("dram", "to or from DRAM"),
)
COLUMN = 46  # characters in a line
SIGN, LINE, GAP = 34.0, 15.0, 8.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A group: its number and look, and lines of text; `y` is its upper side within the legend."""

    number: int
    paint: Paint
    lines: tuple[str, ...]
    y: float


@dataclass(frozen=True)
class Legend:
    """Everything in pixels from its own left upper corner."""

    groups: tuple[Entry, ...]
    styles: tuple[tuple[str, str, float], ...]
    width: float
    height: float


def legend(problem: Problem, mapping: Mapping, cost: Cost) -> Legend:
    """The groups in execution order, each with its Einsums and its cost, then the styles of lines."""
    entries = []
    at = 0.0
    for number, group in enumerate(mapping.groups, 1):
        lines = [
            *textwrap.wrap(", ".join(group.order), COLUMN),
            *_costs(group_summary(problem, mapping, cost, number - 1)),
        ]
        entries.append(Entry(number, paint(number), tuple(lines), at))
        at += max(len(lines) * LINE, 20.0) + GAP
    at += GAP
    styles = []
    for style, words in STYLES:
        styles.append((style, words.replace("DRAM", problem.hardware.levels[0].name), at))
        at += LINE + 4
    longest = max(len(line) for entry in entries for line in entry.lines)
    return Legend(tuple(entries), tuple(styles), SIGN + 6.2 * max(longest, 30), at)


def _costs(summary: str) -> list[str]:
    """The parts of a group's cost in as few lines as fit."""
    lines: list[str] = []
    for part in summary.split(" · "):
        if lines and len(lines[-1]) + 3 + len(part) <= COLUMN:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines
