"""Names of files: a built-in name, a path relative to the file that names it, or an inline mapping."""

from __future__ import annotations

import os
from pathlib import Path

from exactile import catalogue
from exactile.catalogue import Kind
from exactile.faults import LoadError
from exactile.formulation.faults import nearest, shown
from exactile.kinds import expect
from exactile.yaml_source import Keys, Node, read_file


def resolve(kind: Kind, name: str | os.PathLike[str], folder: Path | None = None) -> Path | None:
    """The file that a name or path stands for, `None` if there is none. Existing paths win over names."""
    text = os.fspath(name)
    path = Path(text) if folder is None else folder / text
    looks_like_path = path.suffix in (".yaml", ".yml", ".json") or os.sep in text
    if looks_like_path:
        return path
    entry = catalogue.find(kind, text)
    if entry is not None:
        return entry.path
    return path if _exists(path) else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def unknown(kind: Kind, name: str) -> str:
    """What to say about a name that nothing answers to."""
    known = [entry.name for entry in catalogue.entries(kind)]
    hint = (
        nearest(name, known)
        or f"; 'exactile list {kind if kind == 'hardware' else kind + 's'}' shows the names"
    )
    return f"no built-in {kind} and no file of the name {shown(name)}{hint}"


def follow(kind: Kind, node: Node, path: Keys) -> Node:
    """The mapping that `node` stands for: itself, or the content of the file it names."""
    if not isinstance(node.value, str):
        return node
    found = resolve(kind, node.value, folder(node))
    if found is None:
        raise LoadError([node.fault(path, unknown(kind, node.value))])
    if not _exists(found):
        raise LoadError([node.fault(path, f"no such file: {found}")])
    root = read_file(display(found))
    try:
        return expect(root, kind)
    except LoadError as error:
        raise LoadError(
            [node.fault(path, f"{fault.file}: {fault.message}") for fault in error.faults]
        ) from None


def folder(node: Node) -> Path:
    """Where a path that `node` names starts: beside its file, in the current folder for an override."""
    return Path() if node.line is None else Path(node.file).parent


def display(path: Path) -> str:
    """The path as messages show it: relative where the file lies below the current folder."""
    try:
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else str(path)
    except (ValueError, OSError):
        return str(path)
