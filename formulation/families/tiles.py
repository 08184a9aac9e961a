"""Tiles: one trip count per loop, the same around all Einsums that share the loop."""

from __future__ import annotations

from exactile.formulation.families.decisions import Decisions


def add_tiles(decisions: Decisions) -> None:
    """One trip count per Einsum and rank; a shared loop has two or more, equal on both sides."""
    model, layout = decisions.model, decisions.layout
    for (cut, rank), share in decisions.shared.items():
        first = _by_trips(decisions, cut, rank)
        second = _by_trips(decisions, cut + 1, rank)
        for trips in first.keys() | second.keys():
            if trips > 1:
                a, b = first.get(trips, -model.TRUE), second.get(trips, -model.TRUE)
                model.equal(a, b, (share,))
        for position in (cut, cut + 1):
            model.implies((share,), -decisions.absent(position, rank))
    for (copy, rank), outside in decisions.outside.items():
        model.implies((outside,), -decisions.absent(layout.copies[copy].at, rank))


def _by_trips(decisions: Decisions, position: int, rank: str) -> dict[int, int]:
    candidates = decisions.layout.candidates(position, rank)
    return {
        trips: literal
        for literal, (trips, _) in zip(decisions.reach[position, rank], candidates, strict=True)
    }
