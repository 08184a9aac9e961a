"""The loop tree of a fused group: what the flat nests and buffers of a mapping look like when drawn.

Example: nests `S: h m n e`, `O: h m n f` with a buffer of `S` inside `h, m, n` become

    h ─ m ─ n ─┬─ e ─ S
               └─ f ─ O

Loops are drawn once where a shared buffer forces its users to share them, and apart everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from math import prod

from exactile.formulation.cascade import Cascade
from exactile.formulation.mapping import Buffer, Group, Loop


@dataclass(frozen=True)
class Leaf:
    """An Einsum at the bottom of its nest. `parent[r]` is the tile of rank `r` it works on, if known.

    `recomputed` is how often each point is computed: the product of the trips of foreign loops.
    """

    einsum: str
    tile: Map[str, int]
    recomputed: int = 1


@dataclass(frozen=True)
class Node:
    """A loop with its body; the root has no loop.

    `parent` is the extent that the loop walks over in steps of `loop.tile`, or `None` if unknown. The
    body lists allocations (`Buffer`), loops and Einsums in the order in which they happen.
    """

    loop: Loop | None
    parent: int | None
    body: tuple[Buffer | Node | Leaf, ...]


@dataclass(frozen=True)
class Tree:
    """The tree of one group at one boundary, without loops of one trip.

    `block[e][r]` is the extent of rank `r` that the nest of Einsum `e` walks over, `tile[e][r]` what
    is left of it inside all loops. Both hold the ranks whose extent is known.
    """

    root: Node
    block: Map[str, Map[str, int]]
    tile: Map[str, Map[str, int]]
    buffers: tuple[Buffer, ...] = field(default=())


def build(group: Group, extents: Map[str, Map[str, int]], ranks: Map[str, frozenset[str]]) -> Tree:
    """The loop tree of `group`.

    `extents[e][r]` is the parent tile of rank `r` for Einsum `e` (empty where unknown), `ranks[e]` the
    iteration space of `e` (empty where unknown: then nothing is reported as recomputed).
    """
    block = {e: _blocks(extents.get(e, {}), group.spatial.get(e, {})) for e in group.order}
    nests = {e: _without_single_trips(group.nests.get(e, ()), block[e]) for e in group.order}
    buffers = tuple(_within(buffer, nests) for buffer in group.buffers)
    shared = shared_depths(group.order, buffers)
    tile = {e: {**block[e], **{loop.rank: loop.tile for loop in nests[e]}} for e in group.order}

    def recomputed(e: str) -> int:
        depth = max((shared[e, f] for f in group.order if f != e), default=0)
        foreign = [loop for loop in nests[e][:depth] if ranks.get(e) and loop.rank not in ranks[e]]
        return prod(-(-block[e][loop.rank] // loop.tile) for loop in foreign if loop.rank in block[e])

    def body(members: Sequence[str], depth: int) -> Iterable[Buffer | Node | Leaf]:
        for run in _runs(members, depth, shared):
            yield from (b for b in buffers if len(b.outside) == depth and b.users[0] in run)
            first = run[0]
            if depth < len(nests[first]):
                loop = nests[first][depth]
                yield Node(loop, block[first].get(loop.rank), tuple(body(run, depth + 1)))
            else:
                yield from (Leaf(e, tile[e], recomputed(e)) for e in run)

    return Tree(Node(None, None, tuple(body(group.order, 0))), block, tile, buffers)


def shared_depths(order: Sequence[str], buffers: Iterable[Buffer]) -> dict[tuple[str, str], int]:
    """How many leading loops each two Einsums share: the best bottleneck over paths of shared buffers."""
    depth = {(e, f): 0 for e in order for f in order}
    for buffer in buffers:
        for e in buffer.users:
            for f in buffer.users:
                if (e, f) in depth:
                    depth[e, f] = max(depth[e, f], len(buffer.outside))
    for via in order:
        for e in order:
            for f in order:
                depth[e, f] = max(depth[e, f], min(depth[e, via], depth[via, f]))
    return depth


def contents(buffer: Buffer, buffers: Iterable[Buffer], cascade: Cascade) -> tuple[str, ...]:
    """The tensors that a buffer holds one after the other: its own, then those that overwrite it.

    An Einsum overwrites what a buffer holds if it is declared so and has no buffer of its own among
    `buffers`, those of the same group and boundary.
    """
    own, known = {other.tensor for other in buffers}, cascade.by_name
    over = (e for e in buffer.users if e in known and e not in own and known[e].in_place in buffer.users)
    return (buffer.tensor, *over)


def _blocks(extents: Map[str, int], spatial: Map[str, Map[str, int]]) -> dict[str, int]:
    """What one instance is given of each rank: the spatial split comes before the loops."""
    return {rank: -(-extent // prod(spatial.get(rank, {}).values())) for rank, extent in extents.items()}


def _without_single_trips(nest: Iterable[Loop], block: Map[str, int]) -> tuple[Loop, ...]:
    return tuple(loop for loop in nest if loop.rank not in block or loop.tile < block[loop.rank])


def _within(buffer: Buffer, nests: Map[str, tuple[Loop, ...]]) -> Buffer:
    """The buffer with only those loops outside it that exist."""
    user = next((e for e in buffer.users if e in nests), None)
    loops = {loop.rank for loop in nests[user]} if user else set()
    return Buffer(buffer.tensor, buffer.users, buffer.outside & loops)


def _runs(members: Sequence[str], depth: int, shared: Map[tuple[str, str], int]) -> Iterable[list[str]]:
    """Consecutive Einsums that share the loop at `depth`."""
    run: list[str] = []
    for e in members:
        if run and shared[run[-1], e] <= depth:
            yield run
            run = []
        run.append(e)
    if run:
        yield run
