"""Metrics: the additive quantities of a group, scaled to integers, and how latency follows from them.

Traffic, energy, operations and the busy cycles of every level port and compute unit add up over the
Einsums and tensors of a group; latency is their maximum or sum. Every coefficient is multiplied by a
common denominator, so that counts stay integers and float64 holds them exactly below 2**53.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np
import numpy.typing as npt

from exactile.formulation.hardware import Hardware, Level, Rate

Floats = npt.NDArray[np.float64]
Vector = dict[str, Fraction]

ADDITIVE = ("dram_traffic", "energy", "operations")
EXACT_LIMIT = float(1 << 53)


def port(level: Level, kind: str) -> str | None:
    """The name of the port that reads or writes of a level go through; `None` if unlimited."""
    rate = level.read_bandwidth if level.shared_port or kind == "read" else level.write_bandwidth
    if rate is None:
        return None
    return f"level:{level.name}" if level.shared_port else f"level:{level.name}:{kind}"


def access_vector(level: Level, kind: str, bits: int, outermost: bool) -> Vector:
    """What reading or writing one value of `bits` bits at a level adds to each metric."""
    energy = level.read_energy if kind == "read" else level.write_energy
    vector: Vector = {"energy": energy.amount * energy.weight(bits)}
    if outermost:
        vector["dram_traffic"] = Fraction(bits, 8)
    name = port(level, kind)
    if name is not None:
        rate: Rate | None = level.read_bandwidth
        if not level.shared_port and kind == "write":
            rate = level.write_bandwidth
        assert rate is not None
        vector[name] = Fraction(rate.weight(bits)) / rate.amount
    return vector


def add(*vectors: Mapping[str, Fraction]) -> Vector:
    """The sum of metric vectors."""
    total: Vector = {}
    for vector in vectors:
        for name, amount in vector.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def times(vector: Mapping[str, Fraction], factor: int) -> Vector:
    """A metric vector taken `factor` times."""
    return {name: amount * factor for name, amount in vector.items()}


def fill_and_drain(hardware: Hardware, bits: int) -> tuple[Vector, Vector]:
    """What moving one value of `bits` bits across boundary 0 adds to each metric, inwards and outwards."""
    outer, inner = hardware.levels[0], hardware.levels[1]
    fill = add(access_vector(outer, "read", bits, True), access_vector(inner, "write", bits, False))
    drain = add(access_vector(inner, "read", bits, False), access_vector(outer, "write", bits, True))
    return fill, drain


@dataclass(frozen=True)
class MetricSpace:
    """The metrics of a machine, their scales, and latency as a function of them."""

    hardware: Hardware
    scales: Mapping[str, int]

    @classmethod
    def build(cls, hardware: Hardware, vectors: Iterable[Mapping[str, Fraction]]) -> MetricSpace:
        """Scales that make all `vectors` integers; all busy cycles get one common scale."""
        scales = dict.fromkeys((*ADDITIVE, "cycles", "peak"), 1)
        for vector in vectors:
            for name, amount in vector.items():
                kind = name if name in ADDITIVE else "cycles"
                scales[kind] = lcm(scales[kind], amount.denominator)
        scales["cycles"] = lcm(scales["cycles"], hardware.launch.denominator)
        return cls(hardware, scales)

    @cached_property
    def resources(self) -> tuple[tuple[str, ...], ...]:
        """Busy-cycle metrics, grouped: the ports of one level overlap with each other."""
        groups = []
        for level in self.hardware.levels:
            names = tuple(dict.fromkeys(filter(None, (port(level, "read"), port(level, "write")))))
            if names:
                groups.append(names)
        groups.extend((f"unit:{unit.name}",) for unit in self.hardware.compute)
        return tuple(groups)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All metrics in the order of the columns."""
        return (*ADDITIVE, *(name for group in self.resources for name in group))

    def scale(self, name: str) -> int:
        """Base units of the metric (or of `latency`) times this are integers."""
        return self.scales.get(name, self.scales["cycles"])

    def coefficient(self, vector: Mapping[str, Fraction], name: str) -> float:
        """The scaled coefficient of a metric; an integer."""
        return float(vector.get(name, Fraction(0)) * self.scale(name))

    def latency(self, columns: Mapping[str, Floats]) -> Floats:
        """Scaled latency of a group from its scaled busy cycles (any common shape)."""
        groups = [np.maximum.reduce([columns[name] for name in group]) for group in self.resources]
        launch = float(self.hardware.launch * self.scales["cycles"])
        if self.hardware.overlap == "full":
            busy: Floats = np.maximum.reduce(groups)
        else:
            busy = np.add.reduce(groups)
        return busy + launch

    def quantity(self, key: str, columns: Mapping[str, Floats]) -> Floats:
        """The scaled value of an objective that belongs to one group: an additive metric or `latency`."""
        return self.latency(columns) if key == "latency" else columns[key]

    def columns_for(self, keys: Iterable[str]) -> tuple[str, ...]:
        """The metrics needed to compute these quantities."""
        wanted = set(keys)
        if "latency" in wanted:
            wanted |= {name for group in self.resources for name in group}
        return tuple(name for name in self.names if name in wanted)
