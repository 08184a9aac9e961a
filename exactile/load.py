"""Loading problems, workloads and machines: all faults at once, each with its file and line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from exactile.catalogue import Kind
from exactile.faults import FileFault, LoadError
from exactile.formulation.cascade import Cascade
from exactile.formulation.consistency import misfits
from exactile.formulation.faults import shown
from exactile.formulation.hardware import Hardware
from exactile.formulation.problem import Problem
from exactile.kinds import expect
from exactile.machine import build_hardware
from exactile.mapping_file import dump_mapping, load_mapping, mapping_data
from exactile.overrides import apply, parse_override
from exactile.problem_form import ProblemForm, build_cascade, build_mapspace, build_objective
from exactile.references import display, follow, resolve, unknown
from exactile.schema import locate, validate
from exactile.yaml_source import Node, read_file

__all__ = [
    "dump_mapping",
    "load_hardware",
    "load_mapping",
    "load_problem",
    "load_problems",
    "load_workload",
    "mapping_data",
]

PathLike = str | os.PathLike[str]
PARTS: tuple[Kind, ...] = ("workload", "hardware")


def load_problem(source: PathLike, overrides: Iterable[str] = ()) -> Problem:
    """The problem in a file, or a built-in one by name.

    `overrides` are texts `KEY=VALUE` with the key paths of the file, such as `workload.ranks.m=1024`. Raises
    `LoadError` (an `InputError`) with every fault.
    """
    root, faults = _open("problem", source), list[FileFault]()
    changes = []
    for text in overrides:
        try:
            changes.append(parse_override(text))
        except LoadError as error:
            faults += error.faults
    # a whole part is exchanged before the file it names is read, details of it afterwards
    for whole in (True, False):
        for path, value in changes:
            if (len(path) == 1) == whole:
                try:
                    root = apply(root, path, value)
                except LoadError as error:
                    faults += error.faults
        if whole:
            root = _follow_parts(root, faults)
    return _problem(root, faults)


def load_problems(sources: Iterable[PathLike], overrides: Iterable[str] = ()) -> list[Problem]:
    """Several problems, each with the same overrides. Raises `LoadError` with the faults of all of them."""
    loaded, faults, changes = [], list[FileFault](), tuple(overrides)
    for source in sources:
        try:
            loaded.append(load_problem(source, changes))
        except LoadError as error:
            faults += error.faults
    if faults:
        raise LoadError(faults)
    return loaded


def load_workload(source: PathLike) -> Cascade:
    """The cascade in a file, or a built-in one by name. Raises `LoadError`."""
    cascade, faults = build_cascade(_open("workload", source), ())
    if cascade is None or faults:
        raise LoadError(faults)
    return cascade


def load_hardware(source: PathLike) -> Hardware:
    """The machine in a file, or a built-in one by name. Raises `LoadError`."""
    hardware, faults = build_hardware(_open("hardware", source), ())
    if hardware is None or faults:
        raise LoadError(faults)
    return hardware


def _open(kind: Kind, source: PathLike) -> Node:
    found = resolve(kind, source)
    if found is None:
        raise LoadError([FileFault((), unknown(kind, os.fspath(source)), os.fspath(source))])
    return expect(read_file(display(found)), kind)


def _follow_parts(root: Node, faults: list[FileFault]) -> Node:
    """The problem with its workload and hardware files read in; one that cannot be read keeps its name."""
    parts: dict[str, Node] = {}
    for part in PARTS:
        node = root.child(part)
        if node is not None:
            try:
                parts[part] = follow(part, node, (part,))
            except LoadError as error:
                faults += error.faults
    return Node({**root.value, **parts}, root.file, root.line)


def _part(root: Node, part: Kind, faults: list[FileFault]) -> Any:
    """The cascade or the machine, or `None` if it has faults."""
    node = root.child(part)
    if node is None or isinstance(node.value, str):
        return None  # a missing key, or a file that could not be read: reported already
    if not isinstance(node.value, Mapping):
        faults.append(node.fault((part,), f"expected a name, a path or a mapping, got {shown(node.plain())}"))
        return None
    build: Any = build_cascade if part == "workload" else build_hardware
    found, more = build(node, (part,))
    faults += more
    return found


def _problem(root: Node, faults: list[FileFault]) -> Problem:
    form, more = validate(ProblemForm, root, ())
    faults += more
    cascade: Cascade | None = _part(root, "workload", faults)
    hardware: Hardware | None = _part(root, "hardware", faults)
    objective, more = build_objective(
        root.child("objective") or _default(root, "energy"), ("objective",), hardware
    )
    faults += more
    mapspace, more = build_mapspace(root.child("mapspace") or _default(root, {}), ("mapspace",))
    faults += more
    if cascade is not None:
        faults += [
            locate(root, (), fault.path, fault.message) for fault in misfits(cascade, hardware, mapspace)
        ]
    if faults or form is None or cascade is None or hardware is None or objective is None or mapspace is None:
        raise LoadError(faults)
    return Problem(cascade, hardware, objective, mapspace, form.name or cascade.name)


def _default(root: Node, value: Any) -> Node:
    return Node(value, root.file, root.line)
