"""Dominance: which structures can be dropped, because another is as good for every tiling.

`a` dominates `b` if, with one trip for each loop that `b` does not have, every tensor of `a` is visited
by a subset of the loops, divided by a superset of the loops in its footprint, and live in a subset of
the Einsums; and `a` shares no tile that `b` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.shape import Shape
from exactile.formulation.encoding.sharing import Masks, Sets, Sharing, live, loops_of, sharing, visited

_PAIRS = 1 << 22
"""Pairs of structures compared at once."""


def undominated(shape: Shape, rows: Masks, checkpoint: Callable[[], None] = lambda: None) -> Masks:
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
        checkpoint()
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
