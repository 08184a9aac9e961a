"""Links: linked copies have one buffer, inside loops that all Einsums between them share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from exactile.formulation.encoding.overwriting import never_worse
from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.layout import Layout, Link
from exactile.formulation.families.model import Lit, Model


def add_links(decisions: Decisions) -> None:
    """When copies are linked, and what a link makes equal."""
    for link, literal in zip(decisions.layout.links, decisions.link, strict=True):
        if link.kind == "in_place":
            _in_place(decisions, link, literal)
        else:
            _along_chain(decisions, link, literal)
        _one_residency(decisions, link, literal)
    for ways in decisions.linked_before.values():
        _at_most_one(decisions.model, [literal for literal, _ in ways])
    for copies in decisions.linked_after.values():
        # besides what an Einsum in place writes
        same = [literal for literal, later in copies if not decisions.layout.copies[later].writes]
        _at_most_one(decisions.model, same)


def _at_most_one(model: Model, literals: Sequence[Lit]) -> None:
    for one, other in combinations(literals, 2):
        model.clause(-one, -other)


def _along_chain(decisions: Decisions, link: Link, literal: Lit) -> None:
    """Readers in the producer's group use its buffer; other readers of a group may share a fetch."""
    model, layout = decisions.model, decisions.layout
    first, last = layout.copies[link.first].at, layout.copies[link.second].at
    model.implies((literal,), decisions.span(first, last))
    if link.producer is not None:
        inside = decisions.span(link.producer, last)
        model.implies((inside,), -literal if link.skips else literal)
        if link.kind == "fused" or not layout.problem.mapspace.shared_inputs:
            model.implies((literal,), inside)
    elif not layout.problem.mapspace.shared_inputs:
        model.fix(-literal)


def _in_place(decisions: Decisions, link: Link, literal: Lit) -> None:
    """An Einsum overwrites its input if that was made in its group; it must where that is never worse."""
    model, layout = decisions.model, decisions.layout
    assert link.producer is not None
    read, written = layout.copies[link.first], layout.copies[link.second]
    inside = decisions.span(link.producer, read.at)
    model.implies((literal,), inside)
    if not _no_larger(layout, read.tensor, written.tensor):
        return
    readers = [layout.copies[index].at for index in layout.readers(written.tensor)]
    if not readers or _never_worse(layout, read.tensor, written.tensor):
        model.implies((inside,), literal)
    else:
        # nobody else shares a buffer of its own, which could have the residency of the overwritten one
        model.implies((inside, -decisions.span(read.at, min(readers))), literal)


def _no_larger(layout: Layout, read: str, written: str) -> bool:
    """Whether one buffer takes no more space than two, and may be where they would be.

    It can take more if the widths differ, or if the result is drained from a buffer that this doubles.
    """
    cascade, doubled = layout.problem.cascade, layout.problem.hardware.levels[1].double_buffer
    widths = {cascade.tensors[tensor].bits for tensor in _chain(layout, read, written)}
    return len(widths) == 1 and not doubled and not layout.problem.mapspace.residency


def _chain(layout: Layout, read: str, written: str) -> set[str]:
    """Tensors that may lie in one buffer, in turn."""
    found, more = {read, written}, True
    by_name = layout.problem.cascade.by_name
    while more:
        pairs = [{name, e.in_place} for name, e in by_name.items() if e.in_place in by_name]
        joined = found.union(*({str(t) for t in pair} for pair in pairs if pair & found))
        more, found = joined != found, joined
    return found


def _never_worse(layout: Layout, read: str, written: str) -> bool:
    """Whether overwriting is never worse, however the Einsums are grouped and inputs are shared.

    What overwrites the result in turn does so already.
    """
    later = [written]
    for tensor in later:
        following = [e.name for e in layout.einsums if e.in_place == tensor]
        if not all(_never_worse(layout, tensor, name) for name in following):
            return False
        later += following
    others: list[Sequence[str]] = []
    for tensor, copies in layout.copies_of.items():
        if tensor != read and tensor not in later:
            users = [layout.names[layout.copies[index].at] for index in copies]
            made = tensor in layout.at
            others += [users] if made else []
            if layout.problem.mapspace.shared_inputs:
                others += combinations(users[made:], 2)
    again = [name for name in later if layout.may_repeat(layout.at[name])]
    return never_worse(layout.names, others, again)


def _one_residency(decisions: Decisions, link: Link, literal: Lit) -> None:
    model, layout = decisions.model, decisions.layout
    first, last = layout.copies[link.first].at, layout.copies[link.second].at
    for rank in layout.ranks:
        a, b = decisions.out(link.first, rank), decisions.out(link.second, rank)
        model.equal(a, b, (literal,))
        if a != -model.TRUE:
            for cut in range(first, last):
                model.implies((literal, a), decisions.share(cut, rank))
    for rank in layout.apart(link.first, link.second):
        model.implies((literal,), -decisions.out(link.first, rank))
