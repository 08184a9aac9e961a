"""Dependencies: no consumer reads partial sums, barriers hold, and only what may be is executed again."""

from __future__ import annotations

from exactile.formulation.cascade import Barrier
from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.model import Lit, Model


def add_dependencies(decisions: Decisions) -> None:
    layout = decisions.layout
    for tensor, written in layout.written.items():
        e = layout.copies[written].at
        barriers = [barrier for barrier in layout.problem.cascade.barriers if barrier.tensor == tensor]
        for reader in layout.readers(tensor):
            f = layout.copies[reader].at
            # read by other ranks than it was written by, it must be there as a whole
            unread = layout.apart(written, reader).intersection(layout.einsums[e].output.ranks)
            for rank in layout.einsums[e].reduction | unread:
                _apart(decisions, e, f, rank)
            for barrier in barriers:
                _apart(decisions, e, f, barrier.rank, correctable(decisions, barrier))
    for e in range(len(layout.einsums)):
        _repetition(decisions, e)
    if not layout.problem.mapspace.fused_outputs:
        _no_fused_outputs(decisions)


def _apart(decisions: Decisions, e: int, f: int, rank: str, unless: Lit = -Model.TRUE) -> None:
    """`e` and `f` do not share the loop over `rank` if they are in one group, which a shared loop says."""
    shares = [decisions.share(cut, rank) for cut in range(min(e, f), max(e, f))]
    decisions.model.implies(shares, unless)


def correctable(decisions: Decisions, barrier: Barrier) -> Lit:
    """The barrier is an online one, whose tensor stays in a group with all that it corrects."""
    layout = decisions.layout
    if barrier.mode != "online" or barrier.tensor not in layout.at:
        return -Model.TRUE
    positions = [layout.at[barrier.tensor], *(layout.at[name] for name in barrier.corrects)]
    stays = fully_fused(decisions, barrier.tensor)
    all_inside = decisions.span(min(positions), max(positions))
    return decisions.model.conjunction((stays, all_inside), f"correctable[{barrier.tensor},{barrier.rank}]")


def fully_fused(decisions: Decisions, tensor: str) -> Lit:
    """Every reader of the tensor is in its producer's group, and it is no output."""
    layout = decisions.layout
    readers = [layout.copies[index].at for index in layout.readers(tensor)]
    if layout.problem.cascade.tensors[tensor].role == "output" or not readers:
        return -Model.TRUE
    return decisions.span(layout.at[tensor], max(readers))


def _repetition(decisions: Decisions, e: int) -> None:
    """A foreign loop is shared with a neighbour, outside the buffer of a result that does not leave."""
    model, layout = decisions.model, decisions.layout
    written = layout.written[layout.names[e]]
    for rank in layout.foreign(e):
        loop = -decisions.absent(e, rank)
        model.implies((loop,), *(decisions.share(cut, rank) for cut in (e - 1, e)))
        model.implies((loop,), fully_fused(decisions, layout.names[e]))
        model.implies((loop,), decisions.out(written, rank))


def _no_fused_outputs(decisions: Decisions) -> None:
    """What a reader of the group takes on chip is needed nowhere else."""
    layout = decisions.layout
    for tensor, e in layout.at.items():
        for reader in layout.readers(tensor):
            inside = decisions.span(e, layout.copies[reader].at)
            decisions.model.implies((inside,), fully_fused(decisions, tensor))
