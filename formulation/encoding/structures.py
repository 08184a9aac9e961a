"""Structures: families of nested residency sets, and the few that can be best for some tiling.

A structure gives every slot the set of loops outside its buffer. Traffic, footprint and liveness
depend on loop orders through these sets only, so a structure stands for all orders that have them as
prefixes. Example, attention with slots S, Q, K, V, O: `({m,n}, {m}, {m,n}, {m,n}, {m})` is
FlashAttention's: stream over `n` with Q and O held.

`structures(shape)` enumerates the legal ones and keeps those that no other dominates for all tilings
(`dominance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from exactile.formulation.encoding.dominance import undominated
from exactile.formulation.encoding.shape import Shape
from exactile.formulation.encoding.sharing import Masks, Sets, Sharing, loops_of, nested, prefixes, sharing


def _subsets(mask: int) -> Iterator[int]:
    subset = mask
    while True:
        yield subset
        if not subset:
            return
        subset = (subset - 1) & mask


Below = dict[tuple[int, int, tuple[int, ...]], list[Sets]]
"""By Einsum, its shared loops and its slots below those: residencies worth having."""

Placed = tuple[int | None, ...]
"""Per private slot what was chosen; `None` is below the shared loops."""


class TooManyStructures(Exception):  # noqa: N818 - a fact about a group, not a failure
    """Listing the structures of a group was given up."""


def structures(shape: Shape, most: int | None = None, checkpoint: Callable[[], None] = lambda: None) -> Masks:
    """All structures of the group that no other dominates: one row per structure, one set per slot.

    Raises `TooManyStructures` after `most` steps: families of sets looked at, whole or in part.
    `checkpoint` is called between pieces of the work and may raise to end it.
    """
    steps = 0

    def step() -> None:
        nonlocal steps
        checkpoint()
        steps += 1
        if most is not None and steps > most:
            raise TooManyStructures

    kept = [
        undominated(shape, np.array(rows, dtype=np.int64), checkpoint) for rows in _by_sharing(shape, step)
    ]
    if not kept:
        return np.empty((0, len(shape.slots)), dtype=np.int64)
    return undominated(shape, np.concatenate(kept), checkpoint)


def _by_sharing(shape: Shape, step: Callable[[], None]) -> Iterator[list[Sets]]:
    """Legal structures, one list per choice of the shared slots' residencies; empty lists left out."""
    known: Below = {}
    for sets in _shared_sets(shape):
        step()
        shared = sharing(shape, sets)
        if shared is None or not _legal(shape, shared, sets):
            continue
        rows = list(_placements(shape, shared, list(sets), known, step))
        if shape.pinned:
            rows = [row for row in rows if _respects_pins(shape, shared, row)]
        if rows:
            yield rows


def _shared_sets(shape: Shape) -> Iterator[tuple[int | None, ...]]:
    """Residencies of the shared slots, `None` for private ones; those of one Einsum are nested."""
    everywhere = 0
    for ranks in shape.node_ranks:
        everywhere |= ranks
    choices: list[list[int | None]] = []
    for position, slot in enumerate(shape.slots):
        if len(slot.users) < 2:
            choices.append([None])
        else:
            banned = slot.apart
            for e, f, mask in shape.forbidden:
                if e in slot.users and f in slot.users and position == shape.recompute[e]:
                    banned |= mask
            within = everywhere if slot.pin is None else slot.pin
            choices.append([*_subsets(everywhere & within & ~banned)])
    together = [
        [q for q, other in enumerate(shape.slots[:p]) if set(other.users) & set(slot.users)]
        for p, slot in enumerate(shape.slots)
    ]

    def extend(chosen: tuple[int | None, ...]) -> Iterator[tuple[int | None, ...]]:
        position = len(chosen)
        if position == len(choices):
            yield chosen
            return
        before = [z for q in together[position] if (z := chosen[q]) is not None]
        for outside in choices[position]:
            if outside is None or all(nested(outside, z) for z in before):
                yield from extend((*chosen, outside))

    return extend(())


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
        nested(z & shared.pair[e][f], y & shared.pair[e][f])
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
            if order and other and common != [rank for rank in other if shared.pair[e][f] >> rank & 1]:
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
    nests = [prefixes(shape, shared, row, node) for node in nodes]
    for slot, outside in zip(shape.slots, row, strict=True):
        if slot.pin is None:
            continue
        wanted = 0
        for node in slot.users:
            wanted |= slot.pin & loops[node]
        fixed = slot.ranks | shared.own[slot.users[0]] if len(slot.users) == 1 else wanted
        if outside & ~wanted or wanted & ~outside & fixed:
            return False
        for node in slot.users:
            if not all(nested(wanted, prefix) for prefix in nests[node]):
                return False
            nests[node].append(wanted)
    return all(
        _follows(order, prefix & shared.pair[node][other], loops[node])
        for node, order in enumerate(shape.orders)
        if order
        for other in nodes
        for prefix in nests[other]
    )


def _placements(
    shape: Shape, shared: Sharing, sets: list[int | None], known: Below, step: Callable[[], None]
) -> Iterator[Sets]:
    """Residencies of the private slots: inside the shared prefix (live beyond the Einsum), or below.

    `known` keeps those below for other sharings.
    """
    private = [position for position, slot in enumerate(shape.slots) if len(slot.users) == 1]
    fixed = [
        (node, s) for slot, s in zip(shape.slots, sets, strict=True) if s is not None for node in slot.users
    ] + [(e, p) for e, row in enumerate(shared.pair) for f, p in enumerate(row) if e != f]
    inside = _Inside(shape, shared, private, fixed)
    for placed in inside.ways():
        step()
        if not inside.settled(placed):
            continue
        groups: dict[int, tuple[int, ...]] = {}
        base = list(sets)
        for slot, k in zip(private, placed, strict=True):
            if k is None:
                node = shape.slots[slot].users[0]
                groups[node] = (*groups.get(node, ()), slot)
            else:
                base[slot] = inside.choices[k][1]
        options = []
        for node, slots in groups.items():
            key = node, shared.own[node], slots
            if key not in known:
                known[key] = _below(shape, shared, node, slots)
            options.append([list(zip(slots, chosen, strict=True)) for chosen in known[key]])
        for combination in product(*options):
            step()
            full = list(base)
            for part in combination:
                for slot, outside in part:
                    full[slot] = outside
            yield tuple(s or 0 for s in full)


class _Inside:
    """Residencies of private slots inside the shared loops of their Einsums, as bits of what can be chosen.

    `fixed` are the prefixes that the shared slots give, `choices` all (node, outside) that agree with them.
    """

    def __init__(
        self, shape: Shape, shared: Sharing, private: Sequence[int], fixed: Sequence[tuple[int, int]]
    ) -> None:
        self.shape, self.shared, self.private = shape, shared, private
        self.pinned = shape.pinned
        self.choices = [
            (node, outside)
            for node in sorted({shape.slots[slot].users[0] for slot in private})
            for outside in _subsets(shared.own[node])
            if outside != shared.own[node] and self._agrees(node, outside, fixed)
        ]
        self.around = [self._between(*choice, fixed) for choice in self.choices]
        self.between = [[self._between(*choice, (o,)) for o in self.choices] for choice in self.choices]
        self.given_up = [
            any(f != node and loops == outside for f, loops in enumerate(shared.pair[node]))
            for node, outside in self.choices
        ]
        self.compatible = [
            sum(1 << k for k, other in enumerate(self.choices) if self._agrees(*choice, (other,)))
            for choice in self.choices
        ]
        self.of_slot = [self._options(slot) for slot in private]

    def _agrees(self, node: int, outside: int, others: Sequence[tuple[int, int]]) -> bool:
        pair = self.shared.pair[node]
        return all(nested(outside & pair[f], z & pair[f]) for f, z in others)

    def _between(self, node: int, outside: int, others: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The next smaller and the next larger prefix of the node's shared loops."""
        smaller, larger = 0, self.shared.own[node]
        for f, z in others:
            prefix = z & self.shared.pair[node][f] & self.shared.own[node]
            if prefix & ~outside:
                larger &= prefix
            elif prefix != outside:
                smaller |= prefix
        return smaller, larger

    def _options(self, slot: int) -> list[int | None]:
        """`None`: below the shared loops."""
        node, pin = self.shape.slots[slot].users[0], self.shape.slots[slot].pin
        own = self.shared.own[node]
        found: list[int | None] = [None] if pin is None or pin & own == own else []
        return found + [
            k
            for k, (e, outside) in enumerate(self.choices)
            if e == node and (pin is None or not outside & ~pin)
        ]

    def ways(self) -> Iterator[Placed]:
        """One choice per private slot."""

        def extend(position: int, allowed: int, placed: Placed) -> Iterator[Placed]:
            if position == len(self.private):
                yield placed
                return
            for k in self.of_slot[position]:
                if k is None:
                    yield from extend(position + 1, allowed, (*placed, None))
                elif allowed >> k & 1:
                    yield from extend(position + 1, allowed & self.compatible[k], (*placed, k))

        return extend(0, (1 << len(self.choices)) - 1, ())

    def settled(self, placed: Placed) -> bool:
        """Whether no slot could simply be placed better.

        Between two neighbouring residencies the order of loops is free. So the slot's own ranks among the
        loops that follow can move outside its buffer (smaller, no more visits), and foreign ranks among the
        last loops outside can move inside (fewer visits, no larger). Either way a structure remains that
        dominates this one. But where just the loops outside are shared with some Einsum, the buffer is given
        up before that runs, and would live on with fewer loops outside.
        """
        if self.pinned:
            return True
        chosen = {k for k in placed if k is not None}
        for position, k in zip(self.private, placed, strict=True):
            if k is None:
                continue
            (smaller, larger), between = self.around[k], self.between[k]
            for other in chosen:
                smaller |= between[other][0]
                larger &= between[other][1]
            slot, outside = self.shape.slots[position], self.choices[k][1]
            if outside & ~smaller & ~slot.ranks and not self.given_up[k]:
                return False
            doubles = self.shape.double_buffer and slot.crossing and outside == 0
            if larger & ~outside & slot.ranks and not doubles:
                return False
        return True


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
            if (pin is None or (own | below) & ~pin == 0) and all(nested(own | below, z) for z in chosen)
        ]
    if shape.orders[node] or any(slot.pin is not None for slot in shape.slots if node in slot.users):
        return found  # a better one may break a pin
    used = []
    for chosen in found:
        union = shape.forced & shape.node_ranks[node]
        for z in chosen:
            union |= z
        used.append(union)
    # one by one, because they may be better than each other in a circle
    kept = list(range(len(found)))
    for b in reversed(range(len(found))):
        if any(_better(shape, slots, found[a], found[b], used[b]) for a in kept if a != b):
            kept.remove(b)
    return [found[b] for b in kept]


def _better(shape: Shape, slots: Sequence[int], a: Sets, b: Sets, used: int) -> bool:
    """Whether residencies `a` are at least as good as `b` in every tiling of the loops `used`."""
    for slot, s, z in zip(slots, a, b, strict=True):
        ranks, crossing = shape.slots[slot].ranks, shape.slots[slot].crossing
        if s & ~ranks & used & ~z or z & ranks & ~s:
            return False
        if shape.double_buffer and crossing and s and not z:
            return False
    return True
