"""Faults of an input: all of them at once, each with the path of the thing that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong, in words for the user. `path` leads to it: keys and positions from the root."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        where = ".".join(map(str, self.path))
        return f"{where}: {self.message}" if where else self.message


class InputError(ValueError):
    """Bad input, with every fault found."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
