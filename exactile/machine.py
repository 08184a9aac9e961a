"""The form of a hardware file, and the machine it describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BeforeValidator, Field, ValidationInfo, WrapValidator, field_validator, model_validator

from exactile import quantities
from exactile.faults import FileFault
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim, UnitKind
from exactile.quantities import QuantityError
from exactile.schema import Count, Name, Names, Strict, locate, refuse, validate
from exactile.yaml_source import Keys, Node

DATAFLOWS = ("weight_stationary", "output_stationary", "input_stationary")
Result = TypeVar("Result")


def _quantity(read: Callable[[object], Result]) -> BeforeValidator:
    def validator(value: object) -> Result:
        try:
            return read(value)
        except QuantityError as error:
            raise refuse(str(error)) from None

    return BeforeValidator(validator)


def _with_clock(
    read: Callable[[object, Fraction | None], Result], value: object, info: ValidationInfo
) -> Result:
    try:
        return read(value, _context(info)["clock"])
    except QuantityError as error:
        raise refuse(str(error)) from None


def _energy(read: Callable[[object], tuple[Result, str]], value: object, info: ValidationInfo) -> Result:
    """Reads an energy and notes its unit, so that a mixture is found."""
    try:
        amount, unit = read(value)
    except QuantityError as error:
        raise refuse(str(error)) from None
    _context(info)["energies"].setdefault(unit, value)
    return amount


def _context(info: ValidationInfo) -> dict[str, Any]:
    return cast(dict[str, Any], info.context)


def _energy_rate(value: object, info: ValidationInfo) -> Rate:
    return _energy(quantities.energy_rate, value, info)


def _op_energy(value: object, info: ValidationInfo) -> Fraction:
    return _energy(quantities.op_energy, value, info)


def _bandwidth(value: object, info: ValidationInfo) -> Rate:
    return _with_clock(quantities.bandwidth, value, info)


def _launch(value: object, info: ValidationInfo) -> Fraction:
    return _with_clock(quantities.duration, value, info)


EnergyRate = Annotated[Any, BeforeValidator(_energy_rate)]
Bandwidth = Annotated[Any, BeforeValidator(_bandwidth)]


class EnergyForm(Strict):
    read: EnergyRate = Rate(Fraction(0))
    write: EnergyRate = Rate(Fraction(0))


class PortsForm(Strict):
    read: Bandwidth = None
    write: Bandwidth = None


def _one_or_both(read: Callable[[object, ValidationInfo], Any]) -> WrapValidator:
    """`{read: …, write: …}`, or one quantity for both: then a plain value instead of the form."""

    def validator(value: object, handler: Callable[[object], Any], info: ValidationInfo) -> Any:
        return handler(value) if isinstance(value, Mapping) else read(value, info)

    return WrapValidator(validator)


def _spatial(value: object) -> object:
    return value if isinstance(value, Mapping) else {"size": value}


class SpatialForm(Strict):
    size: Count
    multicast: bool = True
    reduce: bool = True


Spatial = Annotated[SpatialForm, BeforeValidator(_spatial)]


class LevelForm(Strict):
    name: Name
    capacity: Annotated[Any, _quantity(quantities.data)] = None
    energy: Annotated[EnergyForm, _one_or_both(_energy_rate)] = EnergyForm()
    bandwidth: Annotated[PortsForm, _one_or_both(_bandwidth)] = PortsForm()
    double_buffer: bool = False
    holds: Names | None = None
    spatial: dict[Name, Spatial] = Field(default_factory=dict)

    @field_validator("spatial")
    @classmethod
    def _reserved(cls, dims: dict[str, SpatialForm]) -> dict[str, SpatialForm]:
        if "instances" in dims:
            raise refuse("'instances' is the dimension of a compute unit, choose another name")
        return dims


def _operation(value: object) -> object:
    return value if isinstance(value, Mapping) else {"energy": value}


class OpForm(Strict):
    energy: Annotated[Any, BeforeValidator(_op_energy)] = Fraction(0)
    cycles: Annotated[Any, _quantity(quantities.cycles_per_op)] = Fraction(1)


class UnitForm(Strict):
    name: Name
    ops: dict[Name, Annotated[OpForm, BeforeValidator(_operation)]]
    dataflows: list[Literal["weight_stationary", "output_stationary", "input_stationary", "free"]] | None = (
        None
    )
    registers: list[Literal["input", "weight", "output"]] | None = None
    lanes: Count | None = None
    instances: Spatial = SpatialForm(size=1)

    @model_validator(mode="after")
    def _one_kind(self) -> UnitForm:
        if not self.ops:
            raise refuse("expected at least one op, like 'ops: {mac: {energy: 0.05 pJ}}', got none")
        if (self.lanes is None) == (self.dataflows is None):
            got = "none of them" if self.lanes is None else "both"
            raise refuse(f"expected 'lanes' (a vector unit) or 'dataflows' (an array), got {got}")
        if self.dataflows is not None and (
            not self.dataflows or ("free" in self.dataflows and len(self.dataflows) > 1)
        ):
            raise refuse(f"dataflows: expected [free], or a list of {', '.join(DATAFLOWS)}")
        if self.registers is not None and self.dataflows != ["free"]:
            raise refuse("registers belong to an array with 'dataflows: [free]'")
        return self

    @property
    def kind(self) -> UnitKind:
        if self.dataflows is None:
            return "vector"
        return "free" if self.dataflows == ["free"] else "systolic"


class MachineForm(Strict):
    name: Name = "machine"
    clock: Annotated[Any, _quantity(quantities.frequency)] = None
    overlap: Literal["full", "none"] = "full"
    launch: Annotated[Any, BeforeValidator(_launch)] = Fraction(0)
    levels: list[LevelForm]
    compute: list[UnitForm]
    sources: dict[str, Any] = Field(default_factory=dict)


def build_hardware(node: Node, prefix: Keys) -> tuple[Hardware | None, list[FileFault]]:
    """The machine that a mapping describes, or `None` and every fault."""
    context: dict[str, Any] = {"clock": _clock(node), "energies": {}}
    form, faults = validate(MachineForm, node, prefix, context)
    energies: dict[str, object] = context["energies"]
    if len(energies) > 1:
        with_unit, without = energies["pJ"], energies["1"]
        message = f"energies with a unit ({with_unit}) and without ({without}) cannot be mixed in one machine"
        faults.append(locate(node, prefix, _find(node, energies["1"]), message))
    faults += _part_faults(node, prefix)
    if form is None or faults:
        return None, faults
    return _hardware(form, next(iter(energies), "pJ")), []


def _clock(node: Node) -> Fraction | None:
    """The clock, needed before anything else is read; its own faults are reported with the rest."""
    clock = node.child("clock")
    try:
        return None if clock is None else quantities.frequency(clock.value)
    except QuantityError:
        return Fraction(1)


def _find(node: Node, value: object) -> Keys:
    """The path of the first scalar of this value."""
    below: list[tuple[str | int, Node]] = []
    if isinstance(node.value, Mapping):
        below = list(node.value.items())
    elif isinstance(node.value, tuple):
        below = list(enumerate(node.value))
    for key, child in below:
        if child.value == value:
            return (key,)
        if found := _find(child, value):
            return (key, *found)
    return ()


def _part_faults(node: Node, prefix: Keys) -> list[FileFault]:
    """What concerns levels or units together: their number and their names."""
    faults = []
    names: dict[object, str] = {}
    for part in ("levels", "compute"):
        items = node.child(part)
        if items is None or not isinstance(items.value, tuple):
            continue
        least = 2 if part == "levels" else 1
        if len(items.value) < least:
            what = (
                "an outermost level and at least one buffer"
                if part == "levels"
                else "at least one compute unit"
            )
            faults.append(locate(node, prefix, (part,), f"expected {what}, got {len(items.value)}"))
        for position, item in enumerate(items.value):
            label = item.child("name")
            if label is None or not isinstance(label.value, str):
                continue
            if label.value in names:
                faults.append(
                    label.fault(
                        (*prefix, part, position, "name"),
                        f"the name '{label.value}' is given twice (first in {names[label.value]})",
                    )
                )
            names.setdefault(label.value, f"{part}, line {label.line}")
    outermost = node.child("levels")
    first = None if outermost is None else outermost.child(0)
    if first is not None and first.child("capacity") is not None:
        faults.append(
            locate(
                node,
                prefix,
                ("levels", 0, "capacity"),
                "the outermost level is unbounded: leave its capacity out",
            )
        )
    return faults


def _hardware(form: MachineForm, energy_unit: str) -> Hardware:
    return Hardware(
        form.name,
        tuple(_level(level) for level in form.levels),
        tuple(_unit(unit) for unit in form.compute),
        form.clock,
        form.overlap,
        form.launch,
        energy_unit,
        {key: str(value) for key, value in form.sources.items()},
    )


def _level(form: LevelForm) -> Level:
    energy, ports = form.energy, form.bandwidth
    shared = isinstance(ports, Rate)
    return Level(
        form.name,
        form.capacity,
        energy if isinstance(energy, Rate) else energy.read,
        energy if isinstance(energy, Rate) else energy.write,
        ports if isinstance(ports, Rate) else ports.read,
        ports if isinstance(ports, Rate) else ports.write,
        shared or ports == PortsForm(),
        form.double_buffer,
        None if form.holds is None or form.holds == ["all"] else frozenset(form.holds),
        tuple(_dim(name, dim) for name, dim in form.spatial.items()),
    )


def _dim(name: str, form: SpatialForm) -> SpatialDim:
    return SpatialDim(name, form.size, form.multicast, form.reduce)


def _unit(form: UnitForm) -> ComputeUnit:
    return ComputeUnit(
        form.name,
        form.kind,
        {name: OpCost(op.energy, op.cycles) for name, op in form.ops.items()},
        tuple(flow for flow in form.dataflows or () if flow != "free"),
        tuple(form.registers or ()),
        form.lanes or 1,
        _dim("instances", form.instances),
    )
