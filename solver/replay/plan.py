"""What is known of a pass before its first loop: nests, buffers in their places, and what they mean.

The plan removes loops that run once, moves private buffers out over loops that do not move their tiles,
and takes charge of buffers further in that no loop of an inner pass moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from exactile.formulation.mapping import Group, UnitMapping
from exactile.solver.replay.errors import ReplayError
from exactile.solver.replay.machine import Factors, Machine, blocks, inner_tile
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


class Plan:
    """The loop tree of `group` at boundary `level`, inside a tile of full sizes `full`.

    `spatial[e][b]`: the factors of `e` at boundary `b`, for all boundaries. `served[e, X]`: the buffer
    from which `e` uses `X`. `inside[e][p]`: the full tile of `e` at level `p`, for all levels further in.
    `online[e]`: ranks whose loops bring new maxima that rescale the output.
    """

    def __init__(
        self, machine: Machine, group: Group, level: int, full: dict[str, int], outer: Sequence[Factors]
    ) -> None:
        self.machine = machine
        self.group = group
        self.level = level
        self.blocks = {e: blocks(full, group.spatial.get(e, {})) for e in group.order}
        self.nests = without_single_trips(group, self.blocks)
        self.tiles = {e: inner_tile(self._own_block(e), self.nests[e]) for e in group.order}
        self.inside = {e: self._tiles_inside(e) for e in group.order}
        self.spatial = {e: self._all_factors(e, outer) for e in group.order}
        self.spread = {rank for factors in group.spatial.values() for rank in factors}
        self.shared = self._shared_depths()
        self.allocations = [*self._own_buffers(), *self._passing_buffers()]
        self.served = {
            (u, t): a for a in self.allocations for t in a.held for u in a.users if a.child == level + 1
        }
        self.online = self._online_ranks()
        self.merged = {e: self._has_merged_boundaries(e) for e in group.order}

    def _own_block(self, einsum: str) -> dict[str, int]:
        return {rank: self.blocks[einsum][rank] for rank in self.machine.cascade.by_name[einsum].ranks}

    def steps(self) -> tuple[Step, ...]:
        """The tree itself."""
        return build(self.group.order, self.nests, self.allocations)

    def factor(self, members: Sequence[str], rank: str) -> int | None:
        """Over how many instances `members` spread a rank, `None` if not all over the same."""
        having = [e for e in members if rank in self.machine.cascade.by_name[e].ranks]
        factors = {prod(self.spatial[e][self.level].get(rank, {}).values()) for e in having}
        return factors.pop() if len(factors) == 1 else None

    def leaves(self, tensor: str) -> bool:
        """Whether a tensor made here is needed outside the group."""
        users = self.machine.cascade.consumers[tensor]
        outside = not users or any(user.name not in self.group.order for user in users)
        return outside or self.machine.cascade.tensors[tensor].role == "output"

    def _all_factors(self, einsum: str, outer: Sequence[Factors]) -> tuple[Factors, ...]:
        """Spatial factors of `einsum` at every boundary, outer and inner."""
        factors = list(outer)
        inner: Group | UnitMapping = self.group
        while isinstance(inner, Group):
            factors.append(inner.spatial.get(einsum, {}))
            inner = inner.inner[einsum]
        return tuple(factors)

    def _tiles_inside(self, einsum: str) -> dict[int, dict[str, int]]:
        found = {self.level + 1: self.tiles[einsum]}
        inner, level = self.group.inner[einsum], self.level + 1
        while isinstance(inner, Group):
            block = blocks(found[level], inner.spatial.get(einsum, {}))
            nest = without_single_trips(inner, {einsum: block})[einsum]
            level += 1
            found[level] = inner_tile(block, nest)
            inner = inner.inner[einsum]
        return found

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
        """Buffers further in that outlive an inner pass: no loop inside it moves their tiles."""
        found = []
        for einsum in self.group.order:
            inner = self.group.inner[einsum]
            if not isinstance(inner, Group):
                continue
            nest = self.nests[einsum]
            for tensor, child in self.machine.escaping(inner, self.level + 1, self.tiles[einsum]):
                depth = kept_depth(self.machine.ranks(einsum, tensor), nest, len(nest), self.shared[einsum])
                parent = self.machine.holder(child - 1, tensor)
                found.append(Allocation((tensor,), (einsum,), depth, parent, child))
        return found

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
                if barrier.rank in outside and barrier.rank not in found[corrected]:
                    found[corrected].append(barrier.rank)
        return found

    def _has_merged_boundaries(self, einsum: str) -> bool:
        """Whether an inner pass must know where it stands outside its own tile."""
        accesses = self.machine.cascade.by_name[einsum]
        tensors = (einsum, *(access.tensor for access in accesses.inputs))
        return isinstance(self.group.inner[einsum], Group) and any(
            not self.machine.holds(self.level + 1, tensor) for tensor in tensors
        )
