"""What a pass needs to know of cascade and machine, and the tally that it fills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Group, Loop
from exactile.solver.replay.tree import depth_of, kept_depth, without_single_trips

Key = tuple[int, str, str]  # level, Einsum, tensor
Factors = Mapping[str, Mapping[str, int]]  # spatial factors by rank and dimension


@dataclass
class Tally:
    """Counts of one pass: values moved per level, Einsum and tensor; peak bits; busy cycles."""

    reads: Counter[Key] = field(default_factory=Counter)
    writes: Counter[Key] = field(default_factory=Counter)
    peak: dict[int, int] = field(default_factory=dict)
    cycles: dict[str, Fraction] = field(default_factory=dict)

    def add(self, other: Tally, times: int) -> None:
        """`times` more passes like `other`."""
        for mine, theirs in ((self.reads, other.reads), (self.writes, other.writes)):
            for key, amount in theirs.items():
                mine[key] += times * amount
        for level, bits in other.peak.items():
            self.peak[level] = max(self.peak.get(level, 0), bits)
        for unit, busy in other.cycles.items():
            self.cycles[unit] = self.cycles.get(unit, Fraction(0)) + times * busy


def blocks(ranks: Mapping[str, int], factors: Factors) -> dict[str, int]:
    """The block of every rank that one instance works on, full size."""
    return {rank: -(-size // prod(factors.get(rank, {}).values())) for rank, size in ranks.items()}


def inner_tile(block: Mapping[str, int], nest: Sequence[Loop]) -> dict[str, int]:
    """The full tile inside a nest; a rank without a loop has its whole block."""
    return {**block, **{loop.rank: loop.tile for loop in nest if loop.rank in block}}


class Machine:
    """A cascade on a machine: who holds what, and how often instances make it cross."""

    def __init__(self, cascade: Cascade, hardware: Hardware) -> None:
        self.cascade = cascade
        self.hardware = hardware
        self.last = len(hardware.levels) - 1

    def holds(self, level: int, tensor: str) -> bool:
        """Whether the tensor is kept at a level, or bypasses it."""
        kept = self.hardware.levels[level].holds
        return level == 0 or kept is None or tensor in kept or self.cascade.tensors[tensor].role in kept

    def holder(self, level: int, tensor: str) -> int:
        """The nearest level from `level` outwards that holds the tensor."""
        while not self.holds(level, tensor):
            level -= 1
        return level

    def ranks(self, einsum: str, tensor: str) -> tuple[str, ...]:
        """`R(X)`, as one of its users indexes it."""
        return self.cascade.by_name[einsum].access_of(tensor).ranks

    def copies(
        self, einsum: str, tensor: str, levels: range, spatial: Sequence[Factors], below: bool = False
    ) -> int:
        """Crossings per element because instances behind the boundaries `levels` work on it together.

        Above, a dimension that multicasts an input or reduces an output needs one; below, every
        instance has its own.
        """
        own = self.ranks(einsum, tensor)
        copies = 1
        for level in levels:
            dims = {dim.name: dim for dim in self.hardware.levels[level].spatial}
            for rank, factors in spatial[level].items():
                for name, factor in factors.items():
                    once = dims[name].reduce if tensor == einsum else dims[name].multicast
                    if rank not in own and (below or not once):
                        copies *= factor
        return copies

    def escaping(self, group: Group, level: int, tile: Mapping[str, int]) -> list[tuple[str, int]]:
        """Tensors that outlive a pass of an inner group, with the level where they are held.

        They do not move during the pass, so that they can stay where they are until a loop outside
        moves them.
        """
        (einsum,) = group.order
        block = blocks(tile, group.spatial.get(einsum, {}))
        nest = without_single_trips(group, {einsum: block})[einsum]
        found = [(b.tensor, level + 1, depth_of(b, {einsum: nest})) for b in group.buffers]
        inner = group.inner[einsum]
        if isinstance(inner, Group):
            deeper = self.escaping(inner, level + 1, inner_tile(block, nest))
            found += [(tensor, held, len(nest)) for tensor, held in deeper]
        return [
            (tensor, held)
            for tensor, held, depth in found
            if kept_depth(self.ranks(einsum, tensor), nest, depth, 0) == 0
        ]


def instances(levels: range, spatial: Sequence[Factors]) -> int:
    """How many instances of what lies behind the boundaries `levels` are in use."""
    return prod(f for level in levels for factors in spatial[level].values() for f in factors.values())
