"""The loop tree of a group: nests without trip-1 loops, the loops that Einsums share, residencies as depths.

Residencies of one Einsum are prefixes of its nest, so a set of loops outside a buffer is a *depth*:
the number of leading loops. `P(e,f)` is then the best bottleneck of depths along a path of shared
buffers.

    S: m n e        C = S has depth 2 (m, n outside), shared by S and O
    O: m n f        P(S,O) = {m, n};  a buffer of Q with depth 1 lives through O as well
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass

from exactile.formulation.core.facts import EinsumFacts, Facts
from exactile.formulation.mapping import Buffer, Group


@dataclass(slots=True)
class Nest:
    """The loops of one Einsum at one boundary, those with one trip removed.

    `parent[r]`, `block[r]`, `tile[r]`: extent of the tile above the boundary, of the part one
    instance gets after the spatial split, and of the tile below the boundary. `shared` is `|P(e)|`.
    """

    einsum: EinsumFacts
    ranks: tuple[str, ...]
    trips: tuple[int, ...]
    parent: Map[str, int]
    block: dict[str, int]
    tile: dict[str, int]
    factors: Map[str, Map[str, int]]
    shared: int = 0

    def trip(self, rank: str) -> int:
        """`n_r`, 1 without a loop."""
        return self.trips[self.ranks.index(rank)] if rank in self.ranks else 1

    def spread(self, rank: str) -> int:
        """`s_r`, the product of the spatial factors of a rank at this boundary."""
        product = 1
        for factor in self.factors.get(rank, {}).values():
            product *= factor
        return product


@dataclass(slots=True)
class Held:
    """A buffer of the mapping: its depth, the tensors that live in it (more than one: in place)."""

    buffer: Buffer
    depth: int
    tensors: tuple[str, ...]

    @property
    def shared(self) -> bool:
        return len(self.buffer.users) > 1


@dataclass(slots=True)
class Tree:
    """One group at one boundary. `common[e, f]` is `|P(e,f)|` for distinct Einsums of the group."""

    group: Group
    nests: dict[str, Nest]
    held: tuple[Held, ...]
    common: dict[tuple[str, str], int]

    def holder(self, einsum: str, tensor: str) -> Held | None:
        """The buffer from which an Einsum uses a tensor; `None` if the tensor bypasses the level."""
        for held in self.held:
            if einsum in held.buffer.users and tensor in held.tensors:
                return held
        return None


def tree_of(facts: Facts, group: Group, parent: Map[str, int]) -> Tree:
    """The tree of a group inside a tile of extents `parent`. Assumes a legal group."""
    nests = {name: _nest(facts.einsums[name], group, parent) for name in group.order}
    owned = {buffer.tensor for buffer in group.buffers}
    held = []
    for buffer in group.buffers:
        nest = nests[buffer.users[0]]
        depth = sum(rank in buffer.outside for rank in nest.ranks)
        held.append(Held(buffer, depth, _tensors(facts, buffer, owned)))
    for item in held:
        if item.shared:
            for user in item.buffer.users:
                nests[user].shared = max(nests[user].shared, item.depth)
    for item in held:
        if not item.shared:
            item.depth = outward(facts, nests[item.buffer.users[0]], item.buffer.tensor, item.depth)
    return Tree(group, nests, tuple(held), common_depths(group.order, held))


def _nest(einsum: EinsumFacts, group: Group, parent: Map[str, int]) -> Nest:
    factors = group.spatial.get(einsum.name, {})
    block = {rank: parent[rank] for rank in einsum.ranks}
    for rank, dims in factors.items():
        for factor in dims.values():
            block[rank] = -(-block[rank] // factor)
    tile = dict(block)
    ranks, trips = [], []
    for loop in group.nests[einsum.name]:
        extent = block.get(loop.rank) or parent[loop.rank]
        trip = -(-extent // loop.tile)
        if trip > 1:
            ranks.append(loop.rank)
            trips.append(trip)
            tile[loop.rank] = loop.tile
    return Nest(einsum, tuple(ranks), tuple(trips), parent, block, tile, factors)


def _tensors(facts: Facts, buffer: Buffer, owned: set[str]) -> tuple[str, ...]:
    """The tensors that share the space of a buffer: its own and those that overwrite it in place."""
    names = [buffer.tensor]
    if len(buffer.users) > 1:
        for user in buffer.users:
            if user not in owned and facts.einsums[user].einsum.in_place in names:
                names.append(user)
    return tuple(names)


def outward(facts: Facts, nest: Nest, tensor: str, depth: int) -> int:
    """Move a private residency outward over trailing loops that are not its ranks and not shared.

    The tile stays the same and is fetched less often: `Q[m,e]` with `m n` outside is `m` outside.
    """
    ranks = nest.einsum.ranks_of(tensor)
    while depth > nest.shared and nest.ranks[depth - 1] not in ranks:
        depth -= 1
    return depth


def common_depths(order: tuple[str, ...], held: list[Held]) -> dict[tuple[str, str], int]:
    """`|P(e,f)|`: over all paths of shared buffers from e to f, the largest smallest depth."""
    common: dict[tuple[str, str], int] = {}
    if len(order) == 1:
        return common
    for item in held:
        for one in item.buffer.users:
            for two in item.buffer.users:
                if one != two:
                    common[one, two] = max(common.get((one, two), 0), item.depth)
    if len(order) > 2:
        for via in order:
            for one in order:
                for two in order:
                    if one != two and via not in (one, two):
                        through = min(common.get((one, via), 0), common.get((via, two), 0))
                        if through > common.get((one, two), 0):
                            common[one, two] = through
    return common
