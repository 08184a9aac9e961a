"""Brute force for any DAG of Einsums: the least value over all partitions, orders, levels and tilings.

A group of the cascade is fused in all ways of `brute_force_plans`, its shared loops get all tiles; then
every member tries all orders of its own loops, all levels for the tensors it moves by itself, all tiles
and all uses of the units. Members meet only in the space and in the sums of the costs. What cannot become
better than the best known, even if every member had its cheapest way at once, is not looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np
from brute_force import front, tile_sizes
from brute_force_cost import (
    DRAM_BITS,
    ENERGY,
    OPERATIONS,
    Array,
    Ruler,
    ceil_div,
    footprint,
    inner_costs,
    private_costs,
    product,
    unit_mappings,
)
from brute_force_plans import Box, Plan, leaves, plans, set_partitions
from numpy.typing import NDArray

from exactile.formulation.einsum import Einsum
from exactile.formulation.problem import Problem

Members = tuple[Einsum, ...]
Flags = tuple[bool, bool]
"""What a plan does: execute an Einsum again, share an input."""
MANY = 200


class BruteForceDags:
    """The search of one problem that minimises DRAM traffic, energy, operations or latency alone."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.ruler = ruler = Ruler(problem)
        self.capacity = ruler.buffer.capacity
        self.extents: Mapping[str, int] = problem.cascade.ranks
        self.sizes = {r: tile_sizes(problem, r, False) for r in self.extents}
        self.split_sizes = {r: [t for t in self.sizes[r] if t < self.extents[r]] for r in self.extents}
        self.goal = problem.objective.minimize
        column = {"dram_traffic": DRAM_BITS, "energy": ENERGY, "operations": OPERATIONS}
        timed = self.goal == "latency"
        self.kept = list(range(3, ruler.columns)) if timed else [column[self.goal]]
        scales = {
            "dram_traffic": 8,
            "energy": ruler.energy_scale,
            "operations": ruler.count_scale,
            "latency": ruler.cycle_scale,
        }
        self.scale = scales[self.goal]
        self._inner: dict[str, Array] = {}
        self._members: dict[object, list[Array]] = {}
        self._boxes: dict[object, Array] = {}
        self._least: dict[int, tuple[Array, NDArray[np.bool_]]] = {}
        self._groups: dict[tuple[str, ...], dict[Flags, int]] = {}

    def best(self, fusion: bool = True, recomputation: bool = True, sharing: bool = True) -> Fraction | None:
        """The least value, `None` if nothing fits; each freedom may be taken away."""
        values = []
        for groups in self.partitions():
            if fusion or all(len(group) == 1 for group in groups):
                parts = [self.group_values(group).get((recomputation, sharing)) for group in groups]
                if None not in parts:
                    values.append(sum(part for part in parts if part is not None))
        return Fraction(min(values), self.scale) if values else None

    def partitions(self) -> Iterator[list[Members]]:
        """All partitions into groups that can run one after another."""
        einsums = self.problem.cascade.einsums
        fusion, given = self.problem.mapspace.fusion, self.problem.mapspace.order == "given"
        for parts in set_partitions(range(len(einsums))):
            names = {frozenset(einsums[k].name for k in part) for part in parts}
            allowed = fusion == "free" or names == set(map(frozenset, fusion))
            if fusion == "none":
                allowed = len(parts) == len(einsums)
            interval = all(max(part) - min(part) == len(part) - 1 for part in parts)
            if allowed and (interval or not given) and self.acyclic(parts):
                yield [tuple(einsums[k] for k in part) for part in parts]

    def acyclic(self, parts: Sequence[Sequence[int]]) -> bool:
        """Whether the groups can be taken away one by one, each when all it reads is there."""
        einsums = self.problem.cascade.einsums
        owner = {einsums[k].name: g for g, part in enumerate(parts) for k in part}
        needs = [
            {owner[a.tensor] for k in part for a in einsums[k].inputs if a.tensor in owner} - {g}
            for g, part in enumerate(parts)
        ]
        done: set[int] = set()
        for _ in parts:
            done |= {g for g, need in enumerate(needs) if need <= done}
        return len(done) == len(parts)

    # --- one group --------------------------------------------------------------------------------------

    def group_values(self, members: Members) -> dict[Flags, int]:
        """The least value of a group with and without recomputation and shared inputs; absent: impossible."""
        key = tuple(e.name for e in members)
        if key not in self._groups:
            best: dict[Flags, int] = {}
            for bound, index, plan in self.candidates(members):
                flags = plan.recomputes, plan.layout.shares_inputs
                if flags in best and bound >= best[flags]:
                    continue
                value = self.least(plan, index, best.get(flags))
                for more in ((False, False), (False, True), (True, False), (True, True)):
                    if value is not None and all(m or not f for m, f in zip(more, flags, strict=True)):
                        best[more] = min(value, best.get(more, value))
            self._groups[key] = best
        return self._groups[key]

    def candidates(self, members: Members) -> list[tuple[int, tuple[int, ...], Plan]]:
        """All plans with all tilings of their shared loops (indices), those with the least bound first."""
        ranks = [r for r in self.extents if self.split_sizes[r] and any(r in e.ranks for e in members)]
        self._boxes.clear()
        found = []
        for plan in plans(self.problem, members, ranks if len(members) > 1 else []):
            grid = [len(self.split_sizes[rank]) for rank in plan.node_ranks]
            index = np.indices(grid).reshape(len(grid), prod(grid))
            held, cost = self.shared_rows(plan, index)
            fits = (
                np.ones(len(cost), dtype=bool) if self.capacity is None else held.max(axis=1) <= self.capacity
            )
            for m in range(len(members)):
                least, possible = self.cheapest(plan, m)
                place = self.place(plan, m, index)
                cost = cost + least[place]
                fits &= possible[place]
            bounds = self.quantity(cost)
            found += [(int(bounds[k]), tuple(index[:, k].tolist()), plan) for k in np.flatnonzero(fits)]
        return sorted(found, key=lambda entry: entry[0])

    def cheapest(self, plan: Plan, member: int) -> tuple[Array, NDArray[np.bool_]]:
        """Per tiling of the loops around a member the least of every kept column, and if there is any."""
        listed = self.member_rows(plan, member)
        key = id(listed)
        if key not in self._least:
            none = np.zeros(len(self.kept), dtype=np.int64)
            least = [rows[:, -len(self.kept) :].min(axis=0) if len(rows) else none for rows in listed]
            self._least[key] = np.stack(least), np.asarray([len(rows) > 0 for rows in listed])
        return self._least[key]

    def place(self, plan: Plan, member: int, index: Array) -> Array:
        """Position of each tiling `index` [loops, any] among the tilings of the loops around a member."""
        place = np.zeros(index.shape[1:], dtype=np.int64)
        for position, rank in enumerate(plan.around[member]):
            place = place * len(self.split_sizes[rank]) + index[plan.nodes[member, position]]
        return place

    def least(self, plan: Plan, index: Sequence[int], limit: int | None) -> int | None:
        """The least value of a plan with these tiles, if it is below the limit and fits."""
        count, kept = len(plan.layout.members), len(self.kept)
        column = np.asarray(index, dtype=np.int64).reshape(-1, 1)
        rows = np.concatenate(self.shared_rows(plan, column), axis=1)
        listed = [self.member_rows(plan, m)[int(self.place(plan, m, column)[0])] for m in range(count)]
        rest = sum(member[:, -kept:].min(axis=0) for member in listed)
        for m, member in enumerate(listed):
            rest = rest - member[:, -kept:].min(axis=0)
            spread = self.held_while(plan, m, member[:, :-kept])
            member = np.concatenate([spread, member[:, -kept:]], axis=1)
            rows = (rows[:, None] + member[None]).reshape(-1, count + kept)
            if self.capacity is not None:
                rows = rows[(rows[:, :count] <= self.capacity).all(axis=1)]
            if limit is not None:
                rows = rows[self.quantity(rows[:, count:] + rest) < limit]
            if len(rows) > MANY:
                rows = front(rows)
        return int(self.quantity(rows[:, count:]).min()) if len(rows) else None

    def held_while(self, plan: Plan, member: int, levels: Array) -> Array:
        """[rows, members]: what a member's own tensors take while each of the others runs.

        `levels[:, d]` are the bits held under `d` of the loops around the member, the last column those
        of buffers inside all of them.
        """
        common = plan.common[member]
        columns = [
            levels.sum(axis=1) if other == member else levels[:, : common[other]].sum(axis=1)
            for other in range(len(common))
        ]
        return np.stack(columns, axis=1)

    def quantity(self, costs: Array) -> Array:
        """[any] from the kept columns [any, kept]."""
        if self.goal != "latency":
            return costs[:, 0]
        full = np.zeros((len(costs), self.ruler.columns), dtype=np.int64)
        full[:, self.kept] = costs
        return self.ruler.latency(full)

    def shared_rows(self, plan: Plan, index: Array) -> tuple[Array, Array]:
        """Bits that the shared buffers hold while each member runs, and the kept columns of their cost.

        One row per tiling `index` [loops, tilings].
        """
        held = np.zeros((index.shape[1], len(plan.layout.members)), dtype=np.int64)
        cost = np.zeros((index.shape[1], len(self.kept)), dtype=np.int64)
        for box, path, lives in zip(plan.layout.boxes, plan.paths, plan.lives, strict=True):
            key = box, path
            if key not in self._boxes:
                grids = itertools.product(*(self.split_sizes[rank] for rank in path))
                tilings = (dict(zip(path, tiles, strict=True)) for tiles in grids)
                self._boxes[key] = np.stack([self.box_row(plan.layout.members, box, t) for t in tilings])
            place = np.zeros(index.shape[1], dtype=np.int64)
            for position, rank in enumerate(path):
                node = plan.nodes[box.users[0], position]
                place = place * len(self.split_sizes[rank]) + index[node]
            rows = self._boxes[key][place]
            held += rows[:, :1] * np.asarray(lives)
            cost += rows[:, 1:]
            if self.problem.cascade.barriers:
                for k, column in enumerate(index.T):
                    nodes = [plan.nodes[box.users[0], position] for position in range(len(path))]
                    tiles = {r: self.split_sizes[r][column[n]] for r, n in zip(path, nodes, strict=True)}
                    cost[k] += self.corrections(plan, box.tensors, tiles, column)[self.kept]
        return held, cost

    def box_row(self, members: Members, box: Box, tiles: Mapping[str, int]) -> Array:
        """Bits of a shared buffer under loops with these tiles, and the kept columns of its traffic."""
        ruler, tensor = self.ruler, box.tensors[0]
        arrays = {r: np.asarray(tile) for r, tile in tiles.items()}
        trips = {r: ceil_div(self.extents[r], tile) for r, tile in tiles.items()}
        written = [e for e in members if e.name in box.tensors]
        drained = [e.name for e in written if leaves(self.problem, members, e)]
        bits = max(self.problem.cascade.tensors[t].bits for t in box.tensors)
        crosses = bool(drained) or not written
        held = int(footprint(ruler, tensor, bits, tuple(tiles), arrays, trips, crosses))
        cost = np.zeros(ruler.columns, dtype=np.int64)
        for name in drained:
            values = self.problem.cascade.tensors[name].size
            cost += ruler.weights(name) @ np.asarray([0, values, values, 0])
        if not written:
            again = product(trips[r] for r in tiles if r not in ruler.ranks[tensor])
            visits = int(again) * self.problem.cascade.tensors[tensor].size
            cost += ruler.weights(tensor) @ np.asarray([visits, 0, 0, visits])
        return np.asarray([held, *cost[self.kept]])

    def corrections(
        self,
        plan: Plan,
        tensors: Sequence[str],
        tiles: Mapping[str, int],
        index: Array,
    ) -> Array:
        """Columns of rescaling what an online statistic changes later, every time it is executed."""
        total = np.zeros(self.ruler.columns, dtype=np.int64)
        for barrier in self.problem.cascade.barriers:
            if barrier.tensor not in tensors or barrier.rank not in tiles:
                continue
            for m, einsum in enumerate(plan.layout.members):
                if einsum.name in barrier.corrects and any(a.tensor == barrier.tensor for a in einsum.inputs):
                    times = -(-self.extents[barrier.rank] // tiles[barrier.rank])
                    for position, rank in enumerate(plan.around[m]):
                        if rank not in einsum.ranks:
                            tile = self.split_sizes[rank][int(index[plan.nodes[m, position]])]
                            times *= -(-self.extents[rank] // tile)
                    total += self.ruler.correction(times * self.problem.cascade.tensors[einsum.name].size)
        return total

    # --- one member -------------------------------------------------------------------------------------

    def member_rows(self, plan: Plan, member: int) -> list[Array]:
        """Per tiling of the loops around a member: rows of (bits held per level, kept columns)."""
        einsum, around = plan.layout.members[member], plan.around[member]
        inside = {t for box in plan.layout.boxes if member in box.users for t in box.tensors}
        used = dict.fromkeys((*(a.tensor for a in einsum.inputs), einsum.name))
        private = tuple(name for name in used if name not in inside)
        key = (einsum.name, around, private)
        if key not in self._members:
            self._members[key] = self.list_rows(einsum, around, private)
        return self._members[key]

    def list_rows(self, einsum: Einsum, around: tuple[str, ...], private: Sequence[str]) -> list[Array]:
        own = tuple(r for r in einsum.ranks if r not in around and self.split_sizes[r])
        fixed = [r for r in einsum.ranks if r not in around and r not in own]
        grids = [self.split_sizes[r] for r in around] + [self.sizes[r] for r in (*own, *fixed)]
        mesh = np.meshgrid(*(np.asarray(g, dtype=np.int64) for g in grids), indexing="ij")
        tiles = {r: m.ravel() for r, m in zip((*around, *own, *fixed), mesh, strict=True)}
        trips = {r: ceil_div(self.extents[r], t) for r, t in tiles.items()}
        count = mesh[0].size if mesh else 1
        again = product(trips[r] for r in around if r not in einsum.ranks) * np.ones(count, dtype=np.int64)
        options = self.inner_options(einsum, tiles, trips, again)
        outer = self.outer_rows(einsum, around, own, private, tiles, trips, count)
        places = 1
        for rank in around:
            places *= len(self.split_sizes[rank])
        levels = len(around) + 1
        listed = []
        for chosen in np.split(np.arange(count), places):
            total = np.repeat(outer[None, :, :, chosen], len(options), axis=0)
            total[:, :, levels:] += options[:, None][..., chosen]
            rows = total.transpose(0, 1, 3, 2).reshape(-1, levels + len(self.kept))
            if self.capacity is not None:
                rows = rows[rows[:, :levels].sum(axis=1) <= self.capacity]
            listed.append(front(np.unique(rows, axis=0)))
        return listed

    def inner_options(
        self, einsum: Einsum, tiles: Mapping[str, Array], trips: Mapping[str, Array], again: Array
    ) -> Array:
        """[uses of units, kept columns, tilings] of all executions."""
        if self.goal == "dram_traffic":
            return np.zeros((1, 1, len(again)), dtype=np.int64)
        uses = unit_mappings(self.ruler, einsum)
        # an Einsum without ranks has one tiling, and no axis for it yet
        costs = (inner_costs(self.ruler, einsum, use, tiles, trips)[self.kept] for use in uses)
        table = [cost.reshape(len(self.kept), -1) * again for cost in costs]
        return np.unique(np.stack(np.broadcast_arrays(*table)), axis=0)

    def outer_rows(
        self,
        einsum: Einsum,
        around: tuple[str, ...],
        own: tuple[str, ...],
        private: Sequence[str],
        tiles: Mapping[str, Array],
        trips: Mapping[str, Array],
        count: int,
    ) -> Array:
        """[orders and levels, bits held per level + kept columns, tilings]."""
        moved: dict[tuple[str, frozenset[str], int], Array] = {}
        seen, found = set(), []
        for order in itertools.permutations(own):
            nest = (*around, *order)
            for depths in itertools.product(range(len(nest) + 1), repeat=len(private)):
                mark = tuple((frozenset(nest[:d]), min(d, len(around))) for d in depths)
                if mark in seen:
                    continue
                seen.add(mark)
                total = np.zeros((len(around) + 1 + len(self.kept), count), dtype=np.int64)
                for name, (outside, level) in zip(private, mark, strict=True):
                    key = name, outside, level
                    if key not in moved:
                        bits, columns = private_costs(self.ruler, einsum, name, sorted(outside), tiles, trips)
                        moved[key] = np.zeros_like(total)
                        moved[key][level] = bits
                        moved[key][len(around) + 1 :] = columns[self.kept]
                    total = total + moved[key]
                found.append(total)
        return np.stack(found)
