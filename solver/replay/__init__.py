"""The replay: a mapping executed loop by loop, counting what happens and computing the numbers.

It shares nothing with the analytical core and the encodings but the data types. `replay` counts the
same quantities as the core; with `numbers` it also computes every tensor in the buffers that the
mapping gives it, and stops with `ReplayError` where a value would be read that is not there or not
complete.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy.typing as npt

from exactile.formulation.cascade import Cascade
from exactile.formulation.cost import GroupCounts, Traffic
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Group, Mapping
from exactile.formulation.units import correction_unit
from exactile.solver.replay.boundary import Outer, Pass
from exactile.solver.replay.errors import ReplayError
from exactile.solver.replay.intervals import View
from exactile.solver.replay.machine import Machine, Tally
from exactile.solver.replay.numbers import Numbers
from exactile.solver.replay.reference import reference

__all__ = ["Replay", "ReplayError", "reference", "replay"]


@dataclass(frozen=True)
class Replay:
    """What was observed: counts per fused group, and the tensors written to the outermost level."""

    groups: tuple[GroupCounts, ...]
    values: Map[str, npt.NDArray[Any]] = field(default_factory=dict)


def replay(
    cascade: Cascade,
    hardware: Hardware,
    mapping: Mapping,
    *,
    numbers: Map[str, npt.NDArray[Any]] | None = None,
) -> Replay:
    """Execute `mapping`. `numbers` are the input tensors, shaped as the cascade says.

    Raises `ReplayError` if the mapping cannot be executed or computes something wrong.
    """
    if mapping.kept_between_groups:
        raise ReplayError("tensors kept on chip between groups cannot be replayed")
    for einsum in cascade.einsums:
        for access in (einsum.output, *einsum.inputs):
            if not access.plain:
                raise ReplayError(f"{access} of {einsum.name}: the replay needs plain ranks as indices")
    machine = Machine(cascade, hardware)
    computed = Numbers(cascade, numbers) if numbers is not None else None
    groups = tuple(_group(machine, group, computed) for group in mapping.groups)
    return Replay(groups, computed.outputs() if computed is not None else {})


def _group(machine: Machine, group: Group, numbers: Numbers | None) -> GroupCounts:
    if numbers is not None:
        numbers.enter(group)
    whole: View = {rank: ((0, extent),) for rank, extent in machine.cascade.ranks.items()}
    execution = Pass(machine, group, 0, Outer((whole,)), numbers)
    tally = execution.run()
    _add_corrections(machine.hardware, execution.corrections.total(), tally)
    names = [level.name for level in machine.hardware.levels]
    traffic = {
        (names[level], einsum, tensor): Traffic(
            tally.reads[level, einsum, tensor], tally.writes[level, einsum, tensor]
        )
        for level, einsum, tensor in {**tally.reads, **tally.writes}
    }
    peak = {
        level.name: tally.peak.get(position, 0)
        for position, level in enumerate(machine.hardware.levels)
        if level.capacity is not None
    }
    return GroupCounts(
        traffic, peak, dict(execution.executions), dict(execution.corrections), dict(tally.cycles)
    )


def _add_corrections(hardware: Hardware, count: int, tally: Tally) -> None:
    """The rescaling of outputs keeps its unit busy."""
    if count:
        unit, cost = correction_unit(hardware)
        busy = count * cost.cycles / unit.lanes
        tally.cycles[unit.name] = tally.cycles.get(unit.name, Fraction(0)) + busy
