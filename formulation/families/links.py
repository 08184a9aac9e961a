"""Links: linked copies have one buffer, inside loops that all Einsums between them share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.layout import Link
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
    """An Einsum overwrites its input if that was made in its group; it must where that takes no more room.

    It can take more if the widths differ, or if the result is drained from a buffer that this doubles.
    """
    model, layout = decisions.model, decisions.layout
    assert link.producer is not None
    read, written = layout.copies[link.first], layout.copies[link.second]
    inside = decisions.span(link.producer, read.at)
    model.implies((literal,), inside)
    tensors = layout.problem.cascade.tensors
    doubled = layout.problem.hardware.levels[1].double_buffer
    if tensors[read.tensor].bits == tensors[written.tensor].bits and not doubled:
        model.implies((inside,), literal)


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
