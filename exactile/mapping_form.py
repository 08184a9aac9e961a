"""The form of a mapping file, and the mapping it describes, with names judged against the problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from exactile.faults import FileFault
from exactile.formulation.faults import nearest
from exactile.formulation.fingerprint import problem_hash
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.problem import Problem
from exactile.schema import Count, Name, Names, Strict, validate
from exactile.yaml_source import Keys, Node

Factors = dict[str, dict[str, Count]]


class ProblemMark(Strict):
    name: str = ""
    hash: str | None = None


class LoopForm(Strict):
    rank: Name
    tile: Count


class BufferForm(Strict):
    tensor: Name
    users: Names
    outside: Names = Field(default_factory=list)


class UnitMappingForm(Strict):
    unit: Name
    dataflow: Literal["weight_stationary", "output_stationary", "input_stationary"] | None = None
    transposed: bool = False
    spatial: Factors = Field(default_factory=dict)
    order: Names = Field(default_factory=list)


class GroupForm(Strict):
    """`inner` is read on its own, one boundary at a time."""

    order: Names
    nests: dict[str, list[LoopForm]] = Field(default_factory=dict)
    buffers: list[BufferForm] = Field(default_factory=list)
    inner: dict[str, Any]
    spatial: dict[str, Factors] = Field(default_factory=dict)


class MappingForm(Strict):
    problem: ProblemMark = ProblemMark()
    groups: list[Any]
    kept_between_groups: Names = Field(default_factory=list)


@dataclass
class _Checker:
    """Collects faults; knows the names of the problem."""

    problem: Problem
    faults: list[FileFault] = field(default_factory=list)

    def names(
        self, names: Iterable[str], known: Iterable[str], what: str, node: Node | None, path: Keys
    ) -> None:
        """Every name must be known; the fault stands where `node` does."""
        known = list(known)
        for name in names:
            if name not in known and node is not None:
                hint = nearest(name, known) or f"; there are {', '.join(known)}"
                self.faults.append(node.fault(path, f"unknown {what} '{name}'{hint}"))


def build_mapping(root: Node, problem: Problem) -> tuple[Mapping | None, list[FileFault]]:
    """The mapping that a file describes, or `None` and every fault."""
    check = _Checker(problem)
    form, check.faults = validate(MappingForm, root, ())
    if form is not None and form.problem.hash not in (None, problem_hash(problem)):
        mark = root.child("problem") or root
        message = (
            f"this mapping is for another problem, '{form.problem.name}' with hash {form.problem.hash}; "
            f"the one given is '{problem.name}' with hash {problem_hash(problem)} "
            "(without the key 'problem' the mapping is taken as it is)"
        )
        return None, [*check.faults, (mark.child("hash") or mark).fault(("problem", "hash"), message)]
    items = root.child("groups")
    groups = []
    for position, node in enumerate(
        items.value if items is not None and isinstance(items.value, tuple) else ()
    ):
        groups.append(_group(node, ("groups", position), 0, check))
    if form is None or None in groups:
        return None, check.faults
    kept = root.child("kept_between_groups")
    check.names(form.kept_between_groups, problem.cascade.tensors, "tensor", kept, ("kept_between_groups",))
    return Mapping(tuple(group for group in groups if group), tuple(form.kept_between_groups)), check.faults


def _group(node: Node, path: Keys, boundary: int, check: _Checker) -> Group | None:
    """The group at one boundary, checked with everything inside; `None` if its form is wrong."""
    form, faults = validate(GroupForm, node, path)
    check.faults += faults
    inner = _inner(node, path, boundary, check)
    if form is None:
        return None
    cascade, parts = check.problem.cascade, {key: node.child(key) or node for key in GroupForm.model_fields}
    check.names(form.order, cascade.by_name, "Einsum", parts["order"], (*path, "order"))
    # a slip in the order must not make faults of all that refers to it
    members = form.order if set(form.order) <= set(cascade.by_name) else [*cascade.by_name, *form.order]
    for key, einsums in (("nests", form.nests), ("inner", form.inner), ("spatial", form.spatial)):
        for name in einsums:
            check.names([name], members, "Einsum of the group", parts[key].child(name), (*path, key, name))
    for name in form.order:
        if name in cascade.by_name and name not in form.inner:
            check.faults.append(
                parts["inner"].fault((*path, "inner"), f"missing key '{name}', an Einsum of the group")
            )
    for name, nest in form.nests.items():
        check.names(
            [loop.rank for loop in nest],
            cascade.ranks,
            "rank",
            parts["nests"].child(name),
            (*path, "nests", name),
        )
    for position, buffer in enumerate(form.buffers):
        place, where = parts["buffers"].child(position), (*path, "buffers", position)
        check.names([buffer.tensor], cascade.tensors, "tensor", place, (*where, "tensor"))
        check.names(buffer.users, members, "user", place, (*where, "users"))
        check.names(buffer.outside, cascade.ranks, "rank", place, (*where, "outside"))
    dims = [dim.name for dim in check.problem.hardware.levels[boundary].spatial]
    for name, factors in form.spatial.items():
        _factor_names(factors, dims, parts["spatial"].child(name), (*path, "spatial", name), check)
    return Group(
        tuple(form.order),
        {name: tuple(Loop(loop.rank, loop.tile) for loop in form.nests.get(name, ())) for name in form.order},
        tuple(Buffer(item.tensor, tuple(item.users), frozenset(item.outside)) for item in form.buffers),
        {name: part for name, part in inner.items() if part is not None},
        form.spatial,
    )


def _inner(node: Node, path: Keys, boundary: int, check: _Checker) -> dict[str, Group | UnitMapping | None]:
    """What happens inside the tiles: another boundary while levels follow, then a compute unit."""
    items = node.child("inner")
    if items is None or not isinstance(items.value, dict):
        return {}
    levels = check.problem.hardware.levels
    last = boundary + 2 >= len(levels)
    found: dict[str, Group | UnitMapping | None] = {}
    for name, child in items.value.items():
        where = (*path, "inner", name)
        if last == (child.child("unit") is not None) or not isinstance(child.value, dict):
            found[name] = _unit(child, where, check) if last else _group(child, where, boundary + 1, check)
        elif last:
            check.faults.append(
                child.fault(where, f"missing key 'unit': {levels[-1].name} is the last level")
            )
        else:
            below = levels[boundary + 2].name
            message = f"expected order, nests, buffers and inner for the level {below}, got a compute unit"
            check.faults.append(child.fault(where, message))
    return found


def _unit(node: Node, path: Keys, check: _Checker) -> UnitMapping | None:
    form, faults = validate(UnitMappingForm, node, path)
    check.faults += faults
    if form is None:
        return None
    hardware, cascade = check.problem.hardware, check.problem.cascade
    units = {unit.name: unit for unit in hardware.compute}
    check.names([form.unit], units, "unit", node, (*path, "unit"))
    if form.unit in units and form.dataflow is not None:
        flows = units[form.unit].dataflows
        check.names(
            [form.dataflow], flows or ("none",), f"dataflow of {form.unit}", node, (*path, "dataflow")
        )
    check.names(form.order, cascade.ranks, "rank", node, (*path, "order"))
    dims = ["instances", *(dim.name for dim in hardware.levels[-1].spatial)]
    _factor_names(form.spatial, dims, node, (*path, "spatial"), check)
    return UnitMapping(form.unit, form.dataflow, form.transposed, form.spatial, tuple(form.order))


def _factor_names(factors: Factors, dims: list[str], node: Node | None, path: Keys, check: _Checker) -> None:
    check.names(factors, check.problem.cascade.ranks, "rank", node, path)
    for rank, by_dim in factors.items():
        check.names(by_dim, dims, "spatial dimension", node, (*path, rank))
