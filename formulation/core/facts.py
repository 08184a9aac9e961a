"""What the core looks up again and again about a cascade and a machine, computed once per pair.

Energies are scaled to integers by one common denominator: sums of thousands of `Fraction`s would
dominate the time of an evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from weakref import WeakKeyDictionary

from exactile.formulation.cascade import Barrier, Cascade
from exactile.formulation.einsum import Access, Einsum
from exactile.formulation.hardware import ComputeUnit, Hardware, OpCost
from exactile.formulation.units import NoUnitError, correction_unit, point_cost


@dataclass(frozen=True, slots=True)
class Use:
    """One tensor as one Einsum uses it: `ranks` is `R(X)` in the index map `access` of that Einsum."""

    tensor: str
    ranks: tuple[str, ...]
    output: bool
    access: Access


@dataclass(frozen=True, slots=True)
class EinsumFacts:
    """`uses`: the inputs in reading order, then the output. `points`: size of the iteration space."""

    einsum: Einsum
    ranks: tuple[str, ...]
    reduction: frozenset[str]
    uses: tuple[Use, ...]
    points: int
    operations: Fraction

    @property
    def name(self) -> str:
        return self.einsum.name

    def ranks_of(self, tensor: str) -> tuple[str, ...]:
        """`R(X)` as this Einsum indexes it; `KeyError` if it does not use the tensor."""
        return self.use_of(tensor).ranks

    def use_of(self, tensor: str) -> Use:
        """How this Einsum uses a tensor; `KeyError` if it does not."""
        for use in self.uses:
            if use.tensor == tensor:
                return use
        raise KeyError(tensor)


@dataclass(slots=True)
class Facts:
    """A cascade on a machine. `scale` is the denominator of the integer energies below."""

    cascade: Cascade
    hardware: Hardware
    einsums: dict[str, EinsumFacts]
    barriers: tuple[Barrier, ...]
    scale: int
    level_energy: dict[tuple[str, str], tuple[int, int]]
    point_energy: dict[tuple[str, str], int]
    point_costs: dict[tuple[str, str], OpCost]
    units: dict[str, ComputeUnit]
    correction: tuple[ComputeUnit, OpCost] | None

    def energy(self, scaled: int) -> Fraction:
        return Fraction(scaled, self.scale)


_CACHE: WeakKeyDictionary[Cascade, Facts] = WeakKeyDictionary()


def facts_of(cascade: Cascade, hardware: Hardware) -> Facts:
    """The facts, remembered for the machine that a cascade was last used with."""
    facts = _CACHE.get(cascade)
    if facts is None or facts.hardware is not hardware:
        facts = _CACHE[cascade] = _build(cascade, hardware)
    return facts


def _build(cascade: Cascade, hardware: Hardware) -> Facts:
    rates = [rate for level in hardware.levels for rate in (level.read_energy, level.write_energy)]
    costs = {}
    for einsum in cascade.einsums:
        for unit in hardware.compute:
            try:
                costs[einsum.name, unit.name] = point_cost(hardware, einsum, unit)
            except NoUnitError:
                continue
    correction = None
    if any(barrier.mode == "online" for barrier in cascade.barriers):
        try:
            correction = correction_unit(hardware)
        except NoUnitError:
            correction = None
    amounts = [rate.amount for rate in rates] + [cost.energy for cost in costs.values()]
    amounts += [correction[1].energy] if correction else []
    scale = lcm(1, *(amount.denominator for amount in amounts))
    energy = {
        (level.name, tensor.name): (
            int(level.read_energy.amount * level.read_energy.weight(tensor.bits) * scale),
            int(level.write_energy.amount * level.write_energy.weight(tensor.bits) * scale),
        )
        for level in hardware.levels
        for tensor in cascade.tensors.values()
    }
    einsums = {einsum.name: _einsum(cascade, einsum) for einsum in cascade.einsums}
    units = {unit.name: unit for unit in hardware.compute}
    points = {key: int(cost.energy * scale) for key, cost in costs.items()}
    return Facts(
        cascade, hardware, einsums, cascade.barriers, scale, energy, points, costs, units, correction
    )


def _einsum(cascade: Cascade, einsum: Einsum) -> EinsumFacts:
    uses = [Use(access.tensor, access.ranks, False, access) for access in einsum.inputs]
    uses.append(Use(einsum.output.tensor, einsum.output.ranks, True, einsum.output))
    total = sum(einsum.cost.values(), Fraction(0))
    return EinsumFacts(einsum, einsum.ranks, einsum.reduction, tuple(uses), cascade.points(einsum), total)
