"""Printing lines: coloured on a terminal, plain anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from exactile.formulation.mapping_text import Kind, Line, plain

_STYLES: dict[Kind, str] = {
    "title": "bold",
    "guide": "dim",
    "loop": "cyan",
    "buffer": "yellow",
    "einsum": "bold green",
    "detail": "dim",
    "number": "bold",
    "good": "green",
    "bad": "bold red",
    "plain": "",
}


def show(lines: Iterable[Line]) -> None:
    """Print lines to standard output, coloured if it is a terminal."""
    out = sys.stdout
    if not out.isatty():
        print(plain(lines), file=out)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((text, _STYLES[kind]) for text, kind in line)))
