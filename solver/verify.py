"""Distrust of an answer: legality and cost by the analytical core, then a replay of the loop nest.

The core and the replay are written independently of each other and of the engines. The replay runs
at full size where the problem is small, else on a copy with the same structure (`solver.shrink`).
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Map
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.cost import Cost, GroupCounts, Traffic
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.solver.replay import ReplayError, reference
from exactile.solver.replay import replay as run
from exactile.solver.shrink import shrink
from exactile.solver.solution import Verified

# points of all Einsums together up to which the replay runs at full size
FULL_SIZE_POINTS = 4_000
RELATIVE_TOLERANCE = 1e-9


class VerificationError(AssertionError):
    """An answer that does not hold: a bug of Exactile, never of the user's input."""


def verify(problem: Problem, mapping: Mapping, *, replay: bool = True) -> tuple[Cost, Verified]:
    """The exact cost of a mapping that passed every check.

    Raises `VerificationError` with the quantity, the tensor and both values otherwise.
    """
    broken = violations(problem.cascade, problem.hardware, mapping, problem.mapspace)
    if broken:
        raise VerificationError("the mapping found is not legal: " + "; ".join(broken))
    cost = evaluate(problem.cascade, problem.hardware, mapping)
    for name, limit in problem.objective.subject_to.items():
        if cost.quantity(name) > limit:
            raise VerificationError(
                f"{name}: the mapping found has {cost.quantity(name)}, the limit is {limit}"
            )
    if replay:
        confirm(problem.cascade, problem.hardware, mapping)
    return cost, Verified(legal=True, rescored=True, replayed=replay)


def confirm(cascade: Cascade, hardware: Hardware, mapping: Mapping) -> str:
    """Replay a legal mapping, compare every count and every number; returns in words what was replayed.

    Raises `VerificationError` for the first difference.
    """
    size = "at full size"
    if sum(cascade.points(einsum) for einsum in cascade.einsums) > FULL_SIZE_POINTS:
        cascade, hardware, mapping = shrink(cascade, hardware, mapping)
        extents = ", ".join(f"{rank} {extent}" for rank, extent in cascade.ranks.items())
        size = f"scaled down to {extents}"
    cost = evaluate(cascade, hardware, mapping)
    inputs = _random_inputs(cascade)
    try:
        observed = run(cascade, hardware, mapping, numbers=inputs if _correctable(cascade) else None)
    except ReplayError as error:
        raise VerificationError(f"the replay ({size}) refuses the mapping: {error}") from error
    for position, (ours, theirs) in enumerate(zip(cost.groups, observed.groups, strict=True), 1):
        for quantity, expected, found in differences(ours, theirs):
            raise VerificationError(
                f"{quantity} in group {position} ({size}): the core counts {expected}, the replay {found}"
            )
    right = reference(cascade, inputs)
    for tensor, values in observed.values.items():
        if not np.allclose(values, right[tensor], rtol=RELATIVE_TOLERANCE, atol=RELATIVE_TOLERANCE):
            off = float(np.max(np.abs(values - right[tensor])))
            raise VerificationError(f"the numbers of {tensor} ({size}) are off by up to {off:g}")
    return size


def _correctable(cascade: Cascade) -> bool:
    """Whether the numbers of every online softmax can be put right later: by products that sum its row.

    The model allows other readers too; then only the counts are compared.
    """
    for barrier in cascade.barriers:
        softmax = cascade.by_name.get(barrier.tensor)
        if barrier.mode != "online" or softmax is None or softmax.over is None:
            continue
        for user in cascade.consumers[barrier.tensor]:
            summed = user.reduction & set(user.access_of(barrier.tensor).ranks)
            if user.op != "mac" or summed != {barrier.rank}:
                return False
    return True


def _random_inputs(cascade: Cascade) -> dict[str, npt.NDArray[np.float64]]:
    """Numbers for the tensors that no Einsum writes; the same ones every time."""
    random = np.random.default_rng(0)
    inputs = (tensor for tensor in cascade.tensors.values() if tensor.name not in cascade.by_name)
    return {tensor.name: random.uniform(-1, 1, tensor.shape) for tensor in inputs}


def differences(ours: GroupCounts, theirs: GroupCounts) -> Iterable[tuple[str, object, object]]:
    """Each count that differs: its name, and both values."""
    for key in {**ours.traffic, **theirs.traffic}:
        level, einsum, tensor = key
        a, b = ours.traffic.get(key, Traffic()), theirs.traffic.get(key, Traffic())
        where = f"of {tensor} for {einsum} at {level}"
        yield from _unequal((f"reads {where}", a.reads, b.reads), (f"writes {where}", a.writes, b.writes))
    for what, mine, other in (
        ("peak bits at", ours.peak, theirs.peak),
        ("executions of", ours.executions, theirs.executions),
        ("corrections of", ours.corrections, theirs.corrections),
        ("cycles of", ours.cycles, theirs.cycles),
    ):
        yield from _unequal(*_pairs(what, mine, other))


def _pairs(
    what: str, mine: Map[str, int] | Map[str, Fraction], other: Map[str, int] | Map[str, Fraction]
) -> list[tuple[str, object, object]]:
    return [(f"{what} {name}", mine.get(name, 0), other.get(name, 0)) for name in {**mine, **other}]


def _unequal(*triples: tuple[str, object, object]) -> Iterable[tuple[str, object, object]]:
    return (triple for triple in triples if triple[1] != triple[2])
