"""What a mapping costs: the counts that the core computes and the replay observes, and their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Traffic:
    """Values read from and written to a level, whole problem, all instances."""

    reads: int = 0
    writes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.reads + other.reads, self.writes + other.writes)


@dataclass(frozen=True)
class GroupCounts:
    """Exact counts of one fused group.

    `traffic[level, einsum, tensor]`: values moved on behalf of one Einsum (a shared tensor's only
    fetch is on behalf of its first user). `peak[level]`: bits, per instance of the level, for every
    level with a capacity. `executions[einsum]`: points of the iteration space computed, edge tiles at
    their own size, recomputation included. `corrections[einsum]`: vector operations that rescale the
    output of `einsum` for an online statistic. `cycles[unit]`: busy cycles of a compute unit.
    """

    traffic: Mapping[tuple[str, str, str], Traffic]
    peak: Mapping[str, int]
    executions: Mapping[str, int]
    corrections: Mapping[str, int]
    cycles: Mapping[str, Fraction]


@dataclass(frozen=True)
class Cost:
    """The cost of a mapping, exact.

    `energy` is in the machine's `energy_unit`, `cycles` in cycles, `dram_bits` in bits.
    `operations` counts points times operations per point, recomputation and corrections included;
    `macs` only those of op `mac`. The `by_…` maps split the energy (levels and units; tensors;
    Einsums). `latency_by_group[g]` maps each resource (level or unit) to its busy cycles.
    """

    energy: Fraction
    cycles: Fraction
    dram_values: int
    dram_bits: int
    operations: Fraction
    macs: int
    peak: Mapping[str, int]
    groups: tuple[GroupCounts, ...]
    energy_by_level: Mapping[str, Fraction] = field(default_factory=dict)
    energy_by_tensor: Mapping[str, Fraction] = field(default_factory=dict)
    energy_by_einsum: Mapping[str, Fraction] = field(default_factory=dict)
    latency_by_group: tuple[Mapping[str, Fraction], ...] = ()

    @property
    def edp(self) -> Fraction:
        """Energy times cycles."""
        return self.energy * self.cycles

    @property
    def dram_bytes(self) -> Fraction:
        return Fraction(self.dram_bits, 8)

    def quantity(self, name: str) -> Fraction:
        """The value of `dram_traffic` (bytes), `energy`, `latency`, `edp`, `operations` or `peak` (bits)."""
        values = {
            "dram_traffic": self.dram_bytes,
            "energy": self.energy,
            "latency": self.cycles,
            "edp": self.edp,
            "operations": self.operations,
            "peak": Fraction(max(self.peak.values(), default=0)),
        }
        return values[name]
