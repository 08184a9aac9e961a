"""One plan of a group, scored: bounds for all combinations of shared tiles, exact choices for some.

Metrics add up over the Einsums, so the sum of their least values bounds every quantity from below
(`bounds`). For an additive objective that sum is the optimum, and the Einsums can be settled one by
one; latency is a maximum of sums, and they have to be settled jointly (`settle`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.plan import Plan
from exactile.formulation.encoding.scores import NodeScore, PlacedScore
from exactile.formulation.encoding.shared_tiles import SharedTiles, shared_count, shared_tiles
from exactile.formulation.encoding.tables import Cells
from exactile.formulation.mapping import UnitMapping
from exactile.solver.engine import Control, UnsupportedProblem
from exactile.solver.mmee.goal import Floats, Goal, Lexicographic
from exactile.solver.mmee.lazy_table import LazyTable

Indices = npt.NDArray[np.intp]
Columns = dict[str, Floats]

_BLOCK = 1 << 18
"""Values of one block of scores: small enough to stay in the cache."""

_JOINT = 1 << 20
"""Joint choices held at once in the second pass."""

_LARGEST = 1 << 27
"""Options of one Einsum that fit in memory with all their metrics."""

_WHOLE_TABLE = 1 << 27
"""Tables of all metrics up to this many values are computed once for all tile shapes."""


@dataclass(frozen=True)
class Choice:
    """One point of the space: a plan, shared tiles `t`, and per Einsum its row, own tiles and unit use."""

    group: Group
    plan: Plan
    shared: int
    rows: tuple[int, ...]
    own: tuple[int, ...]
    units: tuple[UnitMapping, ...]


class PlanSearch:
    """One plan of a group, scored."""

    def __init__(self, group: Group, plan: Plan, goal: Goal) -> None:
        self.group, self.plan, self.goal = group, plan, goal
        self.columns = group.space.columns_for(goal.keys)
        self.nodes = [NodeScore(group, plan, node) for node in plan.nodes]
        self.placed = PlacedScore(group, plan)
        self.count = shared_count(group, plan)
        self._tables: dict[tuple[int, tuple[str, ...]], Columns] = {}
        self.lazy = [LazyTable(node) for node in self.nodes]

    def _table(self, node: NodeScore, names: tuple[str, ...]) -> Columns:
        """The inner table of an Einsum; one with fewer metrics is smaller, so each set has its own."""
        key = (node.node.node, names)
        if key not in self._tables:
            self._tables[key] = node.table.best(names)
            if len(names) == 1:
                self.lazy[node.node.node].fill(names[0], self._tables[key][names[0]][0])
        return self._tables[key]

    def _joint_table(self, node: NodeScore, shared: SharedTiles) -> tuple[Columns, Indices]:
        """The inner table with all metrics, and its row for every `t`: whole, or only the rows needed."""
        index = node.table.index(shared)
        uses = node.table.uses
        if node.table.size * node.table.unknowns * uses <= _WHOLE_TABLE:
            return self._table(node, self.columns), index
        rows, index = np.unique(index, return_inverse=True)
        cells = Cells(
            np.repeat(rows, node.table.unknowns), np.tile(np.arange(node.table.unknowns), len(rows))
        )
        tables = node.table.best(self.columns, cells)
        return {n: v.reshape(-1, len(rows), node.table.unknowns) for n, v in tables.items()}, index

    @property
    def bound_columns(self) -> tuple[str, ...]:
        """Metrics of the first pass: those of the leading quantity, or of all quantities of a front."""
        if isinstance(self.goal, Lexicographic):
            return self.group.space.columns_for(self.goal.keys[:1])
        return self.columns

    def blocks(self) -> Iterator[Indices]:
        """All combinations of shared tiles, in blocks bounded by memory."""
        for start in range(0, self.count, self.block_size):
            yield np.arange(start, min(start + self.block_size, self.count))

    @property
    def block_size(self) -> int:
        """Combinations of shared tiles per block."""
        widest = max(len(node.node.rows) * node.table.unknowns for node in self.nodes)
        return max(1, _BLOCK // widest)

    @property
    def width(self) -> int:
        """(structure, tiling) pairs scored per combination of shared tiles."""
        return sum(len(node.node.rows) * node.table.unknowns for node in self.nodes)

    def prepare(self) -> None:
        """Compute the tables of the first pass, before threads need them."""
        self.bounds(np.arange(1))

    def bounds(self, which: Indices) -> Columns:
        """`[skeleton, t]` per metric of the first pass: least values, infinite if nothing fits."""
        shared = shared_tiles(self.group, self.plan, which)
        names = self.bound_columns
        total = {name: self.placed.costs(name, shared) for name in names}
        for node in self.nodes:
            least = self._least(node, names, np.arange(len(node.node.rows)), shared)
            for name in names:
                total[name] += _per_skeleton(least[name], node.skeletons, len(self.plan.placed))
        return total

    def floors(self, skeleton: int, which: Indices) -> Floats:
        """`[t, key]`: lower bounds of all keys of an additive goal, for one skeleton."""
        found = np.empty((len(which), len(self.goal.keys)))
        rows = [np.flatnonzero(node.skeletons == skeleton) for node in self.nodes]
        for start in range(0, len(which), self.block_size):
            block = slice(start, start + self.block_size)
            shared = shared_tiles(self.group, self.plan, which[block])
            for column, key in enumerate(self.goal.keys):
                found[block, column] = self.placed.costs(key, shared)[skeleton]
            for node, own in zip(self.nodes, rows, strict=True):
                least = self._least(node, self.goal.keys, own, shared)
                for column, key in enumerate(self.goal.keys):
                    found[block, column] += least[key].min(axis=0)
        return found

    def _least(self, node: NodeScore, names: Sequence[str], rows: Indices, shared: SharedTiles) -> Columns:
        """`[row, t]` per metric: least values over own tiles and unit uses."""
        found = {name: np.full((len(rows), shared.size), np.inf) for name in names}
        index, repeat = node.table.index(shared), node.repetitions(shared)[:, None]
        for own in self._own_blocks(node, len(rows) * shared.size):
            infeasible = ~node.feasible(rows, shared, own)
            for name in names:
                cost = node.traffic(name, rows, shared, own)
                fixed = node.table.fixed(name)
                if fixed is None:
                    cost += self._table(node, (name,))[name][0][index, own] * repeat
                elif fixed:
                    cost += fixed * repeat
                np.putmask(cost, infeasible, np.inf)
                np.minimum(found[name], cost.min(axis=2), out=found[name])
        return found

    def _own_blocks(self, node: NodeScore, count: int) -> Iterator[slice]:
        """Own tiles of an Einsum in blocks, so that `count` scores per own tile stay bounded."""
        width = max(1, _BLOCK // max(count, 1))
        for start in range(0, node.table.unknowns, width):
            if start:
                self.group.checkpoint()
            yield slice(start, min(start + width, node.table.unknowns))

    def settle(self, skeleton: int, which: Indices, control: Control) -> None:
        """Offer the goal the best joint choices for one skeleton and the combinations `which`."""
        rows = [np.flatnonzero(node.skeletons == skeleton) for node in self.nodes]
        width = sum(len(r) * node.table.unknowns for r, node in zip(rows, self.nodes, strict=True))
        step = max(1, _JOINT // max(width, 1))
        for start in range(0, len(which), step):
            block = which[start : start + step]
            shared = shared_tiles(self.group, self.plan, block)
            placed = {name: self.placed.costs(name, shared)[skeleton] for name in self.columns}
            if self.additive:
                self._settle_separately(block, shared, rows, placed)
            else:
                self._settle_jointly(block, shared, rows, placed, control)

    def quantities(self, columns: Columns) -> Floats:
        """The quantities that the goal compares, in its order, as a last axis."""
        return np.stack([self.group.space.quantity(key, columns) for key in self.goal.keys], axis=-1)

    def _settle_jointly(
        self,
        which: Indices,
        shared: SharedTiles,
        rows: list[Indices],
        placed: Columns,
        control: Control,
    ) -> None:
        """Combinations in the order of their lower bounds, until no bound can improve the goal."""
        options = [self._options(node, r, shared) for node, r in zip(self.nodes, rows, strict=True)]
        left = np.arange(len(which))
        while len(left):
            floor = self._floor(placed, options, left)
            possible = self.goal.keep(floor)
            left, floor = left[possible], floor[possible]
            if not len(left):
                return
            first = int(np.lexsort(floor.T[::-1])[0])
            self._join(which, shared, rows, placed, options, int(left[first]))
            control.checkpoint()
            left = np.delete(left, first)

    def _floor(self, placed: Columns, options: list[Columns], left: Indices) -> Floats:
        """`[t, key]`: lower bounds; only options that could still be part of an improvement count."""
        columns = self.columns
        parts = [{name: option[name][left] for name in columns} for option in options]
        least = [{name: part[name].min(axis=1) for name in columns} for part in parts]
        for position, part in enumerate(parts):
            rest = {
                name: placed[name][left] + sum(other[name] for i, other in enumerate(least) if i != position)
                for name in columns
            }
            values = self.quantities({name: part[name] + rest[name][:, None] for name in columns})
            alive = self.goal.keep(values.reshape(-1, values.shape[-1])).reshape(values.shape[:-1])
            least[position] = {name: np.where(alive, part[name], np.inf).min(axis=1) for name in columns}
        return self.quantities(
            {name: placed[name][left] + sum(each[name] for each in least) for name in columns}
        )

    def _options(self, node: NodeScore, rows: Indices, shared: SharedTiles) -> Columns:
        """`[t, option]` per metric: all rows, own tiles and unit uses of an Einsum, infinite if illegal."""
        table, index = self._joint_table(node, shared)
        uses = next(iter(table.values())).shape[0]
        if len(rows) * node.table.unknowns * uses > _LARGEST:
            raise UnsupportedProblem(
                f"{node.einsum.name} has {node.table.unknowns:,} combinations of own tiles, too many for "
                "mmee to weigh latency against other quantities; tile_sizes: divisors has fewer"
            )
        repeat = node.repetitions(shared)
        feasible = node.feasible(rows, shared)
        found: Columns = {}
        for name in self.columns:
            traffic = np.where(feasible, node.traffic(name, rows, shared), np.inf)
            inner = table[name][:, index] * repeat[None, :, None]
            full = inner[:, None] + traffic[None]
            found[name] = full.transpose(2, 0, 1, 3).reshape(shared.size, -1)
        return found

    def _join(
        self,
        which: Indices,
        shared: SharedTiles,
        rows: list[Indices],
        placed: Columns,
        options: list[Columns],
        t: int,
    ) -> None:
        """All joint choices for one combination of shared tiles that could improve the goal."""
        tables = [np.stack([option[name][t] for name in self.columns], axis=-1) for option in options]
        base = np.array([placed[name][t] for name in self.columns])
        least = [table.min(axis=0) for table in tables]
        total = base[None]
        trails: list[Indices] = []
        for position, table in enumerate(tables):
            others = base + sum(each for i, each in enumerate(least) if i != position)
            alive = np.flatnonzero(self.goal.keep(self.quantities(self._named(table + others))))
            alive = alive[_undominated(table[alive])]
            joint = total[:, None] + table[alive][None]
            rest = sum((each for each in least[position + 1 :]), np.zeros(len(base)))
            before, chosen = np.nonzero(
                self.goal.keep(self.quantities(self._named(joint.reshape(-1, len(base)) + rest))).reshape(
                    joint.shape[:2]
                )
            )
            total = joint[before, chosen]
            trails = [*(trail[before] for trail in trails), alive[chosen]]
        values = self.quantities(self._named(total))
        self.goal.offer(
            values,
            _Payload(len(values), lambda row: self._joined(which, shared, rows, t, [x[row] for x in trails])),
        )

    def _named(self, matrix: Floats) -> Columns:
        return {name: matrix[..., i] for i, name in enumerate(self.columns)}

    @property
    def additive(self) -> bool:
        """Whether the best options of the Einsums are also the best jointly."""
        return (
            isinstance(self.goal, Lexicographic) and "latency" not in self.goal.keys and not self.goal.slack
        )

    def _settle_separately(
        self, which: Indices, shared: SharedTiles, rows: list[Indices], placed: Columns
    ) -> None:
        """Additive objectives: the lexicographically best option of every Einsum, on its own."""
        picks = [self._best_options(node, r, shared) for node, r in zip(self.nodes, rows, strict=True)]
        columns = {name: placed[name] + sum(pick.columns[name] for pick in picks) for name in self.columns}
        self.goal.offer(
            self.quantities(columns), _Payload(len(which), lambda t: self._chosen(which, shared, picks, t))
        )

    def _best_options(self, node: NodeScore, rows: Indices, shared: SharedTiles) -> Picks:
        """Per `t` the best row and own tiles; ties of the leading key decide by the others in turn."""
        blocks = self._own_blocks(node, len(rows) * shared.size)
        best = self._best_of_block(node, rows, shared, next(blocks))
        for own in blocks:
            best = _better_picks(best, self._best_of_block(node, rows, shared, own), self.goal.keys)
        return best

    def _best_of_block(self, node: NodeScore, rows: Indices, shared: SharedTiles, own: slice) -> Picks:
        """The best among some own tiles; infinite where none is feasible.

        Of the additive quantities only energy depends on how the unit is used, so its least value per
        tile shape is all that the uses of the units contribute.
        """
        row, t, u = np.nonzero(node.feasible(rows, shared, own))
        index, repeat = node.table.index(shared), node.repetitions(shared)
        totals: Columns = {}
        for key in self.goal.keys:
            value = node.traffic(key, rows, shared, own)[row, t, u]
            fixed = node.table.fixed(key)
            if fixed is None:
                cells = index[t] * node.table.unknowns + u + own.start
                value += self.lazy[node.node.node].values(key, cells) * repeat[t]
            else:
                value += fixed * repeat[t]
            least = np.full(shared.size, np.inf)
            np.minimum.at(least, t, value)
            tied = value == least[t]
            row, t, u = row[tied], t[tied], u[tied]
            totals[key] = least
        chosen, own_tiles = np.zeros(shared.size, dtype=np.intp), np.zeros(shared.size, dtype=np.intp)
        found, first = np.unique(t, return_index=True)
        chosen[found], own_tiles[found] = rows[row[first]], u[first] + own.start
        return Picks(chosen, own_tiles, totals)

    def _chosen(self, which: Indices, shared: SharedTiles, picks: list[Picks], t: int) -> Choice:
        units = []
        for node, pick in zip(self.nodes, picks, strict=True):
            cell = (int(node.table.index(shared)[t]), int(pick.own[t]))
            flat = np.array([cell[0] * node.table.unknowns + cell[1]])
            units.append(
                self._unit(node, cell, {"energy": float(self.lazy[node.node.node].values("energy", flat)[0])})
            )
        rows, own = [int(pick.rows[t]) for pick in picks], [int(pick.own[t]) for pick in picks]
        return Choice(self.group, self.plan, int(which[t]), tuple(rows), tuple(own), tuple(units))

    def _joined(
        self, which: Indices, shared: SharedTiles, rows: list[Indices], t: int, trail: list[int]
    ) -> Choice:
        """The point of the space behind one joint choice."""
        picked, own_tiles, units = [], [], []
        for node, own, option in zip(self.nodes, rows, trail, strict=True):
            table, index = self._joint_table(node, shared)
            use, rest = divmod(int(option), node.table.unknowns * len(own))
            picked_row, column = divmod(rest, node.table.unknowns)
            cell = (int(node.table.index(shared)[t]), column)
            picked.append(int(own[picked_row]))
            own_tiles.append(column)
            units.append(
                self._unit(node, cell, {n: float(v[use, index[t], column]) for n, v in table.items()})
            )
        return Choice(self.group, self.plan, int(which[t]), tuple(picked), tuple(own_tiles), tuple(units))

    def _unit(self, node: NodeScore, cell: tuple[int, int], metrics: dict[str, float]) -> UnitMapping:
        """The use of a unit behind an entry of the inner table."""
        cells = Cells(np.array([cell[0]]), np.array([cell[1]]))
        for family in self.group.families[node.node.node]:
            found = node.table.members(family, tuple(metrics), cells)
            same = np.ones(len(family), dtype=bool)
            for name, wanted in metrics.items():
                same &= np.broadcast_to(found[name].ravel(), len(family)) == wanted
            if same.any():
                spatial = family.spatial(int(same.argmax()))
                return UnitMapping(
                    family.unit.name, family.dataflow, family.transposed, spatial, family.order
                )
        raise AssertionError(f"no use of a unit of {node.einsum.name} has the metrics of the table")


@dataclass(frozen=True)
class Picks:
    """Per `t` an Einsum's chosen row and own tiles, and its quantities."""

    rows: Indices
    own: Indices
    columns: Columns


def _better_picks(first: Picks, second: Picks, keys: Sequence[str]) -> Picks:
    """Per `t` the lexicographically better of two choices."""
    less, equal = np.zeros(len(first.rows), dtype=bool), np.ones(len(first.rows), dtype=bool)
    for key in keys:
        less |= equal & (second.columns[key] < first.columns[key])
        equal &= second.columns[key] == first.columns[key]
    return Picks(
        np.where(less, second.rows, first.rows),
        np.where(less, second.own, first.own),
        {key: np.where(less, second.columns[key], first.columns[key]) for key in keys},
    )


class _Payload(Sequence[Choice]):
    """Choices made only when somebody asks for one."""

    def __init__(self, size: int, make: Callable[[int], Choice]) -> None:
        self._size, self._make = size, make

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, row: int) -> Choice:  # type: ignore[override]
        return self._make(row)


def _per_skeleton(least: Floats, skeletons: Indices, count: int) -> Floats:
    """`[skeleton, t]`: the least over the rows of each skeleton; infinite without rows."""
    found = np.full((count, least.shape[1]), np.inf)
    np.minimum.at(found, skeletons, least)
    return found


def _undominated(points: Floats) -> Indices:
    """Indices of the points that no other is at least as good as in every column; of equals the first."""
    order = np.lexsort(points.T[::-1])
    kept = []
    while len(order):
        best = order[0]
        kept.append(best)
        order = order[~(points[order] >= points[best]).all(axis=1)]
    return np.array(kept, dtype=np.intp)
