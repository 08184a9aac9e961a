"""From the literals that hold in a solution to a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from exactile.formulation.families.build import Formulation
from exactile.formulation.families.model import Lit
from exactile.formulation.families.pins import pinned_place
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping

Holds = Callable[[Lit], bool]


def decode(formulation: Formulation, holds: Holds) -> Mapping:
    """The mapping of a solution; `holds` says whether a literal does."""
    return _Decoder(formulation, holds).mapping()


@dataclass(frozen=True)
class _Decoder:
    formulation: Formulation
    holds: Holds

    def mapping(self) -> Mapping:
        return Mapping(tuple(self._group(range(*bounds)) for bounds in self._bounds()))

    def _bounds(self) -> Iterator[tuple[int, int]]:
        together, start = self.formulation.decisions.together, 0
        for cut, literal in enumerate(together):
            if not self.holds(literal):
                yield start, cut + 1
                start = cut + 1
        yield start, len(together) + 1

    def _group(self, members: range) -> Group:
        layout = self.formulation.decisions.layout
        names = [layout.names[e] for e in members]
        return Group(
            tuple(names),
            {layout.names[e]: self._nest(e, members) for e in members},
            tuple(self._buffers(members)),
            {layout.names[e]: self._unit(e) for e in members},
        )

    def _tiles(self, e: int) -> dict[str, int]:
        """Tile per rank with two trips or more."""
        decisions = self.formulation.decisions
        found = {}
        for rank in decisions.layout.loops(e):
            candidates = decisions.layout.candidates(e, rank)
            reached = sum(map(self.holds, decisions.reach[e, rank]))
            trips, tile = candidates[reached - 1]
            if trips > 1:
                found[rank] = tile
        return found

    def _shared(self, e: int, f: int) -> set[str]:
        decisions = self.formulation.decisions
        first, last = min(e, f), max(e, f)
        return {
            rank
            for rank in decisions.layout.ranks
            if all(self.holds(decisions.share(cut, rank)) for cut in range(first, last))
        }

    def _prefixes(self, e: int) -> Iterator[set[str]]:
        """Sets of loops that come first in the nest of an Einsum."""
        decisions, layout = self.formulation.decisions, self.formulation.decisions.layout
        for index, copy in enumerate(layout.copies):
            if copy.at == e:
                yield self._outside(index)
                place = pinned_place(decisions, index)
                if place is not None:
                    yield {rank for rank, literal in place.items() if self.holds(literal)}
        for cut in (e - 1, e):
            if cut in decisions.cuts:
                yield {rank for rank in layout.ranks if self.holds(decisions.share(cut, rank))}

    def _outside(self, index: int) -> set[str]:
        decisions = self.formulation.decisions
        copy = decisions.layout.copies[index]
        return {rank for rank in decisions.layout.loops(copy.at) if self.holds(decisions.out(index, rank))}

    def _nest(self, e: int, members: range) -> tuple[Loop, ...]:
        """Loops of an Einsum, outermost first, in an order that all who share loops agree on."""
        layout = self.formulation.decisions.layout
        tiles = self._tiles(e)
        shared = {f: self._shared(e, f) if f != e else set(tiles) for f in members}
        foreign = set().union(*(loops for f, loops in shared.items() if f != e))
        before: dict[str, set[str]] = {rank: set() for rank in tiles}
        for f in members:
            for prefix in self._prefixes(f):
                for rank in tiles:
                    if rank in shared[f] and rank not in prefix:
                        before[rank] |= prefix & shared[f] & tiles.keys()
            pinned = layout.problem.mapspace.orders.get(layout.names[f], ())
            known = [rank for rank in pinned if rank in tiles and rank in shared[f]]
            for place, rank in enumerate(known):
                before[rank] |= set(known[:place])
        batch = [Loop(rank, 1) for rank in layout.problem.cascade.ranks if rank in layout.batch]
        order = _in_order(before, lambda rank: (rank not in foreign, layout.ranks.index(rank)))
        return (*batch, *(Loop(rank, tiles[rank]) for rank in order))

    def _buffers(self, members: range) -> Iterator[Buffer]:
        """One buffer per run of linked copies, named after its first tensor."""
        decisions, layout = self.formulation.decisions, self.formulation.decisions.layout
        first_of: dict[int, int] = {}
        users: dict[int, list[int]] = {}
        for index, copy in enumerate(layout.copies):
            if copy.at not in members:
                continue
            before = [c for literal, c in decisions.linked_before.get(index, ()) if self.holds(literal)]
            first = first_of[before[0]] if before else index
            first_of[index] = first
            users.setdefault(first, []).append(copy.at)
        for first, positions in users.items():
            copy = layout.copies[first]
            names = tuple(layout.names[e] for e in sorted(set(positions)))
            batch = layout.batch
            yield Buffer(copy.tensor, names, frozenset({*self._outside(first), *batch}))

    def _unit(self, e: int) -> UnitMapping:
        use = self.formulation.uses[e]
        chosen = next(u for u, literal in enumerate(use.literals) if self.holds(literal))
        f, member = use.members[chosen]
        family = use.families[f]
        spatial = family.spatial(member)
        return UnitMapping(family.unit.name, family.dataflow, family.transposed, spatial, family.order)


def _in_order(before: dict[str, set[str]], key: Callable[[str], tuple[bool, int]]) -> Iterable[str]:
    order: list[str] = []
    while len(order) < len(before):
        ready = [rank for rank in before if rank not in order and before[rank] <= set(order)]
        order.append(min(ready, key=key))
    return order
