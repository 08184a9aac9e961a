"""The decisions of a layout as literals: groups, shared loops, trips, residencies, links.

What a literal stands for is said once, here; the constraint families relate them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from exactile.formulation.families.layout import Layout
from exactile.formulation.families.model import Lit, Model, Quantity


class Decisions:
    """Literals by position (`k` is the cut between Einsum `k` and `k+1`), copy, link and rank."""

    def __init__(self, model: Model, layout: Layout) -> None:
        self.model, self.layout = model, layout
        count = len(layout.einsums)
        self.cuts = range(count - 1)
        self.together = [model.boolean(f"together[{layout.names[k]}]") for k in self.cuts]
        self._spans: dict[tuple[int, int], Lit] = {}
        self._paths: dict[tuple[int, int, str], Lit] = {}
        self.shared = {
            (k, rank): model.boolean(f"shared[{layout.names[k]},{rank}]")
            for k in self.cuts
            for rank in layout.ranks
            if rank in layout.loops(k) and rank in layout.loops(k + 1)
        }
        self.trips = {
            (e, rank): tuple(
                model.boolean(f"trips[{layout.names[e]},{rank},{trips}]")
                for trips, _ in layout.candidates(e, rank)
            )
            for e in range(count)
            for rank in layout.loops(e)
        }
        self.outside = {
            (c, rank): model.boolean(f"outside[{self.copy_name(c)},{rank}]")
            for c, copy in enumerate(layout.copies)
            for rank in layout.loops(copy.at)
        }
        self.link = [
            model.boolean(f"link[{self.copy_name(link.first)},{self.copy_name(link.second)}]")
            for link in layout.links
        ]

    def copy_name(self, index: int) -> str:
        copy = self.layout.copies[index]
        return f"{copy.tensor}@{self.layout.names[copy.at]}"

    def share(self, cut: int, rank: str) -> Lit:
        """Einsums `cut` and `cut + 1` share the loop over `rank`."""
        return self.shared.get((cut, rank), -Model.TRUE)

    def absent(self, position: int, rank: str) -> Lit:
        """The Einsum has no loop over `rank`: one trip."""
        if (position, rank) not in self.trips:
            return Model.TRUE
        trips, _ = self.layout.candidates(position, rank)[0]
        return self.trips[position, rank][0] if trips == 1 else -Model.TRUE

    def out(self, copy: int, rank: str) -> Lit:
        """The loop over `rank` is outside the buffer of a copy."""
        return self.outside.get((copy, rank), -Model.TRUE)

    def span(self, first: int, last: int) -> Lit:
        """All Einsums from `first` to `last` are in one group."""
        first, last = min(first, last), max(first, last)
        if (first, last) not in self._spans:
            names = f"{self.layout.names[first]}..{self.layout.names[last]}"
            self._spans[first, last] = self.model.conjunction(self.together[first:last], f"span[{names}]")
        return self._spans[first, last]

    def path(self, first: int, last: int, rank: str) -> Lit:
        """A literal that holds if `first` and `last` share the loop over `rank` (and may hold otherwise)."""
        first, last = min(first, last), max(first, last)
        if last == first + 1:
            return self.share(first, rank)
        if (first, last, rank) not in self._paths:
            parts = [self.share(k, rank) for k in range(first, last)]
            if -Model.TRUE in parts:
                self._paths[first, last, rank] = -Model.TRUE
            else:
                literal = self.model.boolean(f"path[{first},{last},{rank}]")
                self.model.implies((self.path(first, last - 1, rank), parts[-1]), literal)
                self._paths[first, last, rank] = literal
        return self._paths[first, last, rank]

    @cached_property
    def linked_before(self) -> dict[int, tuple[Lit, int]]:
        """Per copy that may be linked to an earlier one: the literal, and that copy."""
        return {
            link.second: (literal, link.first)
            for link, literal in zip(self.layout.links, self.link, strict=True)
        }

    @cached_property
    def linked_after(self) -> dict[int, list[tuple[Lit, int]]]:
        """Per copy the literals of links to later copies, and those copies."""
        found: dict[int, list[tuple[Lit, int]]] = {}
        for link, literal in zip(self.layout.links, self.link, strict=True):
            found.setdefault(link.first, []).append((literal, link.second))
        return found

    @cached_property
    def gated(self) -> dict[tuple[int, str], tuple[tuple[Lit, int, int], ...]]:
        """Per copy and rank, literals `(literal, trips, tile)`: the loop is outside and has these trips."""
        found = {}
        for (c, rank), literal in self.outside.items():
            position = self.layout.copies[c].at
            choices = []
            for trips_literal, (trips, tile) in zip(
                self.trips[position, rank], self.layout.candidates(position, rank), strict=True
            ):
                if trips > 1:
                    both = self.model.boolean(f"outside[{self.copy_name(c)},{rank},{trips}]")
                    self.model.implies((both,), trips_literal)
                    self.model.implies((literal, trips_literal), both)
                    choices.append((both, trips, tile))
            # a loop that is outside has two trips or more, so exactly one literal holds then
            self.model.exactly_one([-literal, *(lit for lit, _, _ in choices)])
            found[c, rank] = tuple(choices)
        return found

    def visits(self, copy: int, rank: str) -> Quantity:
        """Trips of the loop over `rank` if it is outside the copy's buffer, else 1."""
        return Quantity(1, tuple((lit, trips) for lit, trips, _ in self.gated.get((copy, rank), ())))

    def extent(self, copy: int, rank: str) -> Quantity:
        """How much of `rank` the copy's buffer holds: the tile if the loop is outside, else everything."""
        choices = tuple((lit, tile) for lit, _, tile in self.gated.get((copy, rank), ()))
        return Quantity(self.layout.problem.cascade.ranks[rank], choices)

    def trip_count(self, position: int, rank: str) -> Quantity:
        """Trips of the loop over `rank` around an Einsum, 1 without one."""
        if (position, rank) not in self.trips:
            return Quantity(1)
        choices = zip(self.trips[position, rank], self.layout.candidates(position, rank), strict=True)
        return of_one_hot([(literal, trips) for literal, (trips, _) in choices])


def of_one_hot(choices: Sequence[tuple[Lit, int]]) -> Quantity:
    """Exactly one of the literals holds: the first value is the base."""
    return Quantity(choices[0][1], tuple(choices[1:]))
