"""What a family of residencies implies: shared loops, liveness, visits, nests. Ranks are bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.shape import Shape

Sets = tuple[int, ...]
Masks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sharing:
    """What the residencies of the shared slots imply.

    `pair[e][f]` is `P(e, f)` (all ranks on the diagonal), `own[e]` is `P(e)`.
    """

    pair: tuple[Sets, ...]
    own: Sets


def sharing(shape: Shape, sets: Sequence[int | None]) -> Sharing | None:
    """`P(e, f)` by the widest path over shared slots; `None` if their sets are not nested."""
    nodes = range(len(shape.node_ranks))
    everything = (1 << shape.ranks) - 1
    pair = [[everything if e == f else 0 for f in nodes] for e in nodes]
    for slot, chosen in zip(shape.slots, sets, strict=True):
        if chosen is None or len(slot.users) < 2:
            continue
        for e in slot.users:
            for f in slot.users:
                if e != f and not nested(pair[e][f], chosen):
                    return None
                if e != f:
                    pair[e][f] |= chosen
    for via in nodes:
        for e in nodes:
            for f in nodes:
                path = pair[e][via] & pair[via][f]
                if path not in (pair[e][via], pair[via][f]) or not nested(path, pair[e][f]):
                    return None
                pair[e][f] |= path
    own = []
    for e in nodes:
        union = 0
        for f in nodes:
            if f != e:
                if not nested(union, pair[e][f]):
                    return None
                union |= pair[e][f]
        own.append(union)
    return Sharing(tuple(tuple(row) for row in pair), tuple(own))


def live(shape: Shape, shared: Sharing, sets: Sequence[int], node: int) -> int:
    """Bit set of the slots that are live while `node` runs (`docs/model.md`, footprint and peak)."""
    found = 0
    for position, (slot, outside) in enumerate(zip(shape.slots, sets, strict=True)):
        inside = [outside & ~shared.pair[e][node] == 0 for e in slot.users]
        strictly = [i and outside != shared.pair[e][node] for e, i in zip(slot.users, inside, strict=True)]
        between = sum(inside) >= 2 and slot.users[0] <= node <= slot.users[-1]
        if node in slot.users or any(strictly) or between:
            found |= 1 << position
    return found


def visited(shape: Shape, shared: Sharing, sets: Sequence[int], position: int) -> int:
    """The loops that multiply the visits of a slot: those outside it that are not its ranks.

    A private buffer moves outward over trailing loops that are neither its ranks nor shared; inside a
    run of loops with no residency between them the order is free, so its own ranks come first. (Where
    orders or the slot are pinned, the moved residency is a structure of its own.)
    """
    slot, outside = shape.slots[position], sets[position]
    node = slot.users[0]
    own = shared.own[node]
    if len(slot.users) > 1 or shape.pinned:
        return outside & ~slot.ranks
    nest = sorted(
        {z for z in prefixes(shape, shared, sets, node) if z & ~outside == 0} | {0}, key=int.bit_count
    )
    while outside & ~own:
        rest = max((z for z in nest if z != outside and z & ~outside == 0), key=int.bit_count)
        run = outside & ~rest & ~own
        if run & slot.ranks:
            return rest & ~slot.ranks | outside & own & ~slot.ranks
        outside = rest | (outside & own)
    return outside & ~slot.ranks


def prefixes(shape: Shape, shared: Sharing, sets: Sequence[int], node: int) -> list[int]:
    """All prefix sets of a node's nest: residencies of its slots and what it shares with others."""
    found = [s for slot, s in zip(shape.slots, sets, strict=True) if node in slot.users]
    return found + [p for other, p in enumerate(shared.pair[node]) if other != node]


def nested(a: int, b: int) -> bool:
    return a & b in (a, b)


def loops_of(shape: Shape, shared: Sharing, sets: Sequence[int], node: int) -> int:
    """All loops around a node: shared ones, those outside its buffers, and ranks with a pinned tile."""
    union = shared.own[node] | (shape.forced & shape.node_ranks[node])
    for slot, outside in zip(shape.slots, sets, strict=True):
        if node in slot.users:
            union |= outside
    return union
