"""Links: linked copies have one buffer, inside loops that all Einsums between them share."""

from __future__ import annotations

from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.layout import Link
from exactile.formulation.families.model import Lit


def add_links(decisions: Decisions) -> None:
    """When copies are linked, and what a link makes equal."""
    for link, literal in zip(decisions.layout.links, decisions.link, strict=True):
        if link.kind == "in_place":
            _in_place(decisions, link, literal)
        else:
            _along_chain(decisions, link, literal)
        _one_residency(decisions, link, literal)
    _other_index_maps(decisions)


def _along_chain(decisions: Decisions, link: Link, literal: Lit) -> None:
    """Readers in the producer's group use its buffer; other readers of a group may share a fetch."""
    model, layout = decisions.model, decisions.layout
    first, last = layout.copies[link.first].at, layout.copies[link.second].at
    model.implies((literal,), decisions.span(first, last))
    if link.producer is not None:
        inside = decisions.span(link.producer, last)
        model.implies((inside,), literal)
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


def _other_index_maps(decisions: Decisions) -> None:
    """Who reads an intermediate through another index map than it was written is in another group."""
    layout = decisions.layout
    for tensor, written in layout.written.items():
        producer = layout.copies[written]
        for index in layout.readers(tensor):
            reader = layout.copies[index]
            if reader.access.indices != producer.access.indices:
                decisions.model.fix(-decisions.span(producer.at, reader.at))
