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

from exactile.formulation.mapping import Group, Loop, UnitMapping
from exactile.solver.replay.intervals import Intervals, View, cut, elements, length, origin, split, trips
from exactile.solver.replay.machine import Factors, Machine, Tally, instances
from exactile.solver.replay.plan import Plan
from exactile.solver.replay.tree import Allocation, Step
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
    tile. `resident`: buffers (tensor and level) that are kept for longer than this pass, and whether
    their tiles ever move.
    """

    views: tuple[View, ...]
    spatial: tuple[Factors, ...] = ()
    again: bool = False
    resident: Mapping[tuple[str, int], bool] = field(default_factory=dict)


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
        self.plan = Plan(machine, group, level, self.full, outer.spatial)
        self.views = [dict(view) for view in outer.views]
        self.tally = Tally()
        self.live = 0
        self.visited: dict[tuple[str, int], set[tuple[int, ...]]] = {}
        self.begun: dict[str, set[tuple[int, ...]]] = {e: set() for e in group.order}
        self.rescaled: dict[str, set[tuple[int, ...]]] = {e: set() for e in group.order}
        self.executions: Counter[str] = Counter()
        self.corrections: Counter[str] = Counter()
        self.visits: Counter[Visit] = Counter()
        self._split: set[str] = set()

    def run(self) -> Tally:
        """Execute all loops; inner passes are executed once per distinct kind of visit."""
        self._body((Step(self.group.order, None, self.plan.steps()),))
        for visit, times in self.visits.items():
            self.tally.add(self._inside(visit), times)
        return self.tally

    def _body(self, steps: Sequence[Step]) -> None:
        for step in steps:
            around = self._spread(step.members)
            for allocation in step.take:
                self._take(allocation)
            if step.loop is not None:
                self._loop(step.loop, step)
            elif step.body:
                self._body(step.body)
            else:
                self._execute(step.members[0])
            for allocation in step.give_back:
                self._give_back(allocation)
            self._gather(around)

    def _spread(self, members: Sequence[str]) -> dict[str, list[Intervals]]:
        """Split ranks over instances as soon as all members do so alike; returns what to restore."""
        around = {}
        for rank in self.plan.spread - self._split:
            factor = self.plan.factor(members, rank)
            if factor is not None:
                around[rank] = [view[rank] for view in self.views]
                for view in self.views:
                    view[rank] = split(view[rank], self.full[rank], factor)
        self._split |= set(around)
        return around

    def _gather(self, around: Mapping[str, Sequence[Intervals]]) -> None:
        for rank, whole in around.items():
            for view, intervals in zip(self.views, whole, strict=True):
                view[rank] = intervals
        self._split -= set(around)

    def _loop(self, loop: Loop, step: Step) -> None:
        rank, tile = loop.rank, loop.tile
        around = [view[rank] for view in self.views]
        for trip in range(trips(self.plan.blocks[step.members[0]][rank], loop)):
            for view, block in zip(self.views, around, strict=True):
                view[rank] = cut(block, trip * tile, tile)
            self._body(step.body)
        for view, block in zip(self.views, around, strict=True):
            view[rank] = block

    def _resident(self, allocation: Allocation) -> bool:
        """Fetched outside this pass, and kept beyond it."""
        return allocation.depth == 0 and self.level > 0

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
        moves = self._moves(allocation)
        fused = len(allocation.users) > 1 and allocation.tensor in allocation.users
        crosses = not fused or any(self.plan.leaves(tensor) for tensor in allocation.held)
        twice = self.machine.hardware.levels[allocation.child].double_buffer and moves and crosses
        return size * max(tensors[tensor].bits for tensor in allocation.held) * (2 if twice else 1)

    def _moves(self, allocation: Allocation) -> bool:
        """Whether the buffer is taken more than once."""
        if self._resident(allocation):
            return self.outer.resident[allocation.tensor, allocation.child]
        return allocation.depth > 0

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
            seen = self.visited.setdefault((tensor, allocation.child), set())
            if tile in seen or self.outer.again:
                self._move(allocation, tensor, tensor, down=True)
            seen.add(tile)
        else:
            for made in allocation.held:
                self.begun[made] = set()
                self.rescaled[made] = set()
                for key in [key for key in self.visited if key[0] == made]:
                    del self.visited[key]

    def _give_back(self, allocation: Allocation) -> None:
        if self.observer is not None:
            self.observer.give_back(allocation, self.views[0])
        self.live -= self._bits(allocation)
        if self._resident(allocation):
            return
        private = len(allocation.users) == 1
        for tensor in allocation.held:
            if tensor in allocation.users and (private or self.plan.leaves(tensor)):
                self._move(allocation, tensor, tensor, down=False)

    def _move(self, allocation: Allocation, einsum: str, tensor: str, down: bool) -> None:
        """The tile in the buffer crosses the boundary, on behalf of `einsum`.

        Where instances hold partial sums that no dimension reduces on the way, the parent adds them up:
        all but the first are read, added to and written; handing them back takes one read.
        """
        machine, parent, child = self.machine, allocation.parent, allocation.child
        ranks = machine.ranks(einsum, tensor)
        if parent <= self.level:
            amount = elements(self.views[parent], ranks)
        else:  # between two levels further in, which see full tiles only
            amount = prod(self.plan.inside[einsum][parent][rank] for rank in ranks)
        amount *= instances(range(parent), self.plan.spatial[einsum])
        crossed = range(parent, child)
        above = amount * machine.copies(einsum, tensor, crossed, self.plan.spatial[einsum])
        below = amount * machine.copies(einsum, tensor, crossed, self.plan.spatial[einsum], below=True)
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
        if self.plan.merged[einsum]:
            views = tuple(
                tuple((rank, tuple(stop - start for start, stop in view[rank])) for rank in ranks)
                for view in self.views
            )
        self.visits[Visit(einsum, again, views)] += 1
        for rank in self.plan.online[einsum]:
            key = (*tile, *origin(self.views[0], (rank,)))
            if key not in self.rescaled[einsum]:
                self.rescaled[einsum].add(key)
                self.corrections[einsum] += elements(self.views[0], made)

    # one level further in

    def _inside(self, visit: Visit) -> Tally:
        einsum = visit.einsum
        inner = self.group.inner[einsum]
        tile = self.plan.tiles[einsum]
        if isinstance(inner, UnitMapping):
            return self._unit(visit, inner, tile)
        own: View = {rank: ((0, size),) for rank, size in tile.items()}
        outer_views = [own] * (self.level + 1)
        if visit.views is not None:
            outer_views = [
                {rank: tuple((0, size) for size in sizes) for rank, sizes in view} for view in visit.views
            ]
        kept = {
            (a.tensor, a.child): self._moves(a)
            for a in self.plan.allocations
            if a.users == (einsum,) and a.child > self.level + 1
        }
        spatial = self.plan.spatial[einsum][: self.level + 1]
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
            spatial = self.plan.spatial[einsum.name]
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
