"""Random machines of two or three levels for a cascade."""

from __future__ import annotations

import random
from fractions import Fraction

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim, UnitKind


def random_hardware(rng: random.Random, cascade: Cascade) -> Hardware:
    """Two or three levels; a systolic or free array with a vector unit, or a vector unit alone."""
    levels = [Level("DRAM", read_energy=Rate(Fraction(rng.randint(1, 9))))]
    for position in range(rng.choice((1, 1, 1, 2))):
        holds = None
        bypass = [t for t in cascade.tensors.values() if t.role in ("input", "output")]
        if bypass and rng.random() < 0.2:
            skipped = rng.choice(bypass).name
            holds = frozenset(t for t in cascade.tensors if t != skipped)
        levels.append(
            Level(
                f"L{position + 1}",
                capacity=10**9,
                read_bandwidth=rng.choice((None, Rate(Fraction(8)))),
                double_buffer=rng.random() < 0.3,
                holds=holds,
            )
        )
    for position in range(len(levels) - 1):
        if rng.random() < 0.25:
            dims = (_dim(rng, "x"), _dim(rng, "y"))[: rng.randint(1, 2)]
            levels[position] = _with_spatial(levels[position], dims)
    kind: UnitKind = rng.choice(("systolic", "free", "vector"))
    if kind != "vector":
        levels[-1] = _with_spatial(levels[-1], (_dim(rng, "rows"), _dim(rng, "cols")))
    return Hardware("machine", tuple(levels), tuple(_units(rng, kind)))


def _dim(rng: random.Random, name: str) -> SpatialDim:
    return SpatialDim(name, rng.choice((1, 2, 2, 3, 4)), rng.random() < 0.7, rng.random() < 0.7)


def _with_spatial(level: Level, dims: tuple[SpatialDim, ...]) -> Level:
    return Level(
        level.name, level.capacity, level.read_energy, level.write_energy, level.read_bandwidth,
        level.write_bandwidth, level.shared_port, level.double_buffer, level.holds, dims,
    )  # fmt: skip


def _units(rng: random.Random, kind: UnitKind) -> list[ComputeUnit]:
    flows = ("weight_stationary", "output_stationary", "input_stationary")
    cost = OpCost(Fraction(rng.randint(1, 5)), Fraction(rng.choice((1, 1, 2))))
    units = []
    if kind == "systolic":
        units.append(ComputeUnit("array", kind, {"mac": cost}, flows, instances=_dim(rng, "instances")))
    if kind == "free":
        held = tuple(name for name in ("input", "weight", "output") if rng.random() < 0.4)
        units.append(
            ComputeUnit("array", kind, {"mac": cost}, ("free",), held, instances=_dim(rng, "instances"))
        )
    ops = {"ew": OpCost(Fraction(1)), "mac": OpCost(Fraction(2)), "softmax": OpCost(Fraction(2), Fraction(4))}
    units.append(
        ComputeUnit("vector", "vector", ops, lanes=rng.choice((1, 3, 4)), instances=_dim(rng, "instances"))
    )
    return units
