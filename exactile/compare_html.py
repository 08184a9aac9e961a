"""A comparison as one HTML page that needs nothing else: no script, no network."""

from __future__ import annotations

from exactile.compare_chart import chart
from exactile.compare_markdown import TITLE
from exactile.compare_summary import alarms, summary
from exactile.compare_text import HEADER, LEFT, LEGEND, best_mappings, cells
from exactile.solver.compare import Comparison
from exactile.templating import render
from exactile.version import __version__


def comparison_html(comparison: Comparison, title: str = TITLE) -> str:
    """The report: summary, chart, table, legend, and the best mapping of every problem."""
    return render(
        "compare.html",
        title=title,
        version=__version__,
        summary=summary(comparison),
        alarms=alarms(comparison),
        chart=chart(comparison),
        header=HEADER,
        left=LEFT,
        rows=[line for row in comparison.rows for line in cells(row)],
        time_limit=comparison.time_limit,
        legend=LEGEND,
        mappings=best_mappings(comparison),
    )
