"""Nesting: all prefix sets of a nest are nested, without permutations.

Per Einsum and pair of ranks one literal says which loop comes first. Every prefix set (the loops outside
a buffer, the loops shared with a neighbour) that holds one loop of a pair and not the other decides it;
sets that could decide it both ways are exactly those that are not nested. Pinned orders fix literals.
"""

from __future__ import annotations

from itertools import combinations

from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.model import Lit
from exactile.formulation.families.pins import pinned_place


def add_nesting(decisions: Decisions) -> None:
    model, layout = decisions.model, decisions.layout
    first: dict[tuple[int, str, str], Lit] = {}
    for e in range(len(layout.einsums)):
        for r, s in combinations(layout.loops(e), 2):
            literal = model.boolean(f"first[{layout.names[e]},{r},{s}]")
            first[e, r, s] = literal
            for prefix in _prefixes(decisions, e):
                model.implies((prefix[r], -prefix[s]), literal)
                model.implies((-prefix[r], prefix[s]), -literal)
    for cut in decisions.cuts:
        for r, s in combinations(layout.ranks, 2):
            if (cut, r, s) in first and (cut + 1, r, s) in first:
                both = (decisions.share(cut, r), decisions.share(cut, s))
                model.equal(first[cut, r, s], first[cut + 1, r, s], both)
    _pin_orders(decisions, first)


def _prefixes(decisions: Decisions, position: int) -> list[dict[str, Lit]]:
    layout = decisions.layout
    loops = layout.loops(position)
    found = [
        {rank: decisions.out(c, rank) for rank in loops}
        for c, copy in enumerate(layout.copies)
        if copy.at == position
    ]
    places = [pinned_place(decisions, c) for c, copy in enumerate(layout.copies) if copy.at == position]
    found += [place for place in places if place is not None]
    for cut in (position - 1, position):
        if cut in decisions.cuts:
            found.append({rank: decisions.share(cut, rank) for rank in loops})
    return found


def _pin_orders(decisions: Decisions, first: dict[tuple[int, str, str], Lit]) -> None:
    model, layout = decisions.model, decisions.layout
    for name, order in layout.problem.mapspace.orders.items():
        e = layout.at[name]
        place = {rank: index for index, rank in enumerate(order)}
        for rank in layout.loops(e):
            if rank not in place:
                model.fix(decisions.absent(e, rank))
        for r, s in combinations([rank for rank in layout.loops(e) if rank in place], 2):
            present = (-decisions.absent(e, r), -decisions.absent(e, s))
            model.implies(present, first[e, r, s] if place[r] < place[s] else -first[e, r, s])
