"""The report of a comparison as a file: what writes which format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exactile.compare_markdown import comparison_markdown
from exactile.solver.compare import Comparison


def _html(comparison: Comparison) -> str:
    from exactile.compare_html import comparison_html  # loads jinja2

    return comparison_html(comparison)


WRITERS: Mapping[str, Callable[[Comparison], str]] = {".md": comparison_markdown, ".html": _html}
"""By suffix of the file."""
