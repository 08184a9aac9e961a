"""Random mappings of a cascade on a machine.

A mapping is drawn top-down: a random loop tree over a random fused group, then buffers somewhere above
or at the place where the paths of their users part, own loops below, units at the end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from exactile.formulation.cascade import Cascade
from exactile.formulation.einsum import Einsum
from exactile.formulation.hardware import Hardware, SpatialDim
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.units import candidates


@dataclass(frozen=True)
class _Tree:
    """The shared part of a loop tree: the loops on the way to every Einsum, and where paths part."""

    paths: dict[str, tuple[Loop, ...]]
    meets: dict[frozenset[str], int]

    def meet(self, users: Sequence[str]) -> int:
        pairs = [frozenset((one, two)) for one in users for two in users if one != two]
        return min((self.meets[pair] for pair in pairs), default=0)


class MappingDraw:
    """Draws mappings of one cascade on one machine; most are legal, fewer if `reckless`."""

    def __init__(
        self, rng: random.Random, cascade: Cascade, hardware: Hardware, reckless: bool = False
    ) -> None:
        self.reckless = reckless
        self.rng = rng
        self.cascade = cascade
        self.hardware = hardware

    def mapping(self) -> Mapping:
        return Mapping(tuple(self.group(order) for order in self._partition()))

    def _partition(self) -> list[list[str]]:
        """A random execution order, cut into groups."""
        waiting, done, order = list(self.cascade.einsums), set[str](), list[str]()
        while waiting:
            ready = [
                e
                for e in waiting
                if all(a.tensor in done or a.tensor not in self.cascade.by_name for a in e.inputs)
            ]
            chosen = ready[0] if self.rng.random() < 0.7 else self.rng.choice(ready)
            waiting.remove(chosen)
            order.append(chosen.name)
            done.add(chosen.name)
        groups = [[order[0]]]
        cut = self.rng.choice((0.0, 0.0, 0.0, 0.3))
        for name in order[1:]:
            if self.rng.random() < cut:
                groups.append([])
            groups[-1].append(name)
        return groups

    def group(self, order: list[str]) -> Group:
        """A group at boundary 0."""
        spatial: dict[str, dict[str, dict[str, int]]] = {}
        dims = self.hardware.levels[0].spatial
        if len(order) == 1:
            spatial = {order[0]: self._factors(self._einsum(order[0]), dims)}
        elif dims and self.rng.random() < 0.6:
            spatial = self._common_factors(order, dims[0])
        extents = {e: self._block(self.cascade.ranks, spatial.get(e, {})) for e in order}
        tree = self._tree(order)
        shared = [b for b in self._shared_buffers(order, tree) if self._holds(1, b.tensor)]
        nests = {e: self._nest(e, tree.paths[e], shared, extents[e]) for e in order}
        served = {(user, tensor) for b in shared for user in b.users for tensor in self._stored(b, shared)}
        private = [
            Buffer(tensor, (e,), self._prefix(nests[e], shared))
            for e in order
            for tensor in self._tensors(e)
            if (e, tensor) not in served and self._holds(1, tensor)
        ]
        inner = {e: self._below(e, 1, self._tile(extents[e], nests[e])) for e in order}
        return Group(tuple(order), nests, (*shared, *private), inner, spatial)

    def _einsum(self, name: str) -> Einsum:
        return self.cascade.by_name[name]

    def _tensors(self, name: str) -> list[str]:
        einsum = self._einsum(name)
        return [*dict.fromkeys(access.tensor for access in einsum.inputs), name]

    def _holds(self, level: int, tensor: str) -> bool:
        holds = self.hardware.levels[level].holds
        return holds is None or tensor in holds

    def _loop(self, rank: str, extent: int) -> Loop:
        """A loop with few trips, ragged or not, sometimes with one trip only."""
        if self.rng.random() < 0.1:
            return Loop(rank, extent)
        trips = self.rng.choice((2, 2, 2, 3, 3, 4, extent))
        return Loop(rank, max(1, -(-extent // trips)))

    def _tree(self, order: list[str]) -> _Tree:
        paths: dict[str, tuple[Loop, ...]] = {}
        meets: dict[frozenset[str], int] = {}

        def grow(members: list[str], path: tuple[Loop, ...]) -> None:
            for one in members:
                paths[one] = path
                for two in members:
                    if one != two:
                        meets[frozenset((one, two))] = len(path)
            if len(members) == 1:
                return
            ranks = self._loopable(members, {loop.rank for loop in path})
            if ranks and self.rng.random() < (0.85 if len(path) < 2 else 0.5):
                rank = self.rng.choice(ranks)
                grow(members, (*path, self._loop(rank, self.cascade.ranks[rank])))
            elif len(members) > 2 or self.rng.random() < 0.3:
                at = self.rng.randint(1, len(members) - 1)
                grow(members[:at], path)
                grow(members[at:], path)

        grow(order, ())
        return _Tree(paths, meets)

    def _loopable(self, members: list[str], used: set[str]) -> list[str]:
        """Ranks that the members may share a loop over without reading partial sums."""
        banned = set(used)
        for name in members if not self.reckless else ():
            if any(consumer.name in members for consumer in self.cascade.consumers[name]):
                banned |= self._einsum(name).reduction
                banned |= {b.rank for b in self.cascade.barriers if b.tensor == name and b.mode == "row"}
                for barrier in self.cascade.barriers:
                    if barrier.tensor == name and not set(barrier.corrects) <= set(members):
                        banned.add(barrier.rank)
        return [
            r
            for r in self.cascade.ranks
            if r not in banned and any(r in self._einsum(m).ranks for m in members)
        ]

    def _shared_buffers(self, order: list[str], tree: _Tree) -> list[Buffer]:
        found: list[Buffer] = []
        home: dict[str, int] = {}  # tensor to the position of the buffer that holds it
        for name in order:
            readers = [e.name for e in self.cascade.consumers[name] if e.name in order]
            target = self._einsum(name).in_place
            if target in home and self._holds(1, name) and self.rng.random() < 0.8:
                position = home[name] = home[target]
                users = [*found[position].users, name, *readers]
                found[position] = Buffer(found[position].tensor, self._sorted(users, order), frozenset())
            elif readers:
                home[name] = len(found)
                found.append(Buffer(name, self._sorted([name, *readers], order), frozenset()))
        made = {tensor for tensor in self.cascade.tensors if tensor in order}
        for tensor in self.cascade.tensors:
            readers = [e.name for e in self.cascade.consumers[tensor] if e.name in order]
            if tensor not in made and len(readers) > 1 and self.rng.random() < 0.7:
                chosen = self.rng.sample(readers, self.rng.randint(2, len(readers)))
                found.append(Buffer(tensor, self._sorted(chosen, order), frozenset()))
        placed = []
        for buffer in found:
            meet = tree.meet(buffer.users)
            depth = meet if self.rng.random() < 0.75 else self.rng.randint(0, meet)
            outside = frozenset(loop.rank for loop in tree.paths[buffer.users[0]][:depth])
            placed.append(Buffer(buffer.tensor, buffer.users, outside))
        return placed

    @staticmethod
    def _sorted(users: Sequence[str], order: list[str]) -> tuple[str, ...]:
        return tuple(sorted(dict.fromkeys(users), key=order.index))

    def _stored(self, buffer: Buffer, shared: Sequence[Buffer]) -> list[str]:
        own = {other.tensor for other in shared}
        stored = [buffer.tensor]
        for user in buffer.users:
            if user not in own and self._einsum(user).in_place == stored[-1]:
                stored.append(user)
        return stored

    def _nest(
        self, name: str, path: tuple[Loop, ...], shared: Sequence[Buffer], extents: dict[str, int]
    ) -> tuple[Loop, ...]:
        """The shared path, without foreign loops that no buffer makes it share, and own loops."""
        depth = max((len(b.outside) for b in shared if name in b.users), default=0)
        einsum = self._einsum(name)
        kept = [loop for i, loop in enumerate(path) if i < depth or loop.rank in einsum.ranks]
        free = [rank for rank in einsum.ranks if rank not in {loop.rank for loop in kept}]
        own = [self._loop(rank, extents[rank]) for rank in free if self.rng.random() < 0.55]
        self.rng.shuffle(own)
        return (*kept, *own)

    def _prefix(self, nest: tuple[Loop, ...], shared: Sequence[Buffer]) -> frozenset[str]:
        return frozenset(loop.rank for loop in nest[: self.rng.randint(0, len(nest))])

    # what lies inside a tile

    def _block(self, extents: Any, factors: dict[str, dict[str, int]]) -> dict[str, int]:
        return {r: -(-n // prod(factors.get(r, {}).values())) for r, n in extents.items()}

    def _tile(self, block: dict[str, int], nest: tuple[Loop, ...]) -> dict[str, int]:
        return {**block, **{loop.rank: loop.tile for loop in nest}}

    def _factors(self, einsum: Einsum, dims: Sequence[SpatialDim]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for dim in dims:
            left = dim.size
            for rank in self.rng.sample(einsum.ranks, min(len(einsum.ranks), 2)):
                factor = self.rng.randint(1, left)
                if factor > 1 and self.rng.random() < 0.7:
                    found.setdefault(rank, {})[dim.name] = factor
                    left //= factor
        return found

    def _common_factors(self, order: list[str], dim: SpatialDim) -> dict[str, dict[str, dict[str, int]]]:
        """One rank that all members have, spread alike."""
        common = [r for r in self.cascade.ranks if all(r in self._einsum(e).ranks for e in order)]
        if not common or dim.size == 1:
            return {}
        rank, factor = self.rng.choice(common), self.rng.randint(2, dim.size)
        return {e: {rank: {dim.name: factor}} for e in order}

    def _below(self, name: str, level: int, tile: dict[str, int]) -> Group | UnitMapping:
        einsum = self._einsum(name)
        if level == len(self.hardware.levels) - 1:
            return self._unit(einsum)
        tile = {rank: tile[rank] for rank in einsum.ranks}
        factors = self._factors(einsum, self.hardware.levels[level].spatial)
        block = self._block(tile, factors)
        own = [self._loop(rank, block[rank]) for rank in einsum.ranks if self.rng.random() < 0.6]
        self.rng.shuffle(own)
        nest = tuple(own)
        buffers = tuple(
            Buffer(tensor, (name,), self._prefix(nest, ()))
            for tensor in self._tensors(name)
            if self._holds(level + 1, tensor)
        )
        inner = {name: self._below(name, level + 1, self._tile(block, nest))}
        return Group((name,), {name: nest}, buffers, inner, {name: factors})

    def _unit(self, einsum: Einsum) -> UnitMapping:
        unit = self.rng.choice(candidates(self.hardware, einsum))
        dims = [unit.instances]
        if unit.kind == "free":
            dims += self.hardware.levels[-1].spatial
        spatial = self._factors(einsum, dims)
        if unit.kind == "systolic":
            flow = self.rng.choice(unit.dataflows)
            return UnitMapping(unit.name, flow, self.rng.random() < 0.3, spatial)
        order = list(einsum.ranks)
        self.rng.shuffle(order)
        given = order[: self.rng.randint(0, len(order))] if unit.kind == "free" else []
        return UnitMapping(unit.name, "free" if unit.kind == "free" else None, False, spatial, tuple(given))
