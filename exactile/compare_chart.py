"""Where each engine stands, drawn: seconds of the search over the size of the space, both logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from exactile.compare_text import seconds
from exactile.formulation.quantity_text import grouped
from exactile.solver.compare import Comparison

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 20, 50
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a5cb8", "#c98a00", "#555555")


@dataclass(frozen=True)
class Point:
    """One search. `proved`: it ended with a proof; else it was stopped after the time shown."""

    x: float
    y: float
    colour: str
    proved: bool
    label: str


@dataclass(frozen=True)
class Tick:
    """A line of the grid and what stands at its end."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Everything the template draws, in pixels of a `WIDTH` × `HEIGHT` picture."""

    points: Sequence[Point]
    across: Sequence[Tick]
    up: Sequence[Tick]
    engines: Sequence[tuple[str, str]]

    width, height, left, right, top, bottom = WIDTH, HEIGHT, LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


def chart(comparison: Comparison) -> Chart | None:
    """The picture, or `None` if no space could be counted to the end or nothing was searched."""
    searches = [
        (row.size.pairs, answer.seconds, answer, row.problem.name)
        for row in comparison.rows
        for answer in row.answers
        if row.size is not None and row.size.exact and row.size.pairs > 0 and answer.seconds is not None
    ]
    if not searches:
        return None
    across = _Axis.around([pairs for pairs, *_ in searches], LEFT, WIDTH - RIGHT)
    up = _Axis.around([spent for _, spent, *_ in searches], HEIGHT - BOTTOM, TOP)
    colours = dict(zip(comparison.engines, COLOURS * len(comparison.engines), strict=False))
    points = [
        Point(
            across.place(pairs),
            up.place(spent),
            colours[answer.engine],
            answer.proved,
            f"{name}: {answer.engine} {'proved in' if answer.proved else 'not finished after'} "
            f"{seconds(spent)} s, {grouped(pairs)} pairs",
        )
        for pairs, spent, answer, name in searches
    ]
    return Chart(points, across.ticks(), up.ticks(), tuple(colours.items()))


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis from `10**low` at pixel `start` to `10**high` at pixel `end`."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def place(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[Tick]:
        return [Tick(self.place(10.0**power), _power(power)) for power in range(self.low, self.high + 1)]


def _power(power: int) -> str:
    if -3 <= power <= 3:
        return f"{10**power if power >= 0 else 10.0**power:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
