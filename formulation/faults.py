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

    faults: tuple[Fault, ...]

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def shown(value: object) -> str:
    """A value as a message shows it: short, whatever it is."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"{str(value).lower()} (a YAML boolean)"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            return f"'{value}'" if len(value) <= 60 else f"'{value[:57]}…'"
    text = str(value)
    return text if len(text) <= 30 else f"{text[:12]}… ({len(text)} digits)"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
