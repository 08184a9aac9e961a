"""The parts of a cascade in a given execution order: Einsums, the copies of tensors they use, possible links.

A *copy* is a tensor in the hands of one Einsum. Copies of a tensor may be *linked*: one buffer then
serves both. A fused intermediate is a chain linked from its producer on, a shared input a chain of
linked readers, and an Einsum in place links the copy it reads to the copy it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

from exactile.formulation.einsum import Access, Einsum, misaligned
from exactile.formulation.encoding.tilings import tile_candidates
from exactile.formulation.problem import Problem

LinkKind = Literal["fused", "readers", "in_place"]


@dataclass(frozen=True, slots=True)
class Copy:
    """Tensor `tensor` used by the Einsum at position `at`; `writes` if that Einsum makes it."""

    tensor: str
    at: int
    access: Access
    writes: bool


@dataclass(frozen=True, slots=True)
class Link:
    """Copies (by index) `first` and `second` may have one buffer.

    `fused` from the producer to its first reader, `readers` between readers, `in_place` between what an
    Einsum reads and writes. `producer` is the position of the tensor's producer, if it has one. `skips`:
    copies between the two are passed over, which only readers may do.
    """

    first: int
    second: int
    kind: LinkKind
    producer: int | None
    skips: bool = False


@dataclass(frozen=True)
class Layout:
    """A problem whose Einsums run in the order `names`.

    `additive`: only quantities that add up over Einsums matter, so a rank of every tensor can stand
    outermost with tile 1 in every group: those are `batch`.
    """

    problem: Problem
    names: tuple[str, ...]
    additive: bool

    @cached_property
    def einsums(self) -> tuple[Einsum, ...]:
        return tuple(self.problem.cascade.by_name[name] for name in self.names)

    @cached_property
    def at(self) -> dict[str, int]:
        """Position of the Einsum that writes a tensor."""
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def _long(self) -> tuple[str, ...]:
        return tuple(rank for rank, extent in self.problem.cascade.ranks.items() if extent > 1)

    @cached_property
    def batch(self) -> frozenset[str]:
        """Ranks of every tensor that are fixed outermost with tile 1."""
        space, cascade = self.problem.mapspace, self.problem.cascade
        if not self.additive or space.residency:
            return frozenset()
        everywhere = set(self._long).intersection(*(copy.access.ranks for copy in self.copies))
        pinned = {*space.tiles, *(rank for order in space.orders.values() for rank in order)}
        apart = (self.apart(a, b) for copies in self.copies_of.values() for a, b in combinations(copies, 2))
        return frozenset(everywhere - pinned - {barrier.rank for barrier in cascade.barriers}).difference(
            *apart
        )

    @cached_property
    def ranks(self) -> tuple[str, ...]:
        """Ranks that may get loops."""
        return tuple(rank for rank in self._long if rank not in self.batch)

    @cached_property
    def tilings(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Per rank its candidates `(trips, tile)` by rising trips."""
        space, extents = self.problem.mapspace, self.problem.cascade.ranks
        found = {}
        for rank in self.ranks:
            trips, tiles = tile_candidates(extents[rank], space.tile_sizes, space.tiles.get(rank))
            found[rank] = tuple(zip(trips.tolist(), tiles.tolist(), strict=True))
        return found

    def candidates(self, position: int, rank: str) -> tuple[tuple[int, int], ...]:
        """Candidates `(trips, tile)` of a loop around an Einsum; a foreign loop may also be absent."""
        found = self.tilings[rank]
        if rank in self.einsums[position].ranks or found[0][0] == 1:
            return found
        return ((1, self.problem.cascade.ranks[rank]), *found)

    @cached_property
    def copies(self) -> tuple[Copy, ...]:
        """Reads and the write of every Einsum, in execution order."""
        found = []
        for position, einsum in enumerate(self.einsums):
            found += [Copy(access.tensor, position, access, False) for access in einsum.inputs]
            found.append(Copy(einsum.name, position, einsum.output, True))
        return tuple(found)

    @cached_property
    def written(self) -> dict[str, int]:
        """Index of the copy in which a tensor is written."""
        return {copy.tensor: index for index, copy in enumerate(self.copies) if copy.writes}

    def readers(self, tensor: str) -> list[int]:
        """Copies (by index) in which a tensor is read, in execution order."""
        return [i for i, copy in enumerate(self.copies) if copy.tensor == tensor and not copy.writes]

    @cached_property
    def copies_of(self) -> dict[str, tuple[int, ...]]:
        """Copies (by index) of every tensor, in execution order."""
        found: dict[str, tuple[int, ...]] = {}
        for index, copy in enumerate(self.copies):
            found[copy.tensor] = (*found.get(copy.tensor, ()), index)
        return found

    def apart(self, first: int, second: int) -> frozenset[str]:
        """Ranks by which two copies of a tensor are not the same part of it."""
        return misaligned(self.copies[first].access, self.copies[second].access)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """What may be linked: copies of a tensor, and the two copies of an Einsum in place.

        A copy may be linked to the next one of every index map. Whoever reads as a user of the buffer
        does, and runs before it, is inside the loops outside the buffer, and best takes part.
        """
        found = []
        for copies in self.copies_of.values():
            producer = self.copies[copies[0]].at if self.copies[copies[0]].writes else None
            for place, first in enumerate(copies):
                later = copies[place + 1 :]
                if self.copies[first].writes:
                    found += [Link(first, second, "fused", producer) for second in later[:1]]
                    continue
                maps: dict[Access, int] = {}
                for second in later:
                    maps.setdefault(self.copies[second].access, second)
                found += [Link(first, c, "readers", producer, c != later[0]) for c in maps.values()]
        for position, einsum in enumerate(self.einsums):
            overwritten = einsum.in_place
            if overwritten in self.written and self._last_reader(overwritten, position):
                first = next(i for i in self.readers(overwritten) if self.copies[i].at == position)
                found.append(Link(first, self.written[einsum.name], "in_place", self.at[overwritten]))
        return tuple(found)

    def _last_reader(self, tensor: str, position: int) -> bool:
        return all(self.copies[index].at <= position for index in self.readers(tensor))

    def loops(self, position: int) -> tuple[str, ...]:
        """Ranks that may have a loop around an Einsum: its own, and foreign ones if it may run again."""
        einsum = self.einsums[position]
        if self.may_repeat(position):
            return self.ranks
        return tuple(rank for rank in self.ranks if rank in einsum.ranks)

    def may_repeat(self, position: int) -> bool:
        """Whether the Einsum could be executed again: its output is for Einsums of its group alone."""
        name = self.names[position]
        tensor = self.problem.cascade.tensors[name]
        return bool(
            self.problem.mapspace.recomputation
            and tensor.role != "output"
            and self.problem.cascade.consumers[name]
        )

    def foreign(self, position: int) -> tuple[str, ...]:
        """Ranks of loops around an Einsum that are not its own."""
        return tuple(rank for rank in self.loops(position) if rank not in self.einsums[position].ranks)

    def tensor_loops(self, index: int) -> tuple[str, ...]:
        """Searched ranks of the tensor of a copy."""
        return tuple(rank for rank in self.ranks if rank in self.copies[index].access.ranks)


def layout(problem: Problem, names: Sequence[str], keys: Sequence[str]) -> Layout:
    """The layout for an execution order; `keys` are the quantities that matter."""
    return Layout(problem, tuple(names), additive="latency" not in keys)
