"""Faults of a file: each knows the file and the line where the thing that is wrong stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from exactile.formulation.faults import Fault, InputError


@dataclass(frozen=True, slots=True)
class FileFault(Fault):
    """A fault with its place. `line` counts from 1; `None` is the file as a whole."""

    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        # the base class is named because `super()` does not survive `slots=True`
        text = f"{place}: {Fault.__str__(self)}"
        return "".join(c if c.isprintable() else " " for c in text)


class LoadError(InputError):
    """A file (or an override) that cannot be used, with every fault found, in the order of the lines."""

    faults: tuple[FileFault, ...]

    def __init__(self, faults: Iterable[FileFault]) -> None:
        ordered = sorted(dict.fromkeys(faults), key=lambda fault: (fault.file, fault.line or 0))
        super().__init__(ordered)
