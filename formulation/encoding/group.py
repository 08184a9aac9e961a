"""A candidate group of a problem with numbers: tilings, capacity, and what its slots and units cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from exactile.formulation.cascade import Cascade
from exactile.formulation.encoding.inner import UnitFamily, unit_families
from exactile.formulation.encoding.metrics import (
    MetricSpace,
    Vector,
    access_vector,
    add,
    fill_and_drain,
    times,
)
from exactile.formulation.encoding.plan import Term
from exactile.formulation.encoding.shape import GroupSpec, corrections
from exactile.formulation.encoding.tilings import tile_candidates
from exactile.formulation.hardware import Hardware
from exactile.formulation.problem import Problem
from exactile.formulation.units import candidates, correction_unit, point_cost

Floats = npt.NDArray[np.float64]
InnerKey = tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class SlotCost:
    """Metrics of a slot: `visit` per visit of each value, `once` whatever the residency."""

    visit: Vector
    once: Vector


def slot_costs(cascade: Cascade, hardware: Hardware, spec: GroupSpec) -> tuple[SlotCost, ...]:
    """What moving each slot's tensor across boundary 0 costs, whole tensor, per visit and once."""
    found = []
    for slot in spec.slots:
        bits = cascade.tensors[slot.leaving or slot.tensor].bits
        size = cascade.tensors[slot.tensor].size
        fill, drain = fill_and_drain(hardware, bits)
        if slot.kind == "input":
            cost = SlotCost(times(fill, size), {})
        elif slot.kind == "output":
            cost = SlotCost(times(add(fill, drain), size), times(fill, -size))
        else:
            cost = SlotCost({}, times(drain, size) if slot.leaving else {})
        found.append(cost)
    return tuple(found)


def operand_vectors(cascade: Cascade, hardware: Hardware, spec: GroupSpec) -> list[Vector]:
    """Metric vectors of the accesses between the last level and the units, for the common scale."""
    level = hardware.levels[-1]
    vectors = []
    for einsum in spec.einsums:
        for access in (*einsum.inputs, einsum.output):
            bits = cascade.tensors[access.tensor].bits
            vectors += [access_vector(level, kind, bits, False) for kind in ("read", "write")]
    return vectors


@dataclass(frozen=True)
class Group:
    """A candidate group of a problem with everything its plans need in common.

    `checkpoint` is called between pieces of long work and may raise to end it. `inner_cache` holds inner
    tables by Einsum, looped ranks, batch ranks and metrics: groups and plans with the same loops share them.
    """

    problem: Problem
    spec: GroupSpec
    space: MetricSpace
    costs: tuple[SlotCost, ...]
    cycles_matter: bool
    checkpoint: Callable[[], None]
    inner_cache: dict[InnerKey, dict[str, Floats]] = field(default_factory=dict)

    @cached_property
    def tilings(self) -> Mapping[int, tuple[Floats, Floats]]:
        """Per rank (bit): trip counts and tiles of its candidates."""
        mapspace = self.problem.mapspace
        found = {}
        for bit, rank in enumerate(self.spec.ranks):
            extent = self.problem.cascade.ranks[rank]
            trips, tiles = tile_candidates(extent, mapspace.tile_sizes, mapspace.tiles.get(rank))
            found[bit] = (trips.astype(np.float64), tiles.astype(np.float64))
        return found

    @cached_property
    def capacity(self) -> float:
        """Bits of level 1, as a float; infinite if unbounded."""
        capacity = self.problem.hardware.levels[1].capacity
        return float("inf") if capacity is None else float(capacity)

    @cached_property
    def families(self) -> tuple[tuple[UnitFamily, ...], ...]:
        """Per node, the uses of the units that can run it."""
        return tuple(
            unit_families(
                self.problem.hardware, einsum, self.problem.cascade.ranks, cycles=self.cycles_matter
            )
            for einsum in self.spec.einsums
        )

    @cached_property
    def corrections(self) -> tuple[tuple[int, int, int, Vector], ...]:
        """`(slot, rank bit, corrected node, metrics per trip)` of the online statistics of the group."""
        cascade, hardware = self.problem.cascade, self.problem.hardware
        found = []
        for slot, rank, output in corrections(cascade, self.spec):
            if rank in self.spec.ranks:
                node = [einsum.name for einsum in self.spec.einsums].index(output)
                vector = correction_vector(cascade, hardware, output)
                found.append((slot, self.spec.ranks.index(rank), node, vector))
        return tuple(found)

    def slot_coefficient(self, slot: int, name: str) -> tuple[float, float]:
        """Scaled cost of a slot in one metric: per visit of the whole tensor, and once."""
        return self._slot_coefficients[name][slot]

    @cached_property
    def _slot_coefficients(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        coefficient = self.space.coefficient
        return {
            name: [(coefficient(cost.visit, name), coefficient(cost.once, name)) for cost in self.costs]
            for name in self.space.names
        }

    def footprint(self, term: Term) -> float:
        """Bits of a slot's buffer apart from the tiles of the loops outside it."""
        slot, shape = self.spec.slots[term.slot], self.spec.shape.slots[term.slot]
        total = slot.bits
        for rank in slot.access.ranks:
            if rank in self.spec.ranks and not term.outside >> self.spec.ranks.index(rank) & 1:
                total *= self.problem.cascade.ranks[rank]
        batched = any(rank in self.spec.batch for rank in slot.access.ranks)
        doubled = self.spec.shape.double_buffer and shape.crossing and (term.outside or batched)
        return float(2 * total if doubled else total)


def correction_vector(cascade: Cascade, hardware: Hardware, output: str) -> Vector:
    """Metrics of rescaling every value of `output` once for an online statistic."""
    unit, cost = correction_unit(hardware)
    size = cascade.tensors[output].size
    lanes = unit.lanes if unit.kind == "vector" else 1
    return {
        "energy": cost.energy * size,
        "operations": Fraction(size),
        f"unit:{unit.name}": cost.cycles * size / lanes,
    }


def metric_space(problem: Problem, specs: Sequence[GroupSpec]) -> MetricSpace:
    """The common scale of all candidate groups of a problem."""
    cascade, hardware = problem.cascade, problem.hardware
    vectors: list[Vector] = []
    for spec in specs:
        for cost in slot_costs(cascade, hardware, spec):
            vectors += [cost.visit, cost.once]
        vectors += operand_vectors(cascade, hardware, spec)
        for _, _, output in corrections(cascade, spec):
            vectors.append(correction_vector(cascade, hardware, output))
        for einsum in spec.einsums:
            for unit in candidates(hardware, einsum):
                cost_of = point_cost(hardware, einsum, unit)
                vectors.append(
                    {
                        "energy": cost_of.energy,
                        "operations": Fraction(sum(einsum.cost.values())),
                        f"unit:{unit.name}": cost_of.cycles,
                    }
                )
    return MetricSpace.build(hardware, vectors)
