"""Lower bounds that hold for every mapping: compulsory traffic and compute."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from exactile.formulation.encoding.metrics import Vector, access_vector, add
from exactile.formulation.hardware import ComputeUnit, Hardware
from exactile.formulation.problem import Problem
from exactile.formulation.units import candidates, point_cost


def compulsory(problem: Problem, quantity: str) -> Fraction:
    """A valid lower bound of a quantity for the whole problem, in base units."""
    names = [einsum.name for einsum in problem.cascade.einsums]
    if quantity == "edp":
        return compulsory(problem, "energy") * compulsory(problem, "latency")
    return group_floor(problem, names, quantity)


def group_floor(problem: Problem, names: Collection[str], quantity: str) -> Fraction:
    """A lower bound of an additive quantity or `latency` of a fused group, in base units.

    Every tensor that enters or leaves the group crosses boundary 0 once, every Einsum reads its inputs
    and writes its output once, every point is computed once on the unit that does it best.
    """
    cascade, hardware = problem.cascade, problem.hardware
    moved = _moved(problem, names)
    einsums = [cascade.by_name[name] for name in names]
    if quantity == "operations":
        return Fraction(sum(cascade.points(e) * sum(e.cost.values()) for e in einsums))
    if quantity == "latency":
        floors = [amount for name, amount in moved.items() if name.startswith("level:")]
        for einsum in einsums:
            units = candidates(hardware, einsum)
            steps = min(point_cost(hardware, einsum, unit).cycles / width(hardware, unit) for unit in units)
            floors.append(cascade.points(einsum) * steps)
        return max(floors, default=Fraction(0)) + hardware.launch
    total = moved.get(quantity, Fraction(0))
    if quantity == "energy":
        for einsum in einsums:
            per_point = min(
                point_cost(hardware, einsum, unit).energy for unit in candidates(hardware, einsum)
            )
            total += cascade.points(einsum) * per_point
    return total


def width(hardware: Hardware, unit: ComputeUnit) -> int:
    """Points that a unit computes in one step at most."""
    width = unit.instances.size * (unit.lanes if unit.kind == "vector" else 1)
    if unit.kind != "vector":
        for dim in hardware.levels[-1].spatial[: 2 if unit.kind == "systolic" else None]:
            width *= dim.size
    return width


def _moved(problem: Problem, names: Collection[str]) -> Vector:
    cascade, (outer, inner) = problem.cascade, (problem.hardware.levels[0], problem.hardware.levels[-1])
    total: Vector = {}

    def count(tensor: str, *accesses: tuple[bool, str]) -> None:
        nonlocal total
        size, bits = cascade.tensors[tensor].size, cascade.tensors[tensor].bits
        for outermost, kind in accesses:
            vector = access_vector(outer if outermost else inner, kind, bits, outermost)
            total = add(total, {name: amount * size for name, amount in vector.items()})

    fetched = set()
    for name in names:
        for access in cascade.by_name[name].inputs:
            count(access.tensor, (False, "read"))
            if access.tensor not in names:
                fetched.add(access.tensor)
        count(name, (False, "write"))
        users = {user.name for user in cascade.consumers[name]}
        if cascade.tensors[name].role == "output" or users - set(names):
            count(name, (False, "read"), (True, "write"))
    for tensor in sorted(fetched):
        count(tensor, (True, "read"), (False, "write"))
    return total
