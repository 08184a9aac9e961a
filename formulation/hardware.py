"""The machine: levels of memory from the outermost inwards, and compute units behind the last one.

All quantities are exact rationals in base units: bits, values, cycles, and picojoules (or a
unit-free energy, see `Hardware.energy_unit`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

UnitKind = Literal["systolic", "free", "vector"]


@dataclass(frozen=True, slots=True)
class Rate:
    """An amount per datum (energy) or of data (bandwidth), counted in bits or in values."""

    amount: Fraction
    per: Literal["bit", "value"] = "bit"

    def weight(self, bits: int) -> int:
        """How many of this rate's data one value of `bits` bits is."""
        return bits if self.per == "bit" else 1


@dataclass(frozen=True, slots=True)
class SpatialDim:
    """A spatial dimension: `size` instances; may an input be multicast, an output be reduced over it?"""

    name: str
    size: int
    multicast: bool = True
    reduce: bool = True


@dataclass(frozen=True)
class Level:
    """One memory level.

    `capacity` is in bits, `None` is unbounded. Bandwidths are bits or values per cycle, `None` is
    unlimited; with `shared_port` reads and writes add up at one port of `read_bandwidth`. `holds` is
    `None` for everything, else the roles and tensor names that may be kept here (others bypass it).
    `spatial` lies between this level and what comes next.
    """

    name: str
    capacity: int | None = None
    read_energy: Rate = Rate(Fraction(0))
    write_energy: Rate = Rate(Fraction(0))
    read_bandwidth: Rate | None = None
    write_bandwidth: Rate | None = None
    shared_port: bool = True
    double_buffer: bool = False
    holds: frozenset[str] | None = None
    spatial: tuple[SpatialDim, ...] = ()


@dataclass(frozen=True, slots=True)
class OpCost:
    """What one operation costs: energy, and cycles per operation of one lane or processing element."""

    energy: Fraction
    cycles: Fraction = Fraction(1)


@dataclass(frozen=True)
class ComputeUnit:
    """A compute unit behind the last level.

    `systolic`: an array on the first two spatial dimensions of the last level, with `dataflows`
    among `weight_stationary`, `output_stationary`, `input_stationary`. `free`: any rank on any
    spatial dimension of the last level; `registers` names the operands a processing element may hold
    from step to step: `input` (the first input), `weight` (the other inputs), `output`. `vector`:
    `lanes` lanes. `instances` is a spatial dimension in front of the unit.
    """

    name: str
    kind: UnitKind
    ops: Mapping[str, OpCost]
    dataflows: tuple[str, ...] = ()
    registers: tuple[str, ...] = ()
    lanes: int = 1
    instances: SpatialDim = SpatialDim("instances", 1)


@dataclass(frozen=True)
class Hardware:
    """A machine. `clock` is in hertz and only converts seconds; `launch` is cycles per fused group.

    `energy_unit` is `pJ`, or `1` for unit-free studies. `sources` says where a number comes from, or
    that it is an assumption.
    """

    name: str
    levels: tuple[Level, ...]
    compute: tuple[ComputeUnit, ...]
    clock: Fraction | None = None
    overlap: Literal["full", "none"] = "full"
    launch: Fraction = Fraction(0)
    energy_unit: str = "pJ"
    sources: Mapping[str, str] = field(default_factory=dict)

    def unit(self, name: str) -> ComputeUnit:
        """The compute unit of that name; `KeyError` if there is none."""
        for unit in self.compute:
            if unit.name == name:
                return unit
        raise KeyError(name)
