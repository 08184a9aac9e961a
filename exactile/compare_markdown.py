"""A comparison as Markdown, and as lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exactile.compare_summary import alarms, summary
from exactile.compare_text import HEADER, LEFT, LEGEND, best_mappings, cells
from exactile.formulation.mapping_text import Kind, Line
from exactile.solver.compare import Comparison
from exactile.table import Row, table

TITLE = "Engines compared"


def comparison_lines(comparison: Comparison) -> list[Line]:
    """Summary and table for the terminal."""
    first: Kind = "bad" if alarms(comparison) else "number"
    lines: list[Line] = [
        [(sentence, first if number == 0 else "plain")] for number, sentence in enumerate(summary(comparison))
    ]
    rows = [Row(line, "title" if line[0] else "plain") for row in comparison.rows for line in cells(row)]
    return [*lines, [], *table(HEADER, rows, left=LEFT)] if rows else lines


def comparison_markdown(comparison: Comparison, title: str = TITLE) -> str:
    """The report: summary, table, legend, and the best mapping of every problem."""
    return "\n".join(_markdown(comparison, title)) + "\n"


def table_head() -> str:
    """The head of the Markdown table."""
    marks = ["---"] * LEFT + ["--:"] * (len(HEADER) - LEFT)
    return f"{_row(HEADER)}\n{_row(marks)}"


def table_row(line: Sequence[str]) -> str:
    """One line of the Markdown table."""
    return _row([cell.replace("|", "\\|").replace("\n", " ") for cell in line])


def _markdown(comparison: Comparison, title: str) -> Iterator[str]:
    first, *more = summary(comparison)
    yield from (f"# {title}", "", f"**{first}**")
    if more:
        yield from ("", *(f"- {sentence}" for sentence in more))
    wrong = alarms(comparison)
    if wrong:
        yield from ("", "## Wrong answers", "", *(f"- {sentence}" for sentence in wrong))
    yield from ("", "## Answers", "", table_head())
    yield from (table_row(line) for row in comparison.rows for line in cells(row))
    limit = "none" if comparison.time_limit is None else f"{comparison.time_limit:g} s"
    yield from ("", f"Time limit per search: {limit}.", "", "## How to read the table", "")
    yield from (f"- **{word}**: {meaning}." for word, meaning in LEGEND)
    yield from ("", "## The best mappings", "")
    for best in best_mappings(comparison):
        yield from (f"### {best.name}", "", best.headline, "")
        if best.tree:
            yield from ("```", best.tree, "```", "")


def _row(line: Sequence[str]) -> str:
    return f"| {' | '.join(line)} |"
