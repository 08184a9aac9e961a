"""What ships: built-in workloads, machines and problems, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["workload", "hardware", "problem"]

_PACKAGES: dict[Kind, str] = {
    "workload": "exactile.workloads",
    "hardware": "exactile.hw_specs",
    "problem": "exactile.problems",
}
_COMMENT = re.compile(r"#\s*(.*)")
_NAME = re.compile(r"name:\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that ships: its name, one line on what it is, and where it lies."""

    kind: Kind
    name: str
    description: str
    path: Path


@cache
def entries(kind: Kind) -> tuple[Entry, ...]:
    """All built-in files of one kind, by name."""
    if kind not in get_args(Kind):
        raise ValueError(f"expected one of {', '.join(get_args(Kind))}, got {kind!r}")
    folder = Path(str(resources.files(_PACKAGES[kind])))
    return tuple(sorted((_entry(kind, path) for path in folder.glob("*.yaml")), key=lambda entry: entry.name))


def find(kind: Kind, name: str) -> Entry | None:
    """The built-in file of that name; `-`, `_` and `.` are alike, and so are capitals."""
    wanted = _key(name)
    for entry in entries(kind):
        if wanted in (_key(entry.name), _key(entry.path.stem)):
            return entry
    return None


def _key(name: str) -> str:
    return re.sub(r"[-_.]", "_", name.strip().lower())


def _entry(kind: Kind, path: Path) -> Entry:
    text = path.read_text(encoding="utf-8")
    comment, name = _COMMENT.match(text), _NAME.search(text)
    description = comment[1] if comment else ""
    return Entry(kind, name[1] if name else path.stem, description, path)
