"""What the engines cannot search (yet), each in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from exactile.formulation.problem import Problem
from exactile.solver.engine import UnsupportedProblem


def require_searchable(problem: Problem, engine: str) -> None:
    """Raise `UnsupportedProblem` with every reason why `engine` cannot search the problem."""
    reasons = list(_reasons(problem, engine))
    if reasons:
        raise UnsupportedProblem("; ".join(reasons))


def _reasons(problem: Problem, engine: str) -> Iterator[str]:
    cascade, hardware, mapspace = problem.cascade, problem.hardware, problem.mapspace
    if len(hardware.levels) != 2:
        yield f"{engine} searches machines with two levels, {hardware.name} has {len(hardware.levels)}"
    elif hardware.levels[0].spatial:
        yield f"{engine} does not spread work over the spatial dimensions of {hardware.levels[0].name}"
    elif hardware.levels[1].holds is not None:
        yield f"{engine} needs every tensor to pass through {hardware.levels[1].name} (holds: all)"
    if mapspace.between_groups:
        yield f"{engine} does not keep tensors on chip between groups"
    for einsum in cascade.einsums:
        accesses = (einsum.output, *einsum.inputs)
        odd = [str(access) for access in accesses if not access.plain]
        if odd:
            yield f"{engine} does not search windows, shifts or constants as indices ({', '.join(odd)})"
        tensors = [access.tensor for access in einsum.inputs]
        twice = sorted({name for name in tensors if tensors.count(name) > 1})
        if twice:
            names = ", ".join(twice)
            yield f"{einsum.name} reads {names} through two index maps, which {engine} does not search"
    if cascade.generational is not None:
        yield f"{engine} does not search recurrences"
