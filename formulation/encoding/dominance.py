"""Dominance: which structures can be dropped, because another is as good for every tiling.

`a` dominates `b` if, with one trip for each loop that `b` does not have, every tensor of `a` is visited
by a subset of the loops, divided by a superset of the loops in its footprint, and live in a subset of
the Einsums; and `a` shares no tile that `b` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.shape import Shape
from exactile.formulation.encoding.sharing import Masks, Sets, Sharing, live, loops_of, sharing, visited

Bits = npt.NDArray[np.int64]

_PAIRS = 1 << 22
"""Pairs of structures compared at once."""


_WORD = 62
"""Bits per word, the sign left out."""


def undominated(shape: Shape, rows: Masks, checkpoint: Callable[[], None] = lambda: None) -> Masks:
    """The rows left after dropping, one by one, those that a row still there dominates.

    One by one, because the test is sufficient only: rows may dominate each other in a circle.
    """
    if len(rows) < 2:
        return rows
    facts = _facts(shape, rows)
    order = np.argsort(np.bitwise_count(facts.visits).sum(axis=1, dtype=np.int64), kind="stable")
    has, bans = ([word[order] for word in words] for words in _packed(shape, rows, facts))
    rows = rows[order]
    alive = np.ones(len(rows), dtype=bool)
    block = max(1, _PAIRS // len(rows))
    for start in range(0, len(rows), block):
        checkpoint()
        these = np.arange(start, min(start + block, len(rows)))
        rivals = np.flatnonzero(alive)
        dominated = np.ones((len(rivals), len(these)), dtype=bool)
        for one, other in zip(has, bans, strict=True):
            dominated &= (one[rivals][:, None] & other[these][None, :]) == 0
        dominated[rivals[:, None] == these[None, :]] = False
        for column in np.flatnonzero(dominated.any(axis=0)):
            if alive[rivals[dominated[:, column]]].any():
                alive[these[column]] = False
    return rows[alive]


def _packed(shape: Shape, rows: Masks, facts: _Facts) -> tuple[list[Bits], list[Bits]]:
    """Words of bits per row: what it has, and what no row that dominates it may have."""
    columns: list[tuple[int, Bits, Bits]] = [
        (len(shape.slots), facts.live[:, node], ~facts.live[:, node]) for node in range(len(shape.node_ranks))
    ]
    for position, slot in enumerate(shape.slots):
        outside, visits = rows[:, position], facts.visits[:, position]
        active = facts.loops[:, slot.users[0]]
        columns.append((shape.ranks, visits, active & ~visits))
        columns.append((shape.ranks, ~outside & slot.ranks, outside & slot.ranks))
        if slot.corrected:
            columns.append((shape.ranks, outside & slot.corrected, ~outside & slot.corrected))
        if shape.double_buffer and slot.crossing:
            columns.append((1, (outside != 0).astype(np.int64), (outside == 0).astype(np.int64)))
    for column, (e, f) in enumerate(combinations(range(len(shape.node_ranks)), 2)):
        active, pair = facts.loops[:, e] | facts.loops[:, f], facts.pair[:, column]
        columns.append((shape.ranks, pair, active & ~pair))
    has, bans, used = [np.zeros(len(rows), dtype=np.int64)], [np.zeros(len(rows), dtype=np.int64)], 0
    for width, one, other in columns:
        if used + width > _WORD:
            has.append(np.zeros(len(rows), dtype=np.int64))
            bans.append(np.zeros(len(rows), dtype=np.int64))
            used = 0
        full = (1 << width) - 1
        has[-1] |= (one & full) << used
        bans[-1] |= (other & full) << used
        used += width
    return has, bans


@dataclass(frozen=True)
class _Facts:
    """Per structure (last axis: slots, nodes or pairs of nodes), what dominance compares."""

    visits: Masks
    live: Masks
    loops: Masks
    pair: Masks


def _facts(shape: Shape, rows: Masks) -> _Facts:
    nodes = range(len(shape.node_ranks))
    visits, lives, loops, pairs = [], [], [], []
    known: dict[Sets, _OfSharing] = {}
    shared_slots = [p for p, slot in enumerate(shape.slots) if len(slot.users) > 1]
    for row in map(tuple, rows.tolist()):
        key = tuple(row[p] for p in shared_slots)
        if key not in known:
            found = sharing(shape, [s if p in shared_slots else None for p, s in enumerate(row)])
            assert found is not None
            known[key] = _OfSharing(shape, found)
        here = known[key]
        visits.append(here.visits(row))
        lives.append(here.live(row))
        loops.append([loops_of(shape, here.shared, row, node) for node in nodes])
        pairs.append(here.pairs)
    array = [np.array(x, dtype=np.int64).reshape(len(rows), -1) for x in (visits, lives, loops, pairs)]
    visit, alive, loop, pair = array
    return _Facts(visit, alive, loop, pair)


class _OfSharing:
    """Facts of the structures with the same residencies of shared slots: most have many parts in common."""

    def __init__(self, shape: Shape, shared: Sharing) -> None:
        self.shape, self.shared = shape, shared
        nodes = range(len(shape.node_ranks))
        self.pairs = [shared.pair[e][f] for e in nodes for f in nodes if f > e]
        self.own_slots = [[p for p, slot in enumerate(shape.slots) if node in slot.users] for node in nodes]
        self._visits: dict[tuple[int, Sets], int] = {}
        self._live: dict[tuple[int, int], Sets] = {}

    def visits(self, row: Sets) -> list[int]:
        """Per slot; those of a private one depend on the residencies of its Einsum alone."""
        found = []
        for position, slot in enumerate(self.shape.slots):
            key = position, tuple(row[p] for p in self.own_slots[slot.users[0]])
            if key not in self._visits:
                self._visits[key] = visited(self.shape, self.shared, row, position)
            found.append(self._visits[key])
        return found

    def live(self, row: Sets) -> list[int]:
        """Per Einsum; whether a slot is live depends on its own residency alone."""
        total = [0] * len(self.shape.node_ranks)
        for key in enumerate(row):
            if key not in self._live:
                bit, nodes = 1 << key[0], range(len(total))
                self._live[key] = tuple(live(self.shape, self.shared, row, node) & bit for node in nodes)
            for node, bits in enumerate(self._live[key]):
                total[node] |= bits
        return total
