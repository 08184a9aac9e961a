"""The exact cost of a legal mapping: counts per group, then energy, cycles and traffic of the whole."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from exactile.formulation.cascade import Cascade
from exactile.formulation.core.facts import Facts, facts_of
from exactile.formulation.core.footprint import live_sets
from exactile.formulation.core.traffic import Descent, descend, moves
from exactile.formulation.core.tree import Nest, Tree, tree_of
from exactile.formulation.cost import Cost, GroupCounts, Traffic
from exactile.formulation.hardware import Hardware, Level
from exactile.formulation.mapping import Group, Mapping


def evaluate(cascade: Cascade, hardware: Hardware, mapping: Mapping) -> Cost:
    """The exact cost of a mapping that `violations` finds legal.

    Energy in the machine's unit, cycles and counts as exact rationals and integers. Raises
    `ValueError` for what the model does not cover yet (tensors kept between groups).
    """
    if mapping.kept_between_groups:
        kept = ", ".join(mapping.kept_between_groups)
        raise ValueError(f"keeping tensors on chip between groups is not supported yet (kept: {kept})")
    facts = facts_of(cascade, hardware)
    tally = _Tally(facts)
    for group in mapping.groups:
        tally.add(group)
    return tally.cost()


def group_trees(facts: Facts, group: Group) -> tuple[Tree, list[Descent]]:
    """The tree of a group at boundary 0 and the way of each of its Einsums down to its unit."""
    tree = tree_of(facts, group, facts.cascade.ranks)
    return tree, [descend(facts, tree, name) for name in group.order]


def peaks(facts: Facts, tree: Tree, descents: Iterable[Descent]) -> dict[str, int]:
    """Bits in use at the fullest moment, per level behind boundary 0 (whether or not it is bounded)."""
    levels = facts.hardware.levels
    ways = [[tree]]
    for descent in descents:
        trees = [stage.tree for stage in descent.stages]
        ways += [trees[: boundary + 1] for boundary in range(1, len(trees))]
    found = {level.name: 0 for level in levels[1:]}
    for way in ways:
        name = levels[len(way)].name
        for live in live_sets(facts, way).values():
            found[name] = max(found[name], sum(bits for _, bits in live))
    return found


def corrections(facts: Facts, tree: Tree) -> dict[str, int]:
    """Rescaling operations per corrected Einsum: `n_r · |output|` for each online statistic over `r`
    whose loop lies outside the buffer from which the Einsum reads it. Several barriers over one rank
    that correct one output, as around one softmax, are one statistic."""
    found: dict[tuple[str, str], int] = {}
    for barrier in facts.barriers:
        for name in barrier.corrects if barrier.mode == "online" else ():
            nest = tree.nests.get(name)
            held = tree.holder(name, barrier.tensor) if nest else None
            if nest is None or held is None or barrier.tensor not in tree.nests:
                continue
            if all(use.output or use.tensor != barrier.tensor for use in nest.einsum.uses):
                continue  # it reads what overwrote the tensor in place
            if barrier.rank in nest.ranks[: held.depth] and held.shared:
                size = facts.cascade.tensors[name].size
                found[name, barrier.rank] = nest.trip(barrier.rank) * size * _executions(nest)
    total: dict[str, int] = {}
    for (name, _), count in found.items():
        total[name] = total.get(name, 0) + count
    return total


def _executions(nest: Nest) -> int:
    """How often an Einsum is executed: the trips of the foreign loops around it."""
    times = 1
    for rank, trip in zip(nest.ranks, nest.trips, strict=True):
        if rank not in nest.einsum.ranks:
            times *= trip
    return times


class _Tally:
    """Sums over groups."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.groups: list[GroupCounts] = []
        self.latencies: list[dict[str, Fraction]] = []
        self.level_energy = dict.fromkeys((level.name for level in facts.hardware.levels), 0)
        self.tensor_energy: dict[str, int] = {}
        self.einsum_energy: dict[str, int] = {}
        self.unit_energy: dict[str, int] = {}
        self.dram_values = self.dram_bits = self.macs = 0
        self.operations = Fraction(0)

    def add(self, group: Group) -> None:
        facts = self.facts
        tree, descents = group_trees(facts, group)
        names = [level.name for level in facts.hardware.levels]
        traffic: dict[tuple[str, str, str], Traffic] = {}
        ports = [Port(level) for level in facts.hardware.levels]
        executions: dict[str, int] = {}
        cycles: dict[str, Fraction] = {}
        for descent in descents:
            einsum = descent.einsum.name
            for move in moves(facts, descent):
                key = (names[move.level], einsum, move.tensor)
                if move.reads or move.writes:
                    traffic[key] = traffic.get(key, Traffic()) + Traffic(move.reads, move.writes)
            executions[einsum] = self._compute(descent, cycles)
        corrected = corrections(facts, tree)
        for name, count in corrected.items():
            self._correct(name, count, cycles)
        instances = {descent.einsum.name: _instances(descent) for descent in descents}
        for (level, einsum, tensor), moved in traffic.items():
            self._transfer(level, einsum, tensor, moved)
            index = names.index(level)
            ports[index].add(moved, facts.cascade.tensors[tensor].bits, instances[einsum][index])
        peak = peaks(facts, tree, descents)
        bounded = {
            level.name: peak[level.name] for level in facts.hardware.levels[1:] if level.capacity is not None
        }
        self.groups.append(GroupCounts(traffic, bounded, executions, corrected, cycles))
        self.latencies.append(cycles | {port.level.name: port.cycles() for port in ports})

    def _transfer(self, level: str, einsum: str, tensor: str, moved: Traffic) -> None:
        read, write = self.facts.level_energy[level, tensor]
        energy = moved.reads * read + moved.writes * write
        self.level_energy[level] += energy
        self.tensor_energy[tensor] = self.tensor_energy.get(tensor, 0) + energy
        self.einsum_energy[einsum] = self.einsum_energy.get(einsum, 0) + energy
        if level == self.facts.hardware.levels[0].name:
            values = moved.reads + moved.writes
            self.dram_values += values
            self.dram_bits += values * self.facts.cascade.tensors[tensor].bits

    def _compute(self, descent: Descent, cycles: dict[str, Fraction]) -> int:
        einsum, unit = descent.einsum, descent.unit.unit
        nest = descent.stages[0].nest
        points = einsum.points * _executions(nest)
        name = einsum.name
        self._charge(unit, name, points * self.facts.point_energy[name, unit])
        busy = descent.passes * descent.inside.cycles
        cycles[unit] = cycles[unit] + busy if unit in cycles else busy
        self.operations += points * einsum.operations
        self.macs += points if einsum.einsum.op == "mac" else 0
        return points

    def _correct(self, name: str, count: int, cycles: dict[str, Fraction]) -> None:
        if self.facts.correction is None:
            raise ValueError(
                f"no unit of {self.facts.hardware.name} can rescale {name} for an online statistic"
            )
        unit, cost = self.facts.correction
        self._charge(unit.name, name, int(count * cost.energy * self.facts.scale))
        lanes = unit.lanes if unit.kind == "vector" else 1
        cycles[unit.name] = cycles.get(unit.name, Fraction(0)) + count * cost.cycles / lanes
        self.operations += count

    def _charge(self, unit: str, einsum: str, energy: int) -> None:
        self.unit_energy[unit] = self.unit_energy.get(unit, 0) + energy
        self.einsum_energy[einsum] = self.einsum_energy.get(einsum, 0) + energy

    def cost(self) -> Cost:
        facts = self.facts
        peak: dict[str, int] = {}
        for group in self.groups:
            for level, bits in group.peak.items():
                peak[level] = max(peak.get(level, 0), bits)
        full = facts.hardware.overlap == "full"
        latency = Fraction(0)
        for resources in self.latencies:
            latency += (max if full else sum)(resources.values()) + facts.hardware.launch
        return Cost(
            energy=facts.energy(sum(self.einsum_energy.values())),
            cycles=latency,
            dram_values=self.dram_values,
            dram_bits=self.dram_bits,
            operations=self.operations,
            macs=self.macs,
            peak=peak,
            groups=tuple(self.groups),
            energy_by_level=_scaled(facts, self.level_energy | self.unit_energy),
            energy_by_tensor=_scaled(facts, self.tensor_energy),
            energy_by_einsum=_scaled(facts, self.einsum_energy),
            latency_by_group=tuple(self.latencies),
        )


def _scaled(facts: Facts, energies: dict[str, int]) -> dict[str, Fraction]:
    return {name: facts.energy(energy) for name, energy in energies.items()}


class Port:
    """Busy cycles of one level, per instance: reads and writes at one port, or at one each."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.reads: Fraction | int = 0
        self.writes: Fraction | int = 0
        self.read_rate = level.read_bandwidth
        self.write_rate = level.read_bandwidth if level.shared_port else level.write_bandwidth

    def add(self, moved: Traffic, bits: int, instances: int) -> None:
        """Count traffic of `instances` instances together, in bits or values as the bandwidth is."""
        reads = moved.reads * self.read_rate.weight(bits) if self.read_rate else 0
        writes = moved.writes * self.write_rate.weight(bits) if self.write_rate else 0
        self.reads += reads if instances == 1 else Fraction(reads, instances)
        self.writes += writes if instances == 1 else Fraction(writes, instances)

    def cycles(self) -> Fraction:
        reads = self.reads / self.read_rate.amount if self.read_rate else Fraction(0)
        writes = self.writes / self.write_rate.amount if self.write_rate else Fraction(0)
        return reads + writes if self.level.shared_port else max(reads, writes)


def _instances(descent: Descent) -> list[int]:
    """Instances of every level that the Einsum uses, outermost level first."""
    return [stage.instances for stage in descent.stages] + [descent.instances]
