"""The decisions of a layout as literals: groups, shared loops, trips, residencies, links.

What a literal stands for is said once, here; the constraint families relate them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

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
        self.reach = {(e, rank): self._staircase(e, rank) for e in range(count) for rank in layout.loops(e)}
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

    def _staircase(self, position: int, rank: str) -> tuple[Lit, ...]:
        """Per candidate, that the loop has at least its trips."""
        name = f"{self.layout.names[position]},{rank}"
        candidates = self.layout.candidates(position, rank)
        found = [Model.TRUE, *(self.model.boolean(f"trips[{name}]≥{n}") for n, _ in candidates[1:])]
        for fewer, more in pairwise(found):
            self.model.implies((more,), fewer)
        return tuple(found)

    def share(self, cut: int, rank: str) -> Lit:
        """Einsums `cut` and `cut + 1` share the loop over `rank`."""
        return self.shared.get((cut, rank), -Model.TRUE)

    def absent(self, position: int, rank: str) -> Lit:
        """The Einsum has no loop over `rank`: one trip."""
        if (position, rank) not in self.reach:
            return Model.TRUE
        if self.layout.candidates(position, rank)[0][0] > 1:
            return -Model.TRUE
        reach = self.reach[position, rank]
        return -reach[1] if len(reach) > 1 else Model.TRUE

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
    def linked_before(self) -> dict[int, list[tuple[Lit, int]]]:
        """Per copy the literals of links to earlier copies, and those copies; at most one holds."""
        found: dict[int, list[tuple[Lit, int]]] = {}
        for link, literal in zip(self.layout.links, self.link, strict=True):
            found.setdefault(link.second, []).append((literal, link.first))
        return found

    @cached_property
    def linked_after(self) -> dict[int, list[tuple[Lit, int]]]:
        """Per copy the literals of links to later copies, and those copies."""
        found: dict[int, list[tuple[Lit, int]]] = {}
        for link, literal in zip(self.layout.links, self.link, strict=True):
            found.setdefault(link.first, []).append((literal, link.second))
        return found

    @cached_property
    def served(self) -> dict[int, Lit]:
        """Per copy that it is linked to an earlier one."""
        found = {}
        for index, ways in self.linked_before.items():
            none = [-literal for literal, _ in ways]
            found[index] = -self.model.conjunction(none, f"unserved[{self.copy_name(index)}]")
        return found

    @cached_property
    def gated(self) -> dict[tuple[int, str], tuple[tuple[Lit, int, int], ...]]:
        """Per copy and rank a staircase `(literal, trips, tile)`: outside, with at least these trips."""
        found = {}
        for (c, rank), outside in self.outside.items():
            position = self.layout.copies[c].at
            candidates = self.layout.candidates(position, rank)
            loop = [
                (reach, trips, tile)
                for reach, (trips, tile) in zip(self.reach[position, rank], candidates, strict=True)
                if trips > 1
            ]
            # a loop that is outside has two trips or more
            steps = [(outside, *loop[0][1:])] if loop else []
            for reach, trips, tile in loop[1:]:
                both = self.model.boolean(f"outside[{self.copy_name(c)},{rank}]≥{trips}")
                self.model.implies((both,), reach)
                self.model.implies((both,), steps[-1][0])
                self.model.implies((outside, reach), both)
                steps.append((both, trips, tile))
            found[c, rank] = tuple(steps)
        return found

    def visits(self, copy: int, rank: str) -> Quantity:
        """Trips of the loop over `rank` if it is outside the copy's buffer, else 1."""
        return Quantity(1, tuple((lit, trips) for lit, trips, _ in self.gated.get((copy, rank), ())))

    def extent(self, copy: int, rank: str) -> Quantity:
        """How much of `rank` the copy's buffer holds: the tile if the loop is outside, else everything."""
        steps = tuple((lit, tile) for lit, _, tile in self.gated.get((copy, rank), ()))
        return Quantity(self.layout.problem.cascade.ranks[rank], steps)

    def by_trips(self, position: int, rank: str, values: Sequence[int]) -> Quantity:
        """One value per candidate of the loop over `rank`."""
        steps = zip(self.reach[position, rank][1:], values[1:], strict=True)
        return Quantity(values[0], tuple(steps))

    def trip_count(self, position: int, rank: str) -> Quantity:
        """Trips of the loop over `rank` around an Einsum, 1 without one."""
        if (position, rank) not in self.reach:
            return Quantity(1)
        return self.by_trips(position, rank, [n for n, _ in self.layout.candidates(position, rank)])
