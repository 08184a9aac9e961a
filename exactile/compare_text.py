"""What a comparison says, in sentences and cells: common to the terminal, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exactile.formulation.problem import Problem
from exactile.formulation.quantity_text import grouped
from exactile.report import costs, quantity
from exactile.solver.compare import Answer, Comparison, Row
from exactile.solver.engine import Size, magnitude
from exactile.solver.solution import Solution

HEADER = (
    "problem",
    "minimise",
    "space",
    "engine",
    "best value",
    "bound",
    "status",
    "proof",
    "seconds",
    "to fastest",
)
LEFT = 8
"""Columns of text, before those of numbers."""
NONE = "–"

LEGEND = (
    ("space", "how many ways to run the problem there are to choose from, before any search"),
    (
        "structure",
        "what is fused, in which order the loops stand, and what stays on chip over which of them; "
        "one that another beats for every tile size is not counted",
    ),
    ("tiling", "a choice of tile sizes"),
    (
        "pairs",
        "structures × tilings, summed over all ways to fuse; what an enumeration goes through (≥: at least; "
        "of groups too large to list only the tilings are counted)",
    ),
    ("best value", "cost of the mapping found, computed anew by the analytical core in exact arithmetic"),
    ("bound", "what no mapping can be below, by the engine's proof; “same” if that is the best value"),
    ("gap", "how far the best value may still lie above the optimum: (best value − bound) / best value"),
    (
        "status",
        "optimal: best value and bound are equal; feasible: a gap is left; infeasible: proved that "
        "nothing fits; unknown: nothing was found in time",
    ),
    ("proof", "whose proof the bound is; “none” for a bound that follows from the problem alone"),
    ("seconds", "time of the search alone: no loading, no verification"),
    ("to fastest", "how many times as long as the fastest proof of the same problem"),
)


def cells(row: Row) -> list[tuple[str, ...]]:
    """One line of the table per answer; problem, objective and space stand in the first."""
    problem = row.problem
    about = (problem.name, objective(problem), space(row.size))
    lines = [_cells(row, answer) for answer in row.answers]
    return [(*(about if number == 0 else ("", "", "")), *line) for number, line in enumerate(lines)]


def objective(problem: Problem) -> str:
    """What is minimised, subject to what, over which tile sizes."""
    limits = (f"{name} ≤ {quantity(problem, name, at)}" for name, at in problem.objective.subject_to.items())
    text = ", ".join([problem.objective.minimize.replace("_", " "), *limits])
    return text + (", every tile size" if problem.mapspace.tile_sizes == "all" else "")


def space(size: Size | None) -> str:
    """The size of a space in one cell."""
    if size is None:
        return "cannot be listed"
    if not size.exact:
        return f"≥ {magnitude(size.pairs)} pairs" + (f", {size.left_out}" if size.left_out else "")
    numbers = f"{grouped(size.structures)} structures, up to {grouped(size.tilings)} tilings"
    return f"{grouped(size.pairs)} pairs ({numbers})"


def headline(row: Row) -> str:
    """The best mapping in a line: what it costs and who says so."""
    best = row.best
    if best is None:
        return "No mapping was found, and none was ruled out."
    if best.cost is None:
        return f"No mapping exists: {best.reason}"
    paid = "; ".join(f"{label} {value}" for label, value in costs(row.problem, best.cost))
    proved = [answer.engine for answer in row.proved]
    said = f"proved by {listed(proved)}" if proved else f"not proved, {_gap(best)}"
    return f"{paid[0].upper()}{paid[1:]}. {said[0].upper()}{said[1:]}."


def seconds(value: float) -> str:
    """Three significant digits, never in powers of ten."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"


def times(factor: float) -> str:
    """A factor as people say it: `1.3`, `12`."""
    return f"{factor:.1f}" if factor < 10 else grouped(round(factor))


def _cells(row: Row, answer: Answer) -> tuple[str, ...]:
    if answer.solution is None:
        why = answer.declined or f"FAILED: {type(answer.failure).__name__}"
        return (answer.engine, NONE, NONE, why, NONE, NONE, NONE)
    solution = answer.solution
    time = seconds(answer.seconds or 0.0)
    return (
        answer.engine,
        NONE if solution.value is None else _plain_quantity(solution, value=True),
        _bound(solution),
        solution.status + (", interrupted" if solution.interrupted and not solution.proved else ""),
        solution.proof,
        time,
        _to_fastest(row, answer),
    )


def _to_fastest(row: Row, answer: Answer) -> str:
    fastest = row.fastest
    if fastest is None or not answer.proved or answer.seconds is None or fastest.seconds is None:
        return NONE
    return f"{times(answer.seconds / fastest.seconds)} ×"


def _plain_quantity(solution: Solution, *, value: bool) -> str:
    """The exact number with its unit, without the everyday units in brackets."""
    amount = solution.value if value else solution.bound
    assert amount is not None
    return quantity(solution.problem, solution.problem.objective.minimize, amount).partition(" (")[0]


def _bound(solution: Solution) -> str:
    if solution.bound is None:
        return NONE
    if solution.value is not None and solution.bound == solution.value:
        return "same"
    gap = f" ({_gap(solution)})" if solution.value is not None else ""
    return _plain_quantity(solution, value=False) + gap


def _gap(solution: Solution) -> str:
    return "no bound" if solution.gap is None else f"gap {100 * solution.gap:.3g} %"


@dataclass(frozen=True)
class Best:
    """The section on one problem: its name and machine, the best mapping in a line, and its loop tree."""

    name: str
    headline: str
    tree: str


def best_mappings(comparison: Comparison) -> list[Best]:
    """What to build, problem by problem."""
    return [
        Best(
            f"{row.problem.name} on {row.problem.hardware.name}",
            headline(row),
            "" if row.best is None else row.best.render(),
        )
        for row in comparison.rows
    ]


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *rest, last = parts
    return f"{', '.join(rest)} and {last}" if rest else last
