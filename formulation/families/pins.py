"""Pins: residencies that the mapspace fixes (orders are in `nesting`, tiles among the candidates).

A pin names the loops outside a buffer, as far as they have two trips. A private buffer counts as moved
outward from its pinned place, over loops that are neither its ranks nor shared: that saves visits and
takes no room. So the pinned place stays a prefix of the nest, and the residency is part of it.
"""

from __future__ import annotations

from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.model import Lit


def add_pins(decisions: Decisions) -> None:
    """Residencies agree with the pins."""
    layout, model = decisions.layout, decisions.model
    for index, copy in enumerate(layout.copies):
        place = pinned_place(decisions, index)
        if place is None:
            continue
        linked = (*decisions.linked_after.get(index, ()), *decisions.linked_before.get(index, ()))
        links = [literal for literal, _ in linked]
        for rank in layout.loops(copy.at):
            outside = decisions.out(index, rank)
            model.implies((outside,), place[rank])
            if rank in copy.access.ranks:
                model.implies((place[rank],), outside)
            shared = [decisions.share(cut, rank) for cut in (copy.at - 1, copy.at)]
            for reason in (*links, *shared):
                model.implies((reason, place[rank]), outside)


def pinned_place(decisions: Decisions, index: int) -> dict[str, Lit] | None:
    """The loops outside the pinned place of a copy, as literals by rank; `None` without a pin."""
    layout = decisions.layout
    copy = layout.copies[index]
    pinned = layout.problem.mapspace.residency.get(copy.tensor)
    if pinned is None:
        return None
    model = decisions.model
    return {
        rank: -decisions.absent(copy.at, rank) if rank in pinned else -model.TRUE
        for rank in layout.loops(copy.at)
    }
