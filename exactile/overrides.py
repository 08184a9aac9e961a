"""`--set KEY=VALUE`: changes of a problem file, with the key paths of the file.

List items are addressed by their name (`hardware.levels.GLB.capacity`), by the output of their equation
(`workload.einsums.P.mode`) or by their position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from exactile.faults import FileFault, LoadError
from exactile.formulation.faults import nearest
from exactile.yaml_source import Keys, Node, read_value

# where a single text stands for a mapping with one key
_SHORT_FORMS = {"objective": "minimize"}


def parse_override(text: str) -> tuple[tuple[str, ...], Node]:
    """`KEY=VALUE` as a path and a value (YAML). Raises `LoadError`."""
    key, equals, value = text.partition("=")
    file = f"--set {text[:80]}"
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise LoadError([FileFault((), "expected KEY=VALUE, like workload.ranks.m=1024", file)])
    try:
        node = read_value(value, file)
    except LoadError as error:
        raise LoadError([replace(fault, line=None) for fault in error.faults]) from None
    return path, _placed(node or Node(None, file, None), file)


def _placed(node: Node, file: str) -> Node:
    """The same value, standing in an override rather than on a line."""
    value = node.value
    if isinstance(value, Mapping):
        value = {key: _placed(child, file) for key, child in value.items()}
    elif isinstance(value, tuple):
        value = tuple(_placed(child, file) for child in value)
    return Node(value, file, None, node.text)


def apply(root: Node, path: tuple[str, ...], new: Node, done: Keys = ()) -> Node:
    """A copy of `root` with the value at `path` replaced; missing mappings on the way are made."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    if root.value is None:
        root = Node({}, new.file, None)
    if isinstance(root.value, tuple):
        position = _position(root, key, done, new)
        item = apply(_long_form(root.value[position], rest), rest, new, (*done, key))
        value = (*root.value[:position], item, *root.value[position + 1 :])
        return Node(value, root.file, root.line)
    if not isinstance(root.value, Mapping):
        where = ".".join(map(str, done))
        raise LoadError(
            [new.fault((*done, key), f"{where} is '{root.text or root.value}', it has no parts to set")]
        )
    child = root.value.get(key, Node(None, new.file, None))
    if rest and isinstance(child.value, str) and key in _SHORT_FORMS:
        child = Node({_SHORT_FORMS[key]: child}, child.file, child.line)
    return Node({**root.value, key: apply(child, rest, new, (*done, key))}, root.file, root.line)


def _long_form(item: Node, rest: tuple[str, ...]) -> Node:
    """An equation as a mapping, when something beside the equation is set."""
    return Node({"einsum": item}, item.file, item.line) if rest and isinstance(item.value, str) else item


def _position(items: Node, key: str, done: Keys, new: Node) -> int:
    labels = [_label(item) for item in items.value]
    if key in labels:
        return labels.index(key)
    if key.isdecimal() and int(key[:9]) < len(labels):
        return int(key[:9])
    names = [label for label in labels if label]
    where = ".".join(map(str, done))
    known = nearest(key, names) or f"; there are {', '.join(names) or 'none'}"
    raise LoadError([new.fault((*done, key), f"{where} has no '{key}'{known}")])


def _label(item: Node) -> str:
    name = item.child("name")
    if name is not None:
        return str(name.value)
    equation = item.child("einsum") or item
    if not isinstance(equation.value, str):
        return ""
    return equation.value.split("=")[0].split("[")[0].strip()
