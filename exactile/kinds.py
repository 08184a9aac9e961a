"""Which of the four kinds of file something is, told by the keys only that kind has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from exactile.faults import LoadError
from exactile.yaml_source import Node

FileKind = Literal["problem", "workload", "hardware", "mapping"]

_MARKS: dict[FileKind, tuple[str, ...]] = {
    "problem": ("workload", "hardware"),
    "mapping": ("groups",),
    "workload": ("einsums", "builder"),
    "hardware": ("levels", "compute"),
}


def file_kind(root: Node) -> FileKind | None:
    """The kind of a file's content, `None` if no key tells."""
    keys = root.value if isinstance(root.value, Mapping) else {}
    for kind, marks in _MARKS.items():
        if any(mark in keys for mark in marks):
            return kind
    return None


def expect(root: Node, kind: FileKind) -> Node:
    """The node itself; a file of another kind is one clear `LoadError`, not one for each of its keys."""
    found = file_kind(root)
    if found not in (None, kind):
        where = "; name it in a problem file" if kind == "problem" and found != "mapping" else ""
        raise LoadError([root.fault((), f"expected a {kind} file, this is a {found} file{where}")])
    return root
