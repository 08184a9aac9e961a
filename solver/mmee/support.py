"""What the enumeration cannot list (yet), each in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from exactile.formulation.problem import Problem
from exactile.solver.engine import UnsupportedProblem

MAX_EINSUMS = 4
"""Cascades up to this size are listed whole; the number of structures explodes beyond."""


def require_supported(problem: Problem) -> None:
    """Raise `UnsupportedProblem` with every reason why the problem cannot be enumerated."""
    reasons = list(_reasons(problem))
    if reasons:
        raise UnsupportedProblem("; ".join(reasons))


def _reasons(problem: Problem) -> Iterator[str]:
    cascade, hardware, mapspace = problem.cascade, problem.hardware, problem.mapspace
    if len(hardware.levels) != 2:
        yield f"mmee searches machines with two levels, {hardware.name} has {len(hardware.levels)}"
    elif hardware.levels[0].spatial:
        yield f"mmee does not spread work over the spatial dimensions of {hardware.levels[0].name}"
    elif hardware.levels[1].holds is not None:
        yield f"mmee needs every tensor to pass through {hardware.levels[1].name} (holds: all)"
    if len(cascade.einsums) > MAX_EINSUMS:
        count = len(cascade.einsums)
        yield f"mmee lists cascades of at most {MAX_EINSUMS} Einsums, {cascade.name} has {count}"
    if mapspace.between_groups:
        yield "mmee does not keep tensors on chip between groups"
    for einsum in cascade.einsums:
        accesses = (einsum.output, *einsum.inputs)
        odd = [str(access) for access in accesses if not access.plain]
        if odd:
            yield f"mmee does not search windows, shifts or constants as indices ({', '.join(odd)})"
        tensors = [access.tensor for access in einsum.inputs]
        twice = sorted({name for name in tensors if tensors.count(name) > 1})
        if twice:
            yield f"{einsum.name} reads {', '.join(twice)} through two index maps, which mmee does not search"
    if cascade.generational is not None:
        yield "mmee does not search recurrences"
