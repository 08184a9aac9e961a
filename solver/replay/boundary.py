"""One pass of a group through its loop tree at one boundary, loop by loop.

At boundary 0 the group is the fused group and the pass is the whole problem. At an inner boundary it is
one Einsum, and the pass is one tile of full size. Everything is counted as it happens: what is fetched
when a buffer is taken, what is written back when it is given up, whether an output tile was begun
before, and how much is held at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

from exactile.formulation.mapping import Group, UnitMapping
from exactile.solver.replay.errors import ReplayError
from exactile.solver.replay.intervals import View, cut, elements, length, origin, split, trips
from exactile.solver.replay.machine import Factors, Machine, Tally, blocks, inner_tile, instances
from exactile.solver.replay.tree import (
    Allocation,
    Step,
    build,
    depth_of,
    held_tensors,
    kept_depth,
    shared_depth,
    without_single_trips,
)
from exactile.solver.replay.unit import unit_pass


class Observer(Protocol):
    """Follows the execution at boundary 0 and computes the numbers."""

    def take(self, allocation: Allocation, view: View) -> None: ...
    def give_back(self, allocation: Allocation, view: View) -> None: ...
    def execute(self, einsum: str, view: View) -> None: ...


@dataclass(frozen=True)
class Outer:
    """What a pass inherits from outside.

    `views[p]`: the tile as a part of a full tile of level `p`, for all levels down to its own.
    `spatial[p]`: the factors in use at every outer boundary. `again`: an earlier pass began the output
    tile. `resident`: tensors that stay below for longer than this pass, and whether they ever move.
    """

    views: tuple[View, ...]
    spatial: tuple[Factors, ...] = ()
    again: bool = False
    resident: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Visit:
    """What tells one execution of an inner tile from another; equal visits cost the same."""

    einsum: str
    again: bool
    views: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...] | None


class Pass:
    """One pass of `group` at boundary `level`; `run()` executes it and returns the tally."""

    def __init__(
        self, machine: Machine, group: Group, level: int, outer: Outer, observer: Observer | None = None
    ) -> None:
        self.machine = machine
        self.group = group
        self.level = level
        self.outer = outer
        self.observer = observer
        self.full = {rank: length(intervals) for rank, intervals in outer.views[level].items()}
        self.blocks = {e: blocks(self.full, group.spatial.get(e, {})) for e in group.order}
        self.nests = without_single_trips(group, self.blocks)
        self.tiles = {e: inner_tile(self.blocks[e], self.nests[e]) for e in group.order}
        self.spatial = {e: self._all_factors(e) for e in group.order}
        self.shared = self._shared_depths()
        self.allocations = [*self._own_buffers(), *self._passing_buffers()]
        self.served = {
            (u, t): a for a in self.allocations for t in a.held for u in a.users if a.child == level + 1
        }
        self.views = self._split_views()
        self.tally = Tally()
        self.live = 0
        self.visited: dict[str, set[tuple[int, ...]]] = {}
        self.begun: dict[str, set[tuple[int, ...]]] = {e: set() for e in group.order}
        self.rescaled: dict[str, set[tuple[int, ...]]] = {e: set() for e in group.order}
        self.executions: Counter[str] = Counter()
        self.corrections: Counter[str] = Counter()
        self.visits: Counter[Visit] = Counter()
        self.online = self._online_ranks()
        self.merged = {e: self._has_merged_boundaries(e) for e in group.order}

    # what is known before the first loop

    def _all_factors(self, einsum: str) -> tuple[Factors, ...]:
        """Spatial factors of `einsum` at every boundary, outer and inner."""
        factors = list(self.outer.spatial)
        inner: Group | UnitMapping = self.group
        while isinstance(inner, Group):
            factors.append(inner.spatial.get(einsum, {}))
            inner = inner.inner[einsum]
        return tuple(factors)

    def _shared_depths(self) -> dict[str, int]:
        shared = [(depth_of(b, self.nests), b.users) for b in self.group.buffers if len(b.users) > 1]
        return {e: shared_depth(e, self.group.order, shared) for e in self.group.order}

    def _own_buffers(self) -> list[Allocation]:
        found = []
        for buffer in self.group.buffers:
            held = held_tensors(self.machine.cascade, self.group, buffer)
            for tensor in held:
                if not self.machine.holds(self.level + 1, tensor):
                    name = self.machine.hardware.levels[self.level + 1].name
                    raise ReplayError(f"{tensor} is in a buffer at {name}, which does not hold it")
            depth = depth_of(buffer, self.nests)
            if len(buffer.users) == 1:
                (user,) = buffer.users
                depth = kept_depth(
                    self.machine.ranks(user, buffer.tensor), self.nests[user], depth, self.shared[user]
                )
            parent = self.machine.holder(self.level, buffer.tensor)
            found.append(Allocation(held, buffer.users, depth, parent, self.level + 1))
        return found

    def _passing_buffers(self) -> list[Allocation]:
        """Buffers further in, of tensors that skip the next level and outlive an inner pass."""
        found = []
        for einsum in self.group.order:
            inner = self.group.inner[einsum]
            if not isinstance(inner, Group):
                continue
            nest = self.nests[einsum]
            tile = {rank: self.tiles[einsum][rank] for rank in self.machine.cascade.by_name[einsum].ranks}
            for tensor, child in self.machine.escaping(inner, self.level + 1, tile):
                depth = kept_depth(self.machine.ranks(einsum, tensor), nest, len(nest), self.shared[einsum])
                parent = self.machine.holder(self.level, tensor)
                found.append(Allocation((tensor,), (einsum,), depth, parent, child))
        return found

    def _split_views(self) -> list[View]:
        parts: dict[str, int] = {}
        for einsum in self.group.order:
            for rank, factors in self.group.spatial.get(einsum, {}).items():
                factor = prod(factors.values())
                if parts.setdefault(rank, factor) != factor:
                    raise ReplayError(
                        f"{', '.join(self.group.order)} split {rank} over different numbers of instances"
                    )
        return [
            {rank: split(view[rank], self.full[rank], parts.get(rank, 1)) for rank in view}
            for view in self.outer.views
        ]

    def _online_ranks(self) -> dict[str, list[str]]:
        """For each Einsum the ranks whose loops bring new maxima that rescale its output."""
        found: dict[str, list[str]] = {e: [] for e in self.group.order}
        for barrier in self.machine.cascade.barriers if self.level == 0 else ():
            for corrected in barrier.corrects if barrier.mode == "online" else ():
                holder = self.served.get((corrected, barrier.tensor))
                if holder is None or barrier.tensor not in holder.users:
                    continue
                if all(user.name != corrected for user in self.machine.cascade.consumers[barrier.tensor]):
                    continue  # it uses the buffer for what overwrote the tensor
                outside = {loop.rank for loop in self.nests[corrected][: holder.depth]}
                if barrier.rank in outside:
                    found[corrected].append(barrier.rank)
        return found

    def _has_merged_boundaries(self, einsum: str) -> bool:
        """Whether an inner pass must know where it stands outside its own tile."""
        accesses = self.machine.cascade.by_name[einsum]
        tensors = (einsum, *(access.tensor for access in accesses.inputs))
        return isinstance(self.group.inner[einsum], Group) and any(
            not self.machine.holds(self.level + 1, tensor) for tensor in tensors
        )

    # execution

    def run(self) -> Tally:
        """Execute all loops; inner passes are executed once per distinct kind of visit."""
        self._body(build(self.group.order, self.nests, self.allocations))
        for visit, times in self.visits.items():
            self.tally.add(self._inside(visit), times)
        return self.tally

    def _body(self, steps: Sequence[Step]) -> None:
        for step in steps:
            for allocation in step.take:
                self._take(allocation)
            if step.loop is None:
                self._execute(step.members[0])
            else:
                self._loop(step)
            for allocation in step.give_back:
                self._give_back(allocation)

    def _loop(self, step: Step) -> None:
        assert step.loop is not None
        rank, tile = step.loop.rank, step.loop.tile
        around = [view[rank] for view in self.views]
        for trip in range(trips(self.blocks[step.members[0]][rank], step.loop)):
            for view, block in zip(self.views, around, strict=True):
                view[rank] = cut(block, trip * tile, tile)
            self._body(step.body)
        for view, block in zip(self.views, around, strict=True):
            view[rank] = block

    def _resident(self, allocation: Allocation) -> bool:
        """Fetched outside this pass, and kept beyond it."""
        return allocation.depth == 0 and allocation.parent < self.level

    def _bits(self, allocation: Allocation) -> int:
        """What the buffer takes at its level, per instance."""
        if allocation.child > self.level + 1:
            return 0  # counted by the inner pass
        view, tensors = self.views[self.level], self.machine.cascade.tensors
        size = prod(
            stop - start
            for start, stop in (
                view[r][0] for r in self.machine.ranks(allocation.users[0], allocation.tensor)
            )
        )
        moves = (
            self.outer.resident.get(allocation.tensor, False)
            if self._resident(allocation)
            else allocation.depth > 0
        )
        fused = len(allocation.users) > 1 and allocation.tensor in allocation.users
        crosses = not fused or any(self._leaves(tensor) for tensor in allocation.held)
        twice = self.machine.hardware.levels[allocation.child].double_buffer and moves and crosses
        return size * max(tensors[tensor].bits for tensor in allocation.held) * (2 if twice else 1)

    def _moves(self, allocation: Allocation) -> bool:
        """Whether the buffer is taken more than once."""
        if self._resident(allocation):
            return self.outer.resident.get(allocation.tensor, False)
        return allocation.depth > 0

    def _leaves(self, tensor: str) -> bool:
        """Whether a tensor made here is needed outside the group."""
        users = self.machine.cascade.consumers[tensor]
        outside = not users or any(user.name not in self.group.order for user in users)
        return outside or self.machine.cascade.tensors[tensor].role == "output"

    def _take(self, allocation: Allocation) -> None:
        if self.observer is not None:
            self.observer.take(allocation, self.views[0])
        self.live += self._bits(allocation)
        level = self.level + 1
        self.tally.peak[level] = max(self.tally.peak.get(level, 0), self.live)
        if self._resident(allocation):
            return
        tensor, users = allocation.tensor, allocation.users
        if tensor not in users:
            self._move(allocation, users[0], tensor, down=True)
        elif len(users) == 1:
            tile = origin(self.views[self.level], self.machine.ranks(tensor, tensor))
            seen = self.visited.setdefault(tensor, set())
            if tile in seen or self.outer.again:
                self._move(allocation, tensor, tensor, down=True)
            seen.add(tile)
        else:
            for made in allocation.held:
                self.begun[made] = set()
                self.rescaled[made] = set()

    def _give_back(self, allocation: Allocation) -> None:
        if self.observer is not None:
            self.observer.give_back(allocation, self.views[0])
        self.live -= self._bits(allocation)
        if self._resident(allocation):
            return
        private = len(allocation.users) == 1
        for tensor in allocation.held:
            if tensor in allocation.users and (private or self._leaves(tensor)):
                self._move(allocation, tensor, tensor, down=False)

    def _move(self, allocation: Allocation, einsum: str, tensor: str, down: bool) -> None:
        """The tile in the buffer crosses the boundary, on behalf of `einsum`.

        Where instances hold partial sums that no dimension reduces on the way, the parent adds them up:
        all but the first are read, added to and written; handing them back takes one read.
        """
        machine, parent, child = self.machine, allocation.parent, allocation.child
        amount = elements(self.views[parent], machine.ranks(einsum, tensor))
        amount *= instances(range(parent), self.spatial[einsum])
        crossed = range(parent, child)
        above = amount * machine.copies(einsum, tensor, crossed, self.spatial[einsum])
        below = amount * machine.copies(einsum, tensor, crossed, self.spatial[einsum], below=True)
        if down:
            self.tally.reads[parent, einsum, tensor] += amount if tensor == einsum else above
            self.tally.writes[child, einsum, tensor] += below
        else:
            self.tally.reads[child, einsum, tensor] += below
            self.tally.writes[parent, einsum, tensor] += above
            self.tally.reads[parent, einsum, tensor] += above - amount  # added up there, one by one

    def _execute(self, einsum: str) -> None:
        if self.observer is not None:
            self.observer.execute(einsum, self.views[0])
        ranks, made = self.machine.cascade.by_name[einsum].ranks, self.machine.ranks(einsum, einsum)
        self.executions[einsum] += elements(self.views[0], ranks)
        tile = origin(self.views[self.level], made)
        again = tile in self.begun[einsum] or self.outer.again
        self.begun[einsum].add(tile)
        views = None
        if self.merged[einsum]:
            views = tuple(
                tuple((rank, tuple(stop - start for start, stop in view[rank])) for rank in ranks)
                for view in self.views
            )
        self.visits[Visit(einsum, again, views)] += 1
        for rank in self.online[einsum]:
            key = (*tile, *origin(self.views[0], (rank,)))
            if key not in self.rescaled[einsum]:
                self.rescaled[einsum].add(key)
                self.corrections[einsum] += elements(self.views[0], made)

    # one level further in

    def _inside(self, visit: Visit) -> Tally:
        einsum = visit.einsum
        inner = self.group.inner[einsum]
        tile = {rank: self.tiles[einsum][rank] for rank in self.machine.cascade.by_name[einsum].ranks}
        if isinstance(inner, UnitMapping):
            return self._unit(visit, inner, tile)
        own: View = {rank: ((0, size),) for rank, size in tile.items()}
        outer_views = [own] * (self.level + 1)
        if visit.views is not None:
            outer_views = [
                {rank: tuple((0, size) for size in sizes) for rank, sizes in view} for view in visit.views
            ]
        kept = {
            a.tensor: self._moves(a)
            for a in self.allocations
            if a.users == (einsum,) and a.child > self.level + 1
        }
        spatial = self.spatial[einsum][: self.level + 1]
        outer = Outer((*outer_views, own), spatial, visit.again, kept)
        return Pass(self.machine, inner, self.level + 1, outer).run()

    def _unit(self, visit: Visit, mapping: UnitMapping, tile: Mapping[str, int]) -> Tally:
        """What the unit moves from and to the innermost levels that hold its operands."""
        machine, last = self.machine, self.machine.last
        einsum = machine.cascade.by_name[visit.einsum]
        done = unit_pass(machine.cascade, machine.hardware, einsum, mapping, tile)
        tally = Tally(cycles={mapping.unit: done.cycles})

        def crossing(tensor: str) -> tuple[int, int, int]:
            """The level that serves the unit, elements behind it per element of a tile, copies of each."""
            level = machine.holder(last, tensor)
            spatial = self.spatial[einsum.name]
            own = machine.ranks(einsum.name, tensor)
            spread = prod(f for b in range(level, last) for r in own for f in spatial[b].get(r, {}).values())
            copies = machine.copies(einsum.name, tensor, range(level, last), spatial)
            return level, instances(range(level), spatial) * spread, copies

        for tensor, amount in done.reads.items():
            level, parts, copies = crossing(tensor)
            tally.reads[level, einsum.name, tensor] += amount * parts * copies
        level, parts, copies = crossing(einsum.name)
        fresh = 0 if visit.again else prod(tile[rank] for rank in machine.ranks(einsum.name, einsum.name))
        tally.writes[level, einsum.name, einsum.name] += done.writes * parts * copies
        tally.reads[level, einsum.name, einsum.name] += (done.writes * copies - fresh) * parts
        return tally
