"""Which compute unit may run which Einsum: the one rule that core, replay and encodings all need."""

from __future__ import annotations

from fractions import Fraction

from exactile.formulation.einsum import Einsum
from exactile.formulation.hardware import ComputeUnit, Hardware, OpCost

FALLBACK_OP = "ew"
CORRECTION_OP = "mul"


class NoUnitError(ValueError):
    """No unit of the machine can run an Einsum; the message names the op and the machine."""


def is_matmul(einsum: Einsum) -> bool:
    """Two plain inputs, op `mac`, and no rank that one input alone has: the systolic form."""
    if einsum.op != "mac" or len(einsum.inputs) != 2 or einsum.reduce != "sum":
        return False
    first, second = (set(access.ranks) for access in einsum.inputs)
    output = set(einsum.output.ranks)
    plain = all(access.plain for access in (einsum.output, *einsum.inputs))
    return plain and first <= second | output and second <= first | output


def able_units(hardware: Hardware, einsum: Einsum) -> tuple[ComputeUnit, ...]:
    """The units whose form fits the Einsum: a systolic array takes matmuls only, others anything.

    `unit` of the Einsum narrows the choice to one.
    """
    return tuple(
        unit
        for unit in hardware.compute
        if (einsum.unit is None or unit.name == einsum.unit)
        and (unit.kind != "systolic" or is_matmul(einsum))
    )


def op_cost(units: tuple[ComputeUnit, ...], unit: ComputeUnit, op: str) -> OpCost | None:
    """What one `op` costs on `unit`: its own entry, `ew` if none of `units` lists the op, or `None`."""
    if op in unit.ops:
        return unit.ops[op]
    if any(op in other.ops for other in units):
        return None
    return unit.ops.get(FALLBACK_OP)


def candidates(hardware: Hardware, einsum: Einsum) -> tuple[ComputeUnit, ...]:
    """The units that can run the Einsum, in the machine's order. Raises `NoUnitError` if none can.

    A matmul on a machine with an array that can run it goes to an array; the problem may say
    otherwise (`unit`).
    """
    able = able_units(hardware, einsum)
    found = tuple(unit for unit in able if all(op_cost(able, unit, op) for op in einsum.cost))
    arrays = tuple(unit for unit in found if unit.kind != "vector")
    if not found:
        where = f"unit {einsum.unit}" if einsum.unit else f"{hardware.name}"
        raise NoUnitError(f"no compute unit of {where} can run op {', '.join(einsum.cost)} of {einsum.name}")
    return arrays if arrays and is_matmul(einsum) else found


def point_cost(hardware: Hardware, einsum: Einsum, unit: ComputeUnit) -> OpCost:
    """Energy and cycles of one point of the Einsum on `unit`: its ops summed."""
    able = able_units(hardware, einsum)
    energy = cycles = Fraction(0)
    for op, count in einsum.cost.items():
        cost = op_cost(able, unit, op)
        if cost is None:
            raise NoUnitError(f"{unit.name} of {hardware.name} cannot run op {op} of {einsum.name}")
        energy += count * cost.energy
        cycles += count * cost.cycles
    return OpCost(energy, cycles)


def correction_unit(hardware: Hardware) -> tuple[ComputeUnit, OpCost]:
    """Where the rescaling of online statistics runs (op `mul`), and what one operation costs there."""
    able = tuple(unit for unit in hardware.compute if unit.kind != "systolic")
    for unit in sorted(able, key=lambda unit: unit.kind != "vector"):
        cost = op_cost(able, unit, CORRECTION_OP)
        if cost is not None:
            return unit, cost
    raise NoUnitError(
        f"no vector unit of {hardware.name} can run op {CORRECTION_OP} (rescaling of an online softmax)"
    )
