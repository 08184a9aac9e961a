"""Inner tables: for every tile shape of an Einsum, what the best uses of its units cost.

Nothing inside a tile depends on the structure around it, so each Einsum has one table over the tiles
of its loops, shared by all structures (and by all plans with the same loops).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.inner import UnitFamily
from exactile.formulation.encoding.inner_cost import InnerCost, inner_costs
from exactile.formulation.encoding.plan import NodePlan, Plan
from exactile.formulation.encoding.shared_tiles import SharedTiles

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_AT_ONCE = 1 << 21
"""Values of a table computed at once."""


@dataclass(frozen=True)
class Cells:
    """Single entries of an inner table: own shared tiles (rows) and own tiles (columns)."""

    rows: Indices
    columns: Indices


class InnerTable:
    """Per metric an array over tile shapes: rows are tiles of shared loops, columns tiles of own loops."""

    def __init__(self, group: Group, plan: Plan, node: NodePlan) -> None:
        self.group, self.plan, self.node = group, plan, node
        self.einsum = group.spec.einsums[node.node]
        self._costs: dict[tuple[str, str], InnerCost] = {}

    @property
    def unknowns(self) -> int:
        """Combinations of own tiles."""
        total = 1
        for bit in self.node.private:
            total *= len(self.group.tilings[bit][0])
        return total

    @cached_property
    def _shared_axes(self) -> tuple[list[str], list[int]]:
        """Ranks of the Einsum with shared loops, and their variables."""
        ranks, variables = [], []
        for v in self.node.variables:
            rank = self.group.spec.ranks[self.plan.variables[v].bit]
            if rank in self.einsum.ranks:
                ranks.append(rank)
                variables.append(v)
        return ranks, variables

    @cached_property
    def _axes(self) -> tuple[tuple[str, int, int], ...]:
        """`(rank, bit, length)` per axis of the inner table: own shared loops, then own loops."""
        bits = [self.plan.variables[v].bit for v in self._shared_axes[1]] + list(self.node.private)
        return tuple((self.group.spec.ranks[bit], bit, len(self.group.tilings[bit][0])) for bit in bits)

    @cached_property
    def uses(self) -> int:
        """How many uses of units the table chooses from."""
        return sum(len(family) for family in self.group.families[self.node.node])

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(length for *_, length in self._axes) or (1,)

    @cached_property
    def size(self) -> int:
        """Combinations of the tiles of own ranks with shared loops."""
        total = 1
        for v in self._shared_axes[1]:
            total *= len(self.group.tilings[self.plan.variables[v].bit][0])
        return total

    def index(self, shared: SharedTiles) -> Indices:
        """For every `t`, the row of the inner table."""
        index = np.zeros(shared.size, dtype=np.intp)
        for v in self._shared_axes[1]:
            index = index * len(self.group.tilings[self.plan.variables[v].bit][0]) + shared.index[v]
        return index

    def best(self, names: Sequence[str], cells: Cells | None = None) -> dict[str, Floats]:
        """`[option, own shared tiles, u]` or `[option, cell]` per metric: the uses of units that no other
        dominates, per tile shape. With one metric that is the best one."""
        if cells is not None:
            return self._tables(names, cells, (len(cells.rows),))
        ranks = [rank for rank, _, _ in self._axes]
        by_name = [ranks.index(rank) for rank in sorted(ranks)] or [0]
        key = (self.einsum.name, tuple(sorted(ranks)), self.group.spec.batch, tuple(names))
        cache = self.group.inner_cache
        if key not in cache:
            tables = self._tables(names, None, self._shape)
            cache[key] = {n: v.transpose(0, *(1 + a for a in by_name)) for n, v in tables.items()}
        back = [by_name.index(axis) for axis in range(len(by_name))]
        return {
            name: values.transpose(0, *(1 + a for a in back)).reshape(-1, self.size, self.unknowns)
            for name, values in cache[key].items()
        }

    def _tables(self, names: Sequence[str], cells: Cells | None, shape: tuple[int, ...]) -> dict[str, Floats]:
        cells_at_once = int(np.prod(shape, dtype=np.int64))
        step = max(1, _AT_ONCE // cells_at_once)
        tables: dict[str, Floats] | None = None
        for family in self.group.families[self.node.node]:
            for start in range(0, len(family), step):
                if cells_at_once * self.uses > 2 * _AT_ONCE:
                    self.group.checkpoint()
                part = self.members(family.members(start, start + step), names, cells)
                tables = _pareto(tables, part, shape)
        assert tables is not None
        return {name: np.broadcast_to(v, (v.shape[0], *shape)) for name, v in tables.items()}

    def members(
        self, family: UnitFamily, names: Sequence[str], cells: Cells | None = None
    ) -> dict[str, Floats]:
        """`[member, *axes]` or `[member, cell]` per metric: inner boundary and compute, without `ρ`."""
        tiles, trips = self._tile_table(cells)
        costs = {name: self._inner_cost(family.unit.name, name) for name in names}
        return inner_costs(self.group.problem, self.einsum, family, tiles, trips, costs)

    def _inner_cost(self, unit: str, name: str) -> InnerCost:
        key = (unit, name)
        if key not in self._costs:
            self._costs[key] = InnerCost.of(self.group.problem, self.group.space, self.einsum, unit, name)
        return self._costs[key]

    def fixed(self, name: str) -> float | None:
        """What the inner boundary and compute add to a metric if tiles and units do not matter."""
        found = set()
        for family in self.group.families[self.node.node]:
            cost = self._inner_cost(family.unit.name, name)
            if cost.moves:
                return None
            found.add(cost.once)
        return found.pop() if len(found) == 1 else None

    def _tile_table(self, cells: Cells | None) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Tiles and trips of every rank: on the grid of all axes, or of single cells in a row."""
        group = self.group
        extents = group.problem.cascade.ranks
        dims = len(self._shape) if cells is None else 1
        tiles: dict[str, Floats] = {}
        trips: dict[str, Floats] = {}
        for rank in self.einsum.ranks:
            batch = rank in group.spec.batch
            tiles[rank] = np.full((1,) * dims, 1.0 if batch else float(extents[rank]))
            trips[rank] = np.full((1,) * dims, float(extents[rank]) if batch else 1.0)
        index = None if cells is None else self._unravel(cells)
        for axis, (rank, bit, length) in enumerate(self._axes):
            for table, values in zip((trips, tiles), group.tilings[bit], strict=True):
                if index is None:
                    table[rank] = values.reshape([length if a == axis else 1 for a in range(dims)])
                else:
                    table[rank] = values[index[axis]]
        return tiles, trips

    def _unravel(self, cells: Cells) -> tuple[Indices, ...]:
        if not self._axes:
            return ()
        flat = cells.rows * self.unknowns + cells.columns
        return tuple(np.unravel_index(flat, [length for *_, length in self._axes]))


def _pareto(
    tables: Mapping[str, Floats] | None, part: Mapping[str, Floats], shape: tuple[int, ...]
) -> dict[str, Floats]:
    """Merge options into a table: per cell those that no other dominates, padded with infinity.

    Metrics that are the same for every option do not matter for dominance.
    """
    if len(part) == 1:
        ((name, values),) = part.items()
        best = values.min(axis=0, keepdims=True)
        return {name: best if tables is None else np.minimum(best, tables[name])}
    count = max(values.shape[0] for values in part.values())
    full = {name: np.broadcast_to(values, (count, *shape)) for name, values in part.items()}
    if tables is not None:
        full = {name: np.concatenate([tables[name], values]) for name, values in full.items()}
    names = [name for name, values in full.items() if (values != values[:1]).any()]
    if not names:
        return {name: values[:1] for name, values in full.items()}
    if len(names) == 1:
        best = full[names[0]].argmin(axis=0)[None]
        return {name: np.take_along_axis(values, best, axis=0) for name, values in full.items()}
    keep = _nondominated([full[name] for name in names])
    width = max(1, int(keep.sum(axis=0).max()))
    order = np.argsort(~keep, axis=0, kind="stable")[:width]
    mask = np.take_along_axis(keep, order, axis=0)
    return {name: np.where(mask, np.take_along_axis(v, order, axis=0), np.inf) for name, v in full.items()}


def _nondominated(metrics: Sequence[Floats]) -> npt.NDArray[np.bool_]:
    """`[option, cell…]`: is the option the first of its kind and dominated by no other in this cell?"""
    count = metrics[0].shape[0]
    order = np.lexsort(tuple(reversed(metrics)), axis=0)
    ordered = [np.take_along_axis(values, order, axis=0) for values in metrics]
    if len(metrics) == 2:
        last = np.minimum.accumulate(ordered[-1], axis=0)
        keep = np.ones(order.shape, dtype=bool)
        keep[1:] = ordered[-1][1:] < last[:-1]
    else:
        keep = np.ones(order.shape, dtype=bool)
        for later in range(1, count):
            dominated = np.ones((later, *order.shape[1:]), dtype=bool)
            for values in ordered[1:]:
                dominated &= values[:later] <= values[later : later + 1]
            keep[later] = ~(dominated & keep[:later]).any(axis=0)
    keep &= np.isfinite(np.stack(ordered)).all(axis=0)
    found = np.empty_like(keep)
    np.put_along_axis(found, order, keep, axis=0)
    return found
