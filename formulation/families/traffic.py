"""Traffic between memory and buffer: every copy pays for its visits unless a link serves it.

The visits of a copy are its tensor times the trips of the loops outside its buffer that are not ranks of
the tensor. A result pays for partial sums read back, which its first visit has none of.
"""

from __future__ import annotations

from exactile.formulation.encoding.group import correction_vector
from exactile.formulation.encoding.metrics import Vector, add, fill_and_drain, times
from exactile.formulation.families.amounts import Amounts
from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.dependencies import correctable, fully_fused
from exactile.formulation.families.model import Linear, Lit, Model, Quantity


def add_traffic(decisions: Decisions, amounts: Amounts) -> None:
    for index, copy in enumerate(decisions.layout.copies):
        if copy.writes:
            _written(decisions, amounts, index)
        else:
            _read(decisions, amounts, index)
    _corrections(decisions, amounts)


def visits(decisions: Decisions, index: int) -> Linear:
    """How often the whole tensor of a copy passes, without links."""
    layout = decisions.layout
    copy = layout.copies[index]
    factors = [
        decisions.visits(index, rank) for rank in layout.loops(copy.at) if rank not in copy.access.ranks
    ]
    return decisions.model.product(f"visits[{decisions.copy_name(index)}]", factors)


def fused(decisions: Decisions, index: int) -> Lit:
    """The written tensor of a copy stays in a buffer that serves more than its own Einsum."""
    linked = (*decisions.linked_after.get(index, ()), *decisions.linked_before.get(index, ()))
    literals = [literal for literal, _ in linked]
    if len(literals) < 2:
        return literals[0] if literals else -Model.TRUE
    negated = [-literal for literal in literals]
    return -decisions.model.conjunction(negated, f"alone[{decisions.copy_name(index)}]")


def _vectors(decisions: Decisions, tensor: str) -> tuple[Vector, Vector]:
    """Metrics of filling and of draining the whole tensor once."""
    cascade = decisions.layout.problem.cascade
    fill, drain = fill_and_drain(decisions.layout.problem.hardware, cascade.tensors[tensor].bits)
    size = cascade.tensors[tensor].size
    return times(fill, size), times(drain, size)


def _read(decisions: Decisions, amounts: Amounts, index: int) -> None:
    model, copy = decisions.model, decisions.layout.copies[index]
    fill, _ = _vectors(decisions, copy.tensor)
    served = decisions.served.get(index, -Model.TRUE)
    name = f"fetches[{decisions.copy_name(index)}]"
    count = model.where(name, visits(decisions, index), (-served,), floor=1)
    amounts.add(copy.at, count, fill)


def _written(decisions: Decisions, amounts: Amounts, index: int) -> None:
    model, copy = decisions.model, decisions.layout.copies[index]
    fill, drain = _vectors(decisions, copy.tensor)
    stays = fused(decisions, index)
    name = f"drains[{decisions.copy_name(index)}]"
    count = model.where(name, visits(decisions, index), (-stays,), floor=1)
    amounts.add(copy.at, count, add(fill, drain))
    # the first visit reads nothing back
    amounts.add(copy.at, model.linear(Quantity(1, ((stays, 0),))), times(fill, -1))
    leaves = -fully_fused(decisions, copy.tensor)
    once = model.conjunction((stays, leaves), f"leaves[{decisions.copy_name(index)}]")
    amounts.add(copy.at, model.linear(Quantity(0, ((once, 1),))), drain)


def _corrections(decisions: Decisions, amounts: Amounts) -> None:
    """An online statistic outside whose loop a tensor is given up rescales what depends on it."""
    model, layout = decisions.model, decisions.layout
    cascade, hardware = layout.problem.cascade, layout.problem.hardware
    for barrier in cascade.barriers:
        possible = correctable(decisions, barrier)
        if possible == -Model.TRUE:
            continue
        written = layout.written[barrier.tensor]
        for output in barrier.corrects:
            f = layout.at[output]
            if (written, barrier.rank) not in decisions.outside or not _reads(decisions, f, barrier.tensor):
                continue
            trips = Quantity(0, decisions.visits(written, barrier.rank).steps)
            factors = [trips, *repetitions(decisions, f)]
            count = model.product(f"corrections[{output},{barrier.rank}]", factors)
            count = model.where(f"corrected[{output},{barrier.rank}]", count, (possible,))
            amounts.add(f, count, correction_vector(cascade, hardware, output))


def _reads(decisions: Decisions, position: int, tensor: str) -> bool:
    return any(access.tensor == tensor for access in decisions.layout.einsums[position].inputs)


def repetitions(decisions: Decisions, position: int) -> list[Quantity]:
    """The factors of `ρ`: trips of the foreign loops around an Einsum."""
    return [decisions.trip_count(position, rank) for rank in decisions.layout.foreign(position)]
