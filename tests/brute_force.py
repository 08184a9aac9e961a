"""Brute force for chains of one to three Einsums: the least value by trying every mapping there is.

The search knows loop orders, levels and tile sizes and nothing cleverer. A group is cut out of the
chain in every way; the loops its members share are tried in every order with every tile; below them
each Einsum tries every order of its own loops, every level for each of its tensors (how many loops of
its nest are outside the buffer), every tile size and every use of every compute unit. Given the shared
loops and their tiles the members only meet in the capacity and in the sums of the costs, so each
member's candidates are listed once and combined; of candidates that are worse in everything only the
better one is carried on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
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
    unit_mappings,
)

from exactile.formulation.einsum import Einsum
from exactile.formulation.problem import Problem

QUANTITIES = ("dram_traffic", "energy", "operations", "latency")


def front(rows: Array) -> Array:
    """The rows that no other row beats or equals in every column."""
    if len(rows) < 2:
        return rows
    scale = np.maximum(rows.max(axis=0), 1)
    rows = rows[np.argsort((rows / scale).sum(axis=1), kind="stable")]
    kept = []
    while len(rows):
        best = rows[0]
        kept.append(best)
        rows = rows[(rows < best).any(axis=1)]
    return np.stack(kept)


def tile_sizes(problem: Problem, rank: str, every_tile: bool) -> list[int]:
    """Candidates for a tile of `rank`: divisors, or the smallest tile of each trip count (or every size)."""
    extent = problem.cascade.ranks[rank]
    pinned = problem.mapspace.tiles.get(rank)
    if pinned is not None:
        return [pinned]
    if problem.mapspace.tile_sizes == "divisors":
        return [tile for tile in range(1, extent + 1) if extent % tile == 0]
    if every_tile:
        return list(range(1, extent + 1))
    smallest = {-(-extent // tile): tile for tile in range(extent, 0, -1)}
    return sorted(smallest.values())


@dataclass(frozen=True)
class Shared:
    """A shared buffer of a group: members `users` (positions), the loops outside, what lies in it."""

    tensor: str
    users: tuple[int, ...]
    depth: int
    bits: int
    holds: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """A group with its shared loops in order; link `k` joins members `k` and `k+1`."""

    members: tuple[Einsum, ...]
    loops: tuple[str, ...]
    links: tuple[int, ...]
    buffers: tuple[Shared, ...]

    def depth(self, one: int, two: int) -> int:
        """How many loops the two members share: the narrowest link between them."""
        return min(self.links[min(one, two) : max(one, two)])

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """How many shared loops stand around each member."""
        return tuple(
            max((self.depth(k, f) for f in range(len(self.members)) if f != k), default=0)
            for k in range(len(self.members))
        )

    def around(self, member: int) -> tuple[str, ...]:
        return self.loops[: self.depths[member]]

    def holder(self, tensor: str) -> Shared | None:
        return next((b for b in self.buffers if tensor in b.holds), None)

    def live(self, buffer: Shared, member: int) -> bool:
        """Whether a shared buffer takes space while a member runs."""
        if member in buffer.users:
            return True
        if any(buffer.depth < self.depth(user, member) for user in buffer.users):
            return True
        between = min(buffer.users) < member < max(buffer.users)
        return between and all(buffer.depth <= self.depth(user, member) for user in buffer.users)


def plans(problem: Problem, members: tuple[Einsum, ...]) -> Iterator[Plan]:
    """All legal ways to fuse consecutive members: loops, their order, and overwriting in place or not."""
    ranks = tuple(dict.fromkeys(r for e in members for r in e.ranks if problem.cascade.ranks[r] > 1))
    choices = [(False, True) if e.in_place else (False,) for e in members[1:]]
    for length in range(len(ranks) + 1 if len(members) > 1 else 1):
        for loops in itertools.permutations(ranks, length):
            for links in itertools.product(range(length + 1), repeat=len(members) - 1):
                if max(links, default=0) != length:
                    continue
                for in_place in itertools.product(*choices):
                    buffers = shared_buffers(problem, members, links, in_place)
                    if buffers is not None:
                        plan = Plan(members, loops, links, buffers)
                        if legal(problem, plan):
                            yield plan


def shared_buffers(
    problem: Problem, members: Sequence[Einsum], links: Sequence[int], in_place: Sequence[bool]
) -> tuple[Shared, ...] | None:
    """One buffer per fused tensor; one written in place extends the buffer it overwrites."""
    found: list[Shared] = []
    for k, link in enumerate(links):
        name, bits = members[k].name, problem.cascade.tensors[members[k].name].bits
        if k and in_place[k - 1]:
            last = found[-1]
            if last.depth != link:
                return None
            found[-1] = Shared(
                last.tensor, (*last.users, k + 1), link, max(bits, last.bits), (*last.holds, name)
            )
        else:
            found.append(Shared(name, (k, k + 1), link, bits, (name,)))
    if links and in_place[-1]:
        last, name = found[-1], members[-1].name
        bits = max(last.bits, problem.cascade.tensors[name].bits)
        found[-1] = Shared(last.tensor, last.users, last.depth, bits, (*last.holds, name))
    return tuple(found)


def leaves(problem: Problem, members: Sequence[Einsum], member: int) -> bool:
    """Whether the output of a member is needed outside the group."""
    return member == len(members) - 1 or problem.cascade.tensors[members[member].name].role == "output"


def legal(problem: Problem, plan: Plan) -> bool:
    for k, einsum in enumerate(plan.members):
        around = set(plan.around(k))
        foreign = around - set(einsum.ranks)
        if foreign and (leaves(problem, plan.members, k) or not problem.mapspace.recomputation):
            return False
        holder = plan.holder(einsum.name)
        if foreign and (holder is None or not foreign <= set(plan.loops[: holder.depth])):
            return False
    for k, link in enumerate(plan.links):
        if set(plan.loops[:link]) & plan.members[k].reduction:
            return False
        if not problem.mapspace.fused_outputs and leaves(problem, plan.members, k):
            return False
    for position, rank in enumerate(plan.loops):
        below = [e for k, e in enumerate(plan.members) if plan.depths[k] > position]
        if not any(rank in e.ranks for e in below):
            return False
    return all(barrier_kept(problem, plan, k) for k in range(len(plan.links)))


def barrier_kept(problem: Problem, plan: Plan, link: int) -> bool:
    """A statistic over a shared loop needs online corrections in the same group."""
    names = {e.name for e in plan.members}
    for barrier in problem.cascade.barriers:
        if barrier.tensor == plan.members[link].name and barrier.rank in plan.loops[: plan.links[link]]:
            online = barrier.mode == "online" and set(barrier.corrects) <= names
            if not online or leaves(problem, plan.members, link):
                return False
    return True


class BruteForce:
    """The search of one problem; `best()` is the answer."""

    def __init__(self, problem: Problem, every_tile: bool = False) -> None:
        self.problem = problem
        self.ruler = Ruler(problem)
        self.capacity = self.ruler.buffer.capacity
        self.extents: Mapping[str, int] = problem.cascade.ranks
        self.sizes = {r: tile_sizes(problem, r, every_tile) for r in self.extents}
        self.split_sizes = {r: [t for t in self.sizes[r] if t < self.extents[r]] for r in self.extents}
        objective = problem.objective
        asked = set(objective.keys) | set(objective.subject_to)
        if "edp" in asked:
            asked |= {"energy", "latency"}
        self.needed = [q for q in QUANTITIES if q in asked]
        timed = "latency" in asked
        fixed = [("dram_traffic", DRAM_BITS), ("energy", ENERGY), ("operations", OPERATIONS)]
        self.kept = [column for name, column in fixed if name in asked]
        self.kept += range(3, self.ruler.columns) if timed else []
        self._inner: dict[str, Array] = {}
        self._members: dict[object, list[Array]] = {}
        self._fusions: dict[tuple[str, ...], tuple[Array, Array]] = {}

    def best(self) -> tuple[Fraction, ...] | None:
        """The least values of the objective's keys, in order, or `None` if nothing fits."""
        return self.least(self.partitions())

    def best_without_recomputation(self) -> tuple[Fraction, ...] | None:
        """The same where no Einsum is executed again."""
        return self.least(self.partitions(), recomputation=False)

    def best_unfused(self) -> tuple[Fraction, ...] | None:
        """The same with a group for every Einsum."""
        return self.least([tuple((einsum,) for einsum in self.problem.cascade.einsums)])

    def least(
        self, partitions: Iterable[tuple[tuple[Einsum, ...], ...]], recomputation: bool = True
    ) -> tuple[Fraction, ...] | None:
        rows = [row for cut in partitions for row in self.partition_values(cut, recomputation)]
        ranked = [self.values(row) for row in rows]
        objective = self.problem.objective
        allowed = [v for v in ranked if all(v[q] <= bound for q, bound in objective.subject_to.items())]
        return min((tuple(v[q] for q in objective.keys) for v in allowed), default=None)

    def values(self, row: Sequence[int]) -> dict[str, Fraction]:
        ruler = self.ruler
        scales = {
            "dram_traffic": 8,
            "energy": ruler.energy_scale,
            "operations": ruler.count_scale,
            "latency": ruler.cycle_scale,
        }
        found = {q: Fraction(int(v), scales[q]) for q, v in zip(self.needed, row, strict=True)}
        if "energy" in found and "latency" in found:
            found["edp"] = found["energy"] * found["latency"]
        return found

    def partitions(self) -> Iterator[tuple[tuple[Einsum, ...], ...]]:
        """All cuts of the chain into groups that the problem allows."""
        einsums = self.problem.cascade.einsums
        fusion = self.problem.mapspace.fusion
        for cuts in itertools.product((True, False), repeat=len(einsums) - 1):
            edges = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), len(einsums)]
            groups = tuple(einsums[a:b] for a, b in itertools.pairwise(edges))
            names = {tuple(e.name for e in group) for group in groups}
            if fusion == "free" or (fusion == "none" and all(cuts)) or names == set(fusion):
                yield groups

    def partition_values(self, groups: Sequence[tuple[Einsum, ...]], recomputation: bool) -> Array:
        total = np.zeros((1, len(self.needed)), dtype=np.int64)
        for group in groups:
            values = self.group_values(group, recomputation)
            total = (total[:, None, :] + values[None, :, :]).reshape(-1, len(self.needed))
        return front(total)

    def group_values(self, members: tuple[Einsum, ...], recomputation: bool) -> Array:
        """The best quantities [any, needed] of a fused group."""
        key = tuple(e.name for e in members)
        if key not in self._fusions:
            found: dict[bool, list[Array]] = {False: [], True: []}
            for plan in plans(self.problem, members):
                again = any(set(plan.around(k)) - set(e.ranks) for k, e in enumerate(members))
                found[again] += self.plan_values(plan)
            empty = np.zeros((0, len(self.needed)), dtype=np.int64)
            once = front(np.concatenate([empty, *found[False]]))
            self._fusions[key] = once, front(np.concatenate([once, *found[True]]))
        return self._fusions[key][recomputation]

    def plan_values(self, plan: Plan) -> Iterator[Array]:
        """Quantities for every tiling of the shared loops."""
        grids = [self.split_sizes[r] for r in plan.loops]
        if not all(grids):
            return
        listed = [self.member_rows(plan, k) for k in range(len(plan.members))]
        for index in np.ndindex(*map(len, grids)):
            tiles = {r: grids[k][i] for k, (r, i) in enumerate(zip(plan.loops, index, strict=True))}
            rows = self.shared_row(plan, tiles)
            for k, member in enumerate(listed):
                depth = plan.depths[k]
                place = np.ravel_multi_index(index[:depth], [len(g) for g in grids[:depth]]) if depth else 0
                rows = (rows[:, None, :] + member[int(place)][None, :, :]).reshape(-1, rows.shape[1])
                rows = self.fitting(rows, len(plan.members))
            if len(rows):
                yield front(self.quantities(rows[:, len(plan.members) :]))

    def fitting(self, rows: Array, members: int) -> Array:
        if self.capacity is None:
            return rows
        return rows[(rows[:, :members] <= self.capacity).all(axis=1)]

    def quantities(self, costs: Array) -> Array:
        """[any, needed] from the kept columns."""
        full = np.zeros((len(costs), self.ruler.columns), dtype=np.int64)
        full[:, self.kept] = costs
        columns = {"dram_traffic": DRAM_BITS, "energy": ENERGY, "operations": OPERATIONS}
        found = [self.ruler.latency(full) if q == "latency" else full[:, columns[q]] for q in self.needed]
        return np.stack(found, axis=1)

    def shared_row(self, plan: Plan, tiles: Mapping[str, int]) -> Array:
        """One row: what the shared buffers hold while each member runs, and cost beyond their members."""
        ruler, members = self.ruler, len(plan.members)
        tiling = {r: np.asarray([t]) for r, t in tiles.items()}
        trips = {r: ceil_div(self.extents[r], t) for r, t in tiling.items()}
        row = np.zeros(members + ruler.columns, dtype=np.int64)
        for buffer in plan.buffers:
            outside = plan.loops[: buffer.depth]
            drained = [
                e.name
                for k, e in enumerate(plan.members)
                if e.name in buffer.holds and leaves(self.problem, plan.members, k)
            ]
            bits = footprint(ruler, buffer.tensor, buffer.bits, outside, tiling, trips, bool(drained))
            for k in range(members):
                row[k] += int(bits.sum()) if plan.live(buffer, k) else 0
            for name in drained:
                size = self.problem.cascade.tensors[name].size
                row[members:] += ruler.weights(name) @ np.asarray([0, size, size, 0])
            row[members:] += self.corrections(plan, buffer, trips)
        return row[[*range(members), *(members + c for c in self.kept)]][None, :]

    def corrections(self, plan: Plan, buffer: Shared, trips: Mapping[str, Array]) -> Array:
        total = np.zeros(self.ruler.columns, dtype=np.int64)
        for barrier in self.problem.cascade.barriers:
            if barrier.tensor not in buffer.holds or barrier.rank not in plan.loops[: buffer.depth]:
                continue
            for einsum in plan.members:
                if einsum.name in barrier.corrects and barrier.tensor in {a.tensor for a in einsum.inputs}:
                    size = self.problem.cascade.tensors[einsum.name].size
                    total += self.ruler.correction(int(trips[barrier.rank][0]) * size)
        return total

    # --- the candidates of one member -----------------------------------------------------------

    def member_rows(self, plan: Plan, member: int) -> list[Array]:
        """Per tiling of the loops around a member: rows of (held while each member runs, kept columns)."""
        einsum, around = plan.members[member], plan.around(member)
        meets = tuple(None if f == member else plan.depth(member, f) for f in range(len(plan.members)))
        inside = {name for b in plan.buffers for name in b.holds}
        private = tuple(
            name
            for name in dict.fromkeys((*(a.tensor for a in einsum.inputs), einsum.name))
            if name not in inside
        )
        key = (einsum.name, around, meets, private)
        if key not in self._members:
            self._members[key] = self.list_rows(einsum, around, meets, private)
        return self._members[key]

    def list_rows(
        self, einsum: Einsum, around: tuple[str, ...], meets: Sequence[int | None], private: Sequence[str]
    ) -> list[Array]:
        own = tuple(r for r in einsum.ranks if r not in around)
        grids = [self.split_sizes[r] for r in around] + [self.sizes[r] for r in own]
        mesh = np.meshgrid(*(np.asarray(g, dtype=np.int64) for g in grids), indexing="ij")
        tiles = {r: m.ravel() for r, m in zip((*around, *own), mesh, strict=True)}
        trips = {r: ceil_div(self.extents[r], t) for r, t in tiles.items()}
        again = np.ones(mesh[0].size if mesh else 1, dtype=np.int64)
        for rank in around:
            again = again if rank in einsum.ranks else again * trips[rank]
        inner = self.inner_rows(einsum)[:, :, self.tile_index(einsum, tiles)] * again
        outer = self.outer_rows(einsum, around, own, meets, private, tiles, trips)
        shape = (-1, len(meets) + len(self.kept))
        places = 1
        for rank in around:
            places *= len(self.split_sizes[rank])
        listed = []
        for chosen in np.split(np.arange(len(again)), places):
            rows = outer[:, :, chosen].transpose(0, 2, 1)  # [orders and levels, own tilings, columns]
            options = inner[:, :, chosen].transpose(0, 2, 1)
            total = np.repeat(rows[None], len(options), axis=0)
            total[:, :, :, len(meets) :] += options[:, None]
            listed.append(front(self.fitting(total.reshape(shape), len(meets))))
        return listed

    def tile_index(self, einsum: Einsum, tiles: Mapping[str, Array]) -> Array:
        """Position of each tiling in the Einsum's table of inner costs."""
        place = np.zeros(1, dtype=np.int64)
        for rank in einsum.ranks:
            place = place * len(self.sizes[rank]) + np.searchsorted(self.sizes[rank], tiles[rank])
        return place

    def inner_rows(self, einsum: Einsum) -> Array:
        """[options, kept columns, tilings]: the uses of the units that are worth having, per tile shape."""
        if einsum.name not in self._inner:
            mesh = np.meshgrid(*(np.asarray(self.sizes[r]) for r in einsum.ranks), indexing="ij")
            tiles = {r: m.ravel() for r, m in zip(einsum.ranks, mesh, strict=True)}
            trips = {r: ceil_div(self.extents[r], t) for r, t in tiles.items()}
            costs = [
                inner_costs(self.ruler, einsum, use, tiles, trips)
                for use in unit_mappings(self.ruler, einsum)
            ]
            table = np.stack(costs)[:, self.kept, :]
            fronts = [front(table[:, :, t]) for t in range(table.shape[2])]
            most = max(map(len, fronts))
            padded = [np.concatenate([f, np.repeat(f[-1:], most - len(f), axis=0)]) for f in fronts]
            self._inner[einsum.name] = np.stack(padded, axis=2)
        return self._inner[einsum.name]

    def outer_rows(
        self,
        einsum: Einsum,
        around: tuple[str, ...],
        own: tuple[str, ...],
        meets: Sequence[int | None],
        private: Sequence[str],
        tiles: Mapping[str, Array],
        trips: Mapping[str, Array],
    ) -> Array:
        """[orders and levels, held while each member runs + kept columns, tilings]."""
        moved: dict[tuple[str, frozenset[str], int | None], Array] = {}
        tilings = len(next(iter(tiles.values()))) if tiles else 1
        seen, found = set(), []
        for order in itertools.permutations(own):
            nest = (*around, *order)
            prefixes = [frozenset(nest[:d]) for d in range(len(nest) + 1)]
            for depths in itertools.product(range(len(nest) + 1), repeat=len(private)):
                mark = tuple((prefixes[d], d if d < len(around) else None) for d in depths)
                if mark in seen:
                    continue
                seen.add(mark)
                total = np.zeros((len(meets) + len(self.kept), tilings), dtype=np.int64)
                for name, (place, depth) in zip(private, mark, strict=True):
                    if (name, place, depth) not in moved:
                        bits, columns = private_costs(self.ruler, einsum, name, sorted(place), tiles, trips)
                        held = [f is None or (depth is not None and depth < f) for f in meets]
                        bits = np.asarray(held)[:, None] * bits
                        moved[name, place, depth] = np.concatenate([bits, columns[self.kept]])
                    total += moved[name, place, depth]
                found.append(total)
        return np.stack(found)
