"""YAML with the file and line of every value.

The events of the parser are turned into a tree of `Node`s: mappings with text keys, lists and plain
scalars; anchors and merge keys are followed, tags and further documents are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from exactile.faults import FileFault, LoadError

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_VALUES = 100_000

Scalar = str | int | float | bool | None
Keys = tuple[str | int, ...]

_BOOLEAN = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?\Z")
_QUOTES = ("'", '"', "|", ">")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Node:
    """One value and its place. `text` is a scalar as written."""

    value: Any
    file: str
    line: int | None
    text: str = ""

    def fault(self, path: Keys, message: str) -> FileFault:
        """A fault at this place."""
        return FileFault(path, message, self.file, self.line)

    def child(self, key: str | int) -> Node | None:
        """The value below a key or position, or `None`."""
        if isinstance(self.value, Mapping):
            return self.value.get(str(key))
        if isinstance(self.value, tuple) and isinstance(key, int) and 0 <= key < len(self.value):
            found: Node = self.value[key]
            return found
        return None

    def plain(self) -> Any:
        """The value as dicts, lists and scalars."""
        if isinstance(self.value, Mapping):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def size(self) -> int:
        """The number of values in the tree, aliases expanded."""
        below: Iterable[Node] = ()
        if isinstance(self.value, Mapping):
            below = self.value.values()
        elif isinstance(self.value, tuple):
            below = self.value
        return 1 + sum(node.size() for node in below)


def read_file(path: str | os.PathLike[str]) -> Node:
    """The mapping that a YAML file holds. Raises `LoadError` if the file cannot be read as one."""
    return read_text(file_text(path, "YAML"), os.fspath(path))


def file_text(path: str | os.PathLike[str], language: str) -> str:
    """The text in a file of that language. Raises `LoadError` if it is no small text file."""
    name = os.fspath(path)
    if Path(name).is_dir():
        raise LoadError([FileFault((), f"is a directory, expected a {language} file", name)])
    try:
        with open(name, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise LoadError([FileFault((), "no such file", name)]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LoadError([FileFault((), f"cannot be read: {reason}", name)]) from None
    if len(content) > MAX_BYTES:
        limit = f"is larger than {MAX_BYTES >> 20} MiB, expected a small {language} file"
        raise LoadError([FileFault((), limit, name)])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise LoadError([FileFault((), f"is not text (UTF-8), expected a {language} file", name)])
    return text


def read_text(text: str, file: str) -> Node:
    """The mapping that a YAML text holds; `file` names it in messages. Raises `LoadError`."""
    root = read_value(text, file)
    if root is None or root.value is None:
        raise LoadError([FileFault((), "is empty, expected a mapping (keys and values)", file)])
    if not isinstance(root.value, Mapping):
        what = "a list" if isinstance(root.value, tuple) else f"'{root.text[:60]}'"
        raise LoadError([root.fault((), f"expected a mapping (keys and values), got {what}")])
    return root


def read_value(text: str, file: str) -> Node | None:
    """The one value in a YAML text, `None` if there is none. Raises `LoadError`."""
    reader = _Reader(text, file)
    try:
        root = reader.document()
    except yaml.MarkedYAMLError as error:
        raise LoadError([_syntax_fault(error, file)]) from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or str(error)
        raise LoadError([FileFault((), f"not valid YAML: {reason}", file)]) from None
    if reader.faults:
        raise LoadError(reader.faults)
    return root


def _syntax_fault(error: yaml.MarkedYAMLError, file: str) -> FileFault:
    # what never ends is looked for where it starts
    mark = error.context_mark if "end of stream" in (error.problem or "") else error.problem_mark
    mark = mark or error.problem_mark
    line = None if mark is None else mark.line + 1
    context = f" ({error.context}" if error.context else ""
    if context and error.context_mark is not None:
        context += f" that starts in line {error.context_mark.line + 1}"
    closing = ")" if context else ""
    hint = ""
    if "flow" in (error.context or ""):
        hint = ": is a bracket or a comma missing?"
    elif "cannot start any token" in (error.problem or "") or "alphabetic" in (error.problem or ""):
        hint = ": put the value in quotes"
    return FileFault((), f"not valid YAML: {error.problem}{context}{closing}{hint}", file, line)


class _Reader:
    """Builds the tree by recursive descent over the parser's events."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self.anchors: dict[str, Node] = {}
        self.values = 0
        self.faults: list[FileFault] = []

    def document(self) -> Node | None:
        next(self.events)
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            return None
        root = self.node(next(self.events), ())
        next(self.events)
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._stop(after, (), "expected one document, got another after '---'")
        return root

    def _stop(self, event: Any, path: Keys, message: str) -> None:
        """Give up at once: what follows cannot be read sensibly."""
        raise LoadError([*self.faults, FileFault(path, message, self.file, event.start_mark.line + 1)])

    def node(self, event: Any, path: Keys) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        if event.tag not in (None, "!"):
            self._stop(event, path, f"tags are not supported, got '{event.tag}'")
        if len(path) > MAX_DEPTH:
            self._stop(event, path[:3], f"nested more than {MAX_DEPTH} levels deep")
        line = event.start_mark.line + 1
        if isinstance(event, yaml.MappingStartEvent):
            found = Node(self._mapping(path), self.file, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            found = Node(self._sequence(path), self.file, line)
        else:
            found = Node(_scalar(event), self.file, line, event.value)
        self._count(event, 1)
        if event.anchor:
            self.anchors[event.anchor] = found
        return found

    def _count(self, event: Any, more: int) -> None:
        self.values += more
        if self.values > MAX_VALUES:
            self._stop(event, (), f"more than {MAX_VALUES} values (anchors expanded)")

    def _alias(self, event: Any, path: Keys) -> Node:
        if event.anchor not in self.anchors:
            self._stop(event, path, f"unknown anchor '*{event.anchor}' (an anchor stands before its uses)")
        found = self.anchors[event.anchor]
        self._count(event, found.size())
        return found

    def _sequence(self, path: Keys) -> tuple[Node, ...]:
        items: list[Node] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, (*path, len(items))))
        return tuple(items)

    def _mapping(self, path: Keys) -> dict[str, Node]:
        items: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._stop(event, path, "expected a name before ':', got a list, a mapping or an alias")
            key, line = event.value, event.start_mark.line + 1
            if event.tag not in (None, "!"):
                self._stop(event, path, f"tags are not supported, got '{event.tag}'")
            value = self.node(next(self.events), (*path, key))
            if key == "<<" and event.style not in _QUOTES:
                merged = {**self._merge(value, path), **merged}
            elif key in items:
                self.faults.append(
                    FileFault(
                        (*path, key), f"duplicate key, already given in line {lines[key]}", self.file, line
                    )
                )
            else:
                lines[key] = line
                # the line of the key: where a person looks for a value that spans lines
                items[key] = Node(value.value, value.file, line, value.text)
        return {**merged, **items}

    def _merge(self, value: Node, path: Keys) -> dict[str, Node]:
        """What `<<: *base` or `<<: [*one, *two]` brings in, the first one winning."""
        found: dict[str, Node] = {}
        for node in value.value if isinstance(value.value, tuple) else (value,):
            if isinstance(node.value, Mapping):
                found = {**node.value, **found}
            else:
                self.faults.append(
                    node.fault((*path, "<<"), "expected an alias of a mapping, like '<<: *base'")
                )
        return found


def _scalar(event: Any) -> Scalar:
    """A plain scalar by its form; quoted ones are text. Octal, sexagesimal and infinite numbers stay text."""
    text: str = event.value
    if event.style in _QUOTES or event.tag == "!":
        return text
    if text in ("", "~") or text in ("null", "Null", "NULL"):
        return None
    lower = text.lower()
    if lower in _BOOLEAN and text in (lower, lower.capitalize(), lower.upper()):
        return _BOOLEAN[lower]
    if len(text) > 200:
        return text
    if _INTEGER.match(text):
        return int(text.replace("_", ""))
    if _FLOAT.match(text) and not re.match(r"[-+]?0[0-9_]", text):
        number = float(text.replace("_", ""))
        return number if abs(number) != float("inf") else text
    return text
