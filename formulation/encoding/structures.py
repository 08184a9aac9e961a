"""Structures: families of nested residency sets, and the few that can be best for some tiling.

A structure gives every slot the set of loops outside its buffer. Traffic, footprint and liveness
depend on loop orders through these sets only, so a structure stands for all orders that have them as
prefixes. Example, attention with slots S, Q, K, V, O: `({m,n}, {m}, {m,n}, {m,n}, {m})` is
FlashAttention's: stream over `n` with Q and O held.

`structures(shape)` enumerates the legal ones and drops every structure that another one dominates
for *all* tilings, whatever the extents: `a` dominates `b` if, with one trip for each loop that `b`
does not have, every tensor of `a` is visited by a subset of the loops, divided by a superset of the
loops in its footprint, and live in a subset of the Einsums; and `a` shares no tile that `b` does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.shape import Shape

Sets = tuple[int, ...]
Masks = npt.NDArray[np.int64]
_PAIRS = 1 << 22


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
                if e != f and not _nested(pair[e][f], chosen):
                    return None
                if e != f:
                    pair[e][f] |= chosen
    for via in nodes:
        for e in nodes:
            for f in nodes:
                path = pair[e][via] & pair[via][f]
                if path not in (pair[e][via], pair[via][f]) or not _nested(path, pair[e][f]):
                    return None
                pair[e][f] |= path
    own = []
    for e in nodes:
        union = 0
        for f in nodes:
            if f != e:
                if not _nested(union, pair[e][f]):
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
        {z for z in _prefixes(shape, shared, sets, node) if z & ~outside == 0} | {0}, key=int.bit_count
    )
    while outside & ~own:
        rest = max((z for z in nest if z != outside and z & ~outside == 0), key=int.bit_count)
        run = outside & ~rest & ~own
        if run & slot.ranks:
            return rest & ~slot.ranks | outside & own & ~slot.ranks
        outside = rest | (outside & own)
    return outside & ~slot.ranks


def _prefixes(shape: Shape, shared: Sharing, sets: Sequence[int], node: int) -> list[int]:
    """All prefix sets of a node's nest: residencies of its slots and what it shares with others."""
    found = [s for slot, s in zip(shape.slots, sets, strict=True) if node in slot.users]
    return found + [p for other, p in enumerate(shared.pair[node]) if other != node]


def _nested(a: int, b: int) -> bool:
    return a & b in (a, b)


def _subsets(mask: int) -> Iterator[int]:
    subset = mask
    while True:
        yield subset
        if not subset:
            return
        subset = (subset - 1) & mask


def structures(shape: Shape) -> Masks:
    """All structures of the group that no other dominates: one row per structure, one set per slot."""
    kept = [_undominated(shape, np.array(rows, dtype=np.int64)) for _, rows in _by_sharing(shape) if rows]
    if not kept:
        return np.empty((0, len(shape.slots)), dtype=np.int64)
    return _undominated(shape, np.concatenate(kept))


def _by_sharing(shape: Shape) -> Iterator[tuple[Sharing, list[Sets]]]:
    """Legal structures, one list per choice of the shared slots' residencies."""
    everywhere = 0
    for ranks in shape.node_ranks:
        everywhere |= ranks
    choices: list[list[int | None]] = []
    for position, slot in enumerate(shape.slots):
        if len(slot.users) < 2:
            choices.append([None])
        else:
            banned = 0
            for e, f, mask in shape.forbidden:
                if e in slot.users and f in slot.users and position == shape.recompute[e]:
                    banned |= mask
            within = everywhere if slot.pin is None else slot.pin
            choices.append([*_subsets(everywhere & within & ~banned)])
    for sets in product(*choices):
        shared = sharing(shape, sets)
        if shared is not None and _legal(shape, shared, sets):
            rows = _placements(shape, shared, list(sets))
            yield shared, [row for row in rows if not shape.pinned or _respects_pins(shape, shared, row)]


def _legal(shape: Shape, shared: Sharing, sets: Sequence[int | None]) -> bool:
    """Dependencies, barriers, recomputation, and subtrees that run one after the other."""
    nodes = range(len(shape.node_ranks))
    if any(shared.pair[e][f] & mask for e, f, mask in shape.forbidden):
        return False
    for e in nodes:
        foreign = shared.own[e] & ~shape.node_ranks[e]
        slot = shape.recompute[e]
        allowed = 0 if slot is None else sets[slot] or 0
        if foreign & ~allowed:
            return False
    for e in nodes:
        for between in range(e + 1, len(nodes)):
            for f in range(between + 1, len(nodes)):
                if shared.pair[e][f] & ~shared.pair[e][between]:
                    return False
    chains = [
        (node, s) for slot, s in zip(shape.slots, sets, strict=True) if s is not None for node in slot.users
    ] + [(e, shared.pair[e][f]) for e in nodes for f in nodes if e != f]
    return _orders_agree(shape, shared) and all(
        _nested(z & shared.pair[e][f], y & shared.pair[e][f])
        for i, (e, z) in enumerate(chains)
        for f, y in chains[:i]
    )


def _orders_agree(shape: Shape, shared: Sharing) -> bool:
    """Pinned orders name every shared loop of their Einsum, and agree on the loops they share."""
    for e, order in enumerate(shape.orders):
        if order and shared.own[e] & ~sum(1 << rank for rank in order):
            return False
        for f, other in enumerate(shape.orders[:e]):
            common = [rank for rank in order if shared.pair[e][f] >> rank & 1]
            if other and common != [rank for rank in other if shared.pair[e][f] >> rank & 1]:
                return False
    return True


def _follows(order: Sets, prefix: int, loops: int) -> bool:
    """Whether `prefix` comes first when the loops stand in that order, which must name them all."""
    inside = [bool(prefix >> rank & 1) for rank in order if loops >> rank & 1]
    return len(inside) == loops.bit_count() and inside == sorted(inside, reverse=True)


def _respects_pins(shape: Shape, shared: Sharing, row: Sets) -> bool:
    """Whether a structure has the pinned orders and residencies, all its loops having two trips or more.

    A pinned loop with one trip is no loop, so only the loops of the structure count. A private buffer
    may have moved outward from its pinned place, over loops that are neither its ranks nor shared.
    """
    nodes = range(len(shape.node_ranks))
    loops = [loops_of(shape, shared, row, node) for node in nodes]
    prefixes = [_prefixes(shape, shared, row, node) for node in nodes]
    for slot, outside in zip(shape.slots, row, strict=True):
        if slot.pin is None:
            continue
        node = slot.users[0]
        wanted = slot.pin & loops[node]
        fixed = slot.ranks | shared.own[node] if len(slot.users) == 1 else wanted
        if outside & ~wanted or wanted & ~outside & fixed:
            return False
        if not all(_nested(wanted, prefix) for prefix in prefixes[node]):
            return False
        prefixes[node].append(wanted)
    return all(
        _follows(order, prefix & shared.pair[node][other], loops[node])
        for node, order in enumerate(shape.orders)
        if order
        for other in nodes
        for prefix in prefixes[other]
    )


def _placements(shape: Shape, shared: Sharing, sets: list[int | None]) -> Iterator[Sets]:
    """Residencies of the private slots: inside the shared prefix (live beyond the Einsum), or below."""
    private = [position for position, slot in enumerate(shape.slots) if len(slot.users) == 1]
    fixed = [
        (node, s) for slot, s in zip(shape.slots, sets, strict=True) if s is not None for node in slot.users
    ] + [(e, p) for e, row in enumerate(shared.pair) for f, p in enumerate(row) if e != f]
    below_cache: dict[tuple[int, tuple[int, ...]], list[Sets]] = {}

    def inside_prefix(position: int, chosen: list[tuple[int, int]]) -> Iterator[list[int | None]]:
        if position == len(private):
            yield []
            return
        slot = private[position]
        node = shape.slots[slot].users[0]
        own, pin = shared.own[node], shape.slots[slot].pin
        if pin is None or pin & own == own:
            for rest in inside_prefix(position + 1, chosen):
                yield [None, *rest]
        for outside in _subsets(own):
            if outside == own or (pin is not None and outside & ~pin):
                continue
            if all(_nested(outside & shared.pair[node][f], z & shared.pair[node][f]) for f, z in chosen):
                for rest in inside_prefix(position + 1, [*chosen, (node, outside)]):
                    yield [outside, *rest]

    for placed in inside_prefix(0, fixed):
        chosen = fixed + [
            (shape.slots[slot].users[0], outside)
            for slot, outside in zip(private, placed, strict=True)
            if outside is not None
        ]
        if not all(
            _settled(shape, shared, slot, outside, chosen)
            for slot, outside in zip(private, placed, strict=True)
            if outside is not None
        ):
            continue
        groups: dict[int, tuple[int, ...]] = {}
        for slot, outside in zip(private, placed, strict=True):
            if outside is None:
                node = shape.slots[slot].users[0]
                groups[node] = (*groups.get(node, ()), slot)
        options = []
        for node, slots in groups.items():
            if (node, slots) not in below_cache:
                below_cache[node, slots] = _below(shape, shared, node, slots)
            options.append([list(zip(slots, chosen, strict=True)) for chosen in below_cache[node, slots]])
        base = list(sets)
        for slot, outside in zip(private, placed, strict=True):
            base[slot] = outside
        for combination in product(*options):
            full = list(base)
            for part in combination:
                for slot, outside in part:
                    full[slot] = outside
            yield tuple(s or 0 for s in full)


def _settled(
    shape: Shape, shared: Sharing, position: int, outside: int, chosen: list[tuple[int, int]]
) -> bool:
    """Whether a slot inside the shared loops could not simply be placed better.

    Between two neighbouring residencies the order of loops is free. So the slot's own ranks among the
    loops that follow can move outside its buffer (smaller, no more visits), and foreign ranks among the
    last loops outside can move inside (fewer visits, no larger). Either way a structure remains that
    dominates this one.
    """
    slot = shape.slots[position]
    node = slot.users[0]
    if shape.pinned:
        return True
    family = {z & shared.pair[node][f] for f, z in chosen} | {0, shared.own[node]}
    smaller = max((z for z in family if z != outside and z & ~outside == 0), key=int.bit_count, default=0)
    larger = min((z for z in family if z != outside and outside & ~z == 0), key=int.bit_count)
    if outside & ~smaller & ~slot.ranks:
        return False
    grows = larger & ~outside & slot.ranks
    return not grows or (shape.double_buffer and slot.crossing and outside == 0)


def _below(shape: Shape, shared: Sharing, node: int, slots: tuple[int, ...]) -> list[Sets]:
    """Nested residencies of a node's own slots below the shared loops, without dominated ones."""
    own = shared.own[node]
    free = shape.node_ranks[node] & ~own
    found: list[Sets] = [()]
    for slot in slots:
        pin = shape.slots[slot].pin
        found = [
            (*chosen, own | below)
            for chosen in found
            for below in _subsets(free)
            if (pin is None or (own | below) & ~pin == 0) and all(_nested(own | below, z) for z in chosen)
        ]
    if shape.orders[node] or any(slot.pin is not None for slot in shape.slots if node in slot.users):
        return found  # a better one may break a pin
    used = []
    for chosen in found:
        union = shape.forced & shape.node_ranks[node]
        for z in chosen:
            union |= z
        used.append(union)
    keep: list[Sets] = []
    for b, chosen in enumerate(found):
        rivals = (a for a in range(len(found)) if a != b)
        if not any(
            _better(shape, slots, found[a], chosen, used[b])
            and (a < b or not _better(shape, slots, chosen, found[a], used[a]))
            for a in rivals
        ):
            keep.append(chosen)
    return keep


def _better(shape: Shape, slots: Sequence[int], a: Sets, b: Sets, used: int) -> bool:
    """Whether residencies `a` are at least as good as `b` in every tiling of the loops `used`."""
    for slot, s, z in zip(slots, a, b, strict=True):
        ranks, crossing = shape.slots[slot].ranks, shape.slots[slot].crossing
        if s & ~ranks & used & ~z or z & ranks & ~s:
            return False
        if shape.double_buffer and crossing and s and not z:
            return False
    return True


def _undominated(shape: Shape, rows: Masks) -> Masks:
    """The rows left after dropping, one by one, those that a row still there dominates.

    One by one, because the test is sufficient only: rows may dominate each other in a circle.
    """
    if len(rows) < 2:
        return rows
    facts = _facts(shape, rows)
    order = np.argsort(facts.weight, kind="stable")
    rows, facts = rows[order], facts.take(order)
    alive = np.ones(len(rows), dtype=bool)
    block = max(1, _PAIRS // len(rows))
    for start in range(0, len(rows), block):
        these = np.arange(start, min(start + block, len(rows)))
        rivals = np.flatnonzero(alive)
        dominated = facts.dominates(rivals, these)
        dominated[rivals[:, None] == these[None, :]] = False
        for column in np.flatnonzero(dominated.any(axis=0)):
            if alive[rivals[dominated[:, column]]].any():
                alive[these[column]] = False
    return rows[alive]


@dataclass(frozen=True)
class _Facts:
    """Per structure (last axis: slots, nodes or pairs of nodes), what dominance compares."""

    shape: Shape
    outside: Masks
    visits: Masks
    live: Masks
    loops: Masks
    pair: Masks
    weight: Masks

    def take(self, order: npt.NDArray[np.intp]) -> _Facts:
        return _Facts(
            self.shape,
            self.outside[order],
            self.visits[order],
            self.live[order],
            self.loops[order],
            self.pair[order],
            self.weight[order],
        )

    def dominates(self, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Matrix: does row `first[i]` dominate row `second[j]`?"""
        result = np.ones((len(first), len(second)), dtype=bool)
        for position, slot in enumerate(self.shape.slots):
            a, b = self.outside[first, position][:, None], self.outside[second, position][None, :]
            va, vb = self.visits[first, position][:, None], self.visits[second, position][None, :]
            active = self.loops[second, slot.users[0]][None, :]
            result &= (va & active & ~vb) == 0
            result &= (b & slot.ranks & ~a) == 0
            result &= (a & slot.corrected & ~b) == 0
            if self.shape.double_buffer and slot.crossing:
                result &= (a == 0) | (b != 0)
        for node in range(self.live.shape[1]):
            result &= (self.live[first, node][:, None] & ~self.live[second, node][None, :]) == 0
        column = 0
        for e in range(self.live.shape[1]):
            for f in range(e + 1, self.live.shape[1]):
                active = self.loops[second, e] | self.loops[second, f]
                extra = self.pair[first, column][:, None] & ~self.pair[second, column][None, :]
                result &= (extra & active[None, :]) == 0
                column += 1
        return result


def _facts(shape: Shape, rows: Masks) -> _Facts:
    nodes = range(len(shape.node_ranks))
    visits, lives, loops, pairs = [], [], [], []
    cache: dict[Sets, Sharing] = {}
    shared_slots = [p for p, slot in enumerate(shape.slots) if len(slot.users) > 1]
    for row in rows.tolist():
        key = tuple(row[p] for p in shared_slots)
        if key not in cache:
            found = sharing(shape, [s if p in shared_slots else None for p, s in enumerate(row)])
            assert found is not None
            cache[key] = found
        shared = cache[key]
        visits.append([visited(shape, shared, row, p) for p in range(len(row))])
        lives.append([live(shape, shared, row, node) for node in nodes])
        loops.append([loops_of(shape, shared, row, node) for node in nodes])
        pairs.append([shared.pair[e][f] for e in nodes for f in nodes if f > e])
    array = [np.array(x, dtype=np.int64).reshape(len(rows), -1) for x in (visits, lives, loops, pairs)]
    weight = np.bitwise_count(array[0]).sum(axis=1, dtype=np.int64)
    visit, alive, loop, pair = array
    return _Facts(shape, rows, visit, alive, loop, pair, weight)


def loops_of(shape: Shape, shared: Sharing, sets: Sequence[int], node: int) -> int:
    """All loops around a node: shared ones, those outside its buffers, and ranks with a pinned tile."""
    union = shared.own[node] | (shape.forced & shape.node_ranks[node])
    for slot, outside in zip(shape.slots, sets, strict=True):
        if node in slot.users:
            union |= outside
    return union
