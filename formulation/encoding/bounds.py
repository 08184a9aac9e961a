"""Lower bounds that hold for every mapping: compulsory traffic and compute."""

from __future__ import annotations

from fractions import Fraction

from exactile.formulation.cascade import Cascade
from exactile.formulation.encoding.metrics import Vector, access_vector, add
from exactile.formulation.problem import Problem
from exactile.formulation.units import candidates, point_cost


def compulsory(problem: Problem, quantity: str) -> Fraction:
    """A valid lower bound of a quantity, in base units: every input read once, every output written
    once, every point computed once on the unit that does it best, and nothing else."""
    if quantity == "edp":
        return compulsory(problem, "energy") * compulsory(problem, "latency")
    hardware, cascade = problem.hardware, problem.cascade
    moved = _moved(problem)
    operations = Fraction(sum(cascade.points(e) * sum(e.cost.values()) for e in cascade.einsums))
    if quantity == "operations":
        return operations
    if quantity == "latency":
        ports = [amount for name, amount in moved.items() if name.startswith("level:")]
        return max(ports, default=Fraction(0)) + hardware.launch
    energy = moved.get(quantity, Fraction(0))
    if quantity == "energy":
        for einsum in cascade.einsums:
            per_point = min(
                point_cost(hardware, einsum, unit).energy for unit in candidates(hardware, einsum)
            )
            energy += cascade.points(einsum) * per_point
    return energy


def _moved(problem: Problem) -> Vector:
    outer = problem.hardware.levels[0]
    total: Vector = {}
    for tensor in problem.cascade.tensors.values():
        kind = "read" if _is_input(problem.cascade, tensor.name) else "write"
        if kind == "read" or tensor.role == "output":
            vector = access_vector(outer, kind, tensor.bits, True)
            total = add(total, {name: amount * tensor.size for name, amount in vector.items()})
    return total


def _is_input(cascade: Cascade, tensor: str) -> bool:
    return tensor not in cascade.by_name
