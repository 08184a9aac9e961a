"""Aligned columns: the first ones to the left, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exactile.formulation.mapping_text import Kind, Line


@dataclass(frozen=True)
class Row:
    """Cells of one row, and how the row is coloured."""

    cells: tuple[str, ...]
    kind: Kind = "plain"


def table(header: Sequence[str], rows: Sequence[Row], left: int = 1) -> list[Line]:
    """A table; the first `left` columns are aligned to the left, the others to the right."""
    everything = [tuple(header), *(row.cells for row in rows)]
    widths = [max(len(cells[column]) for cells in everything) for column in range(len(header))]

    def line(cells: Sequence[str], kind: Kind) -> Line:
        padded = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return [("  ".join(padded), kind)]

    return [line(header, "detail"), *(line(row.cells, row.kind) for row in rows)]
