"""Compute units: which may run an Einsum, and whether it is used within its shape."""

from __future__ import annotations

from collections.abc import Iterator

from exactile.formulation.core.check_structure import spatial_faults
from exactile.formulation.core.facts import Facts
from exactile.formulation.core.inner import unit_dims
from exactile.formulation.faults import nearest
from exactile.formulation.mapping import UnitMapping
from exactile.formulation.units import NoUnitError, candidates


def unit_faults(facts: Facts, name: str, mapping: UnitMapping) -> Iterator[str]:
    """All faults of the use of a compute unit by one Einsum."""
    einsum = facts.einsums[name]
    unit = facts.units.get(mapping.unit)
    if unit is None:
        yield f"{name}: unknown unit '{mapping.unit}'{nearest(mapping.unit, facts.units)}"
        return
    try:
        able = candidates(facts.hardware, einsum.einsum)
    except NoUnitError as error:
        yield str(error)
        return
    if unit not in able:
        names = ", ".join(other.name for other in able)
        yield f"{name}: unit {unit.name} cannot run it (op {einsum.einsum.op}); expected {names}"
        return
    if unit.kind == "systolic" and mapping.dataflow not in unit.dataflows:
        known = ", ".join(unit.dataflows)
        yield f"{name}: unit {unit.name} has no dataflow {mapping.dataflow!r}; expected one of {known}"
    if unit.kind != "systolic" and mapping.dataflow not in (None, "free", *unit.dataflows):
        yield f"{name}: unit {unit.name} is no systolic array and has no dataflow {mapping.dataflow!r}"
    if unit.kind != "systolic" and mapping.transposed:
        yield f"{name}: unit {unit.name} is no systolic array and cannot be transposed"
    dims = unit_dims(facts, unit).values()
    yield from spatial_faults(mapping.spatial, einsum.ranks, dims, f"{name} on {unit.name}")
    for rank in mapping.order:
        if rank not in einsum.ranks:
            yield f"{name} on {unit.name}: the order of steps names {rank}, which is not a rank of it"
    if len(set(mapping.order)) < len(mapping.order):
        yield f"{name} on {unit.name}: the order of steps names a rank twice ({', '.join(mapping.order)})"
