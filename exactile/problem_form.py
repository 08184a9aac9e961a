"""The form of problem and workload files, and the cascade, objective and mapspace they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from exactile import quantities
from exactile.config_file import CONFIGURED, read_config, takes_config
from exactile.faults import FileFault
from exactile.formulation.cascade import Cascade
from exactile.formulation.faults import Fault, InputError, nearest, shown
from exactile.formulation.hardware import Hardware
from exactile.formulation.problem import QUANTITIES, Mapspace, Objective
from exactile.quantities import QuantityError
from exactile.schema import Count, Name, Names, Strict, locate, validate
from exactile.workloads.builders import argument_faults, build_spec, parameters
from exactile.yaml_source import Keys, Node

CASCADE_KEYS = ("name", "ranks", "bits", "einsums", "tensors", "generational")


class GenerationalForm(Strict):
    rank: Name
    state: Name


class WorkloadForm(Strict):
    """Only the outline: the cascade itself judges ranks, Einsums and tensors."""

    name: Name = "workload"
    ranks: dict[str, Any]
    bits: Any = 8
    einsums: list[Any]
    tensors: dict[str, Any] = Field(default_factory=dict)
    generational: GenerationalForm | None = None


class BuilderForm(Strict):
    """What may stand beside a builder's arguments: the parts of the cascade that it made."""

    name: Name = "workload"
    ranks: dict[str, Any] = Field(default_factory=dict)
    tensors: dict[str, dict[str, Any]] = Field(default_factory=dict)


Minimize = Literal["dram_traffic", "energy", "latency", "edp"]
Quantity = Literal["dram_traffic", "energy", "latency", "edp", "operations"]


class ObjectiveForm(Strict):
    minimize: Minimize
    then: Annotated[
        list[Quantity], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
    ] = Field(default_factory=lambda: list[Quantity](("operations", "energy")))
    subject_to: dict[str, Any] = Field(default_factory=dict)


class MapspaceForm(Strict):
    tile_sizes: Literal["divisors", "all"] = "divisors"
    recomputation: bool = True
    shared_inputs: bool = True
    fused_outputs: bool = True
    between_groups: bool = False
    order: Literal["search", "given"] = "search"
    fusion: Any = "free"
    orders: dict[str, Names] = Field(default_factory=dict)
    residency: dict[str, Names] = Field(default_factory=dict)
    tiles: dict[str, Count] = Field(default_factory=dict)


class FusionForm(Strict):
    fusion: list[Names]


class ProblemForm(Strict):
    name: Name | None = None
    workload: Any
    hardware: Any
    objective: Any = "energy"
    mapspace: Any = Field(default_factory=dict)


def build_cascade(node: Node, prefix: Keys) -> tuple[Cascade | None, list[FileFault]]:
    """The cascade that a mapping describes, or `None` and every fault."""
    if node.child("builder") is not None:
        return _built_cascade(node, prefix)
    form, faults = validate(WorkloadForm, node, prefix)
    if form is None:
        return None, faults
    generational = form.generational
    try:
        cascade = Cascade(
            form.ranks,
            form.einsums,
            name=form.name,
            tensors=form.tensors,
            bits=form.bits,
            generational=None if generational is None else (generational.rank, generational.state),
        )
    except InputError as error:
        return None, [locate(node, prefix, fault.path, fault.message) for fault in error.faults]
    return cascade, []


def _built_cascade(node: Node, prefix: Keys) -> tuple[Cascade | None, list[FileFault]]:
    """Of a builder: its arguments, and beside them changed extents and declared tensors."""
    fields = dict(node.value)
    builder = fields.pop("builder").plain()
    beside = Node(
        {key: fields.pop(key) for key in ("ranks", "tensors") if key in fields}, node.file, node.line
    )
    form, faults = validate(BuilderForm, beside, prefix)
    inherited: dict[str, Any] = {}
    elsewhere: frozenset[str] = frozenset()
    if "config" in fields and takes_config(builder):
        elsewhere = CONFIGURED & parameters(builder).keys() - fields.keys()
        inherited, more = read_config(fields.pop("config"), (*prefix, "config"), elsewhere)
        faults += more
    arguments = {key: value.plain() for key, value in fields.items()}
    faults += [
        locate(node, prefix, fault.path, fault.message)
        for fault in argument_faults(builder, arguments, elsewhere)
    ]
    if form is None or faults:
        return None, faults
    try:
        spec = build_spec(builder, {**inherited, **arguments})
        return Cascade(**_changed(spec, form, builder)), []
    except InputError as error:
        found = [
            _of_config(fault) if fault.path and fault.path[0] in inherited else fault
            for fault in error.faults
        ]
        return None, [locate(node, prefix, fault.path, fault.message) for fault in found]


def _of_config(fault: Fault) -> Fault:
    """A fault of an argument that the file does not have: where it came from is the place."""
    return Fault(("config",), f"{fault.path[0]}: {fault.message}")


def _changed(spec: dict[str, Any], form: BuilderForm, builder: str) -> dict[str, Any]:
    """What a builder made with what is declared beside it. Raises `InputError` for unknown ranks."""
    known = spec["ranks"]
    if unknown := [rank for rank in form.ranks if rank not in known]:
        message = f"builder {builder} makes no rank of this name; there are {', '.join(known)}"
        raise InputError([Fault(("ranks", rank), message) for rank in unknown])
    tensors = {**spec.get("tensors", {}), **form.tensors}
    return {**spec, "tensors": tensors, "ranks": {**known, **form.ranks}}


def build_objective(
    node: Node, prefix: Keys, hardware: Hardware | None
) -> tuple[Objective | None, list[FileFault]]:
    """The objective; without a machine the units of its bounds cannot be judged."""
    if not isinstance(node.value, Mapping):
        node = Node({"minimize": node}, node.file, node.line, node.text)
        form, faults = validate(ObjectiveForm, node, prefix)
        return (Objective(form.minimize) if form else None), [replace(fault, path=prefix) for fault in faults]
    form, faults = validate(ObjectiveForm, node, prefix)
    bounds: dict[str, Fraction] = {}
    bounds_node = node.child("subject_to")
    given = bounds_node.value if bounds_node is not None and isinstance(bounds_node.value, Mapping) else {}
    for quantity, value in given.items():
        if quantity not in QUANTITIES:
            hint = nearest(quantity, QUANTITIES) or f"; known are {', '.join(QUANTITIES)}"
            faults.append(locate(node, prefix, ("subject_to", quantity), f"unknown quantity{hint}"))
        elif hardware is not None:
            try:
                bounds[quantity] = quantities.limit(
                    quantity, value.value, hardware.energy_unit, hardware.clock
                )
            except QuantityError as error:
                faults.append(locate(node, prefix, ("subject_to", quantity), str(error)))
    if form is None or faults:
        return None, faults
    return Objective(form.minimize, tuple(form.then), bounds), []


def build_mapspace(node: Node, prefix: Keys) -> tuple[Mapspace | None, list[FileFault]]:
    """The mapspace as written; whether it suits the cascade is judged with the problem."""
    form, faults = validate(MapspaceForm, node, prefix)
    fusion: Any = None if form is None else form.fusion
    groups = node.child("fusion")
    if groups is not None and groups.value not in ("free", "none"):
        if isinstance(groups.value, tuple):
            outline = Node({"fusion": groups}, node.file, node.line)
            listed, more = validate(FusionForm, outline, prefix)
            faults += more
            fusion = None if listed is None else tuple(tuple(group) for group in listed.fusion)
        else:
            got = shown(groups.plain())
            message = f"expected free, none or a list of groups like [[S, P, O]], got {got}"
            faults.append(locate(node, prefix, ("fusion",), message))
    if form is None or faults:
        return None, faults
    mapspace = Mapspace(
        form.tile_sizes,
        form.recomputation,
        form.shared_inputs,
        form.fused_outputs,
        form.between_groups,
        form.order,
        fusion,
        {einsum: tuple(ranks) for einsum, ranks in form.orders.items()},
        {tensor: frozenset(ranks) for tensor, ranks in form.residency.items()},
        dict(form.tiles),
    )
    return mapspace, []
