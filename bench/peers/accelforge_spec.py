"""An Exactile problem as AccelForge's input, where both tools mean the same by it.

What has no exact counterpart is refused with a sentence instead of being approximated.
"""

from __future__ import annotations

from typing import Any

from exactile.formulation.cascade import Cascade
from exactile.formulation.einsum import Access, Einsum
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, Rate, SpatialDim
from exactile.formulation.problem import Problem

OBJECTIVES = ("dram_traffic", "energy")


class NotComparable(ValueError):  # noqa: N818 - a fact about the problem, not a failure
    """The problem means something that cannot be said in AccelForge; the message says what."""


def task(problem: Problem, searches: int) -> dict[str, Any]:
    """What `accelforge_worker` needs: the machine's nodes, the workload, the number of searches.

    AccelForge minimises energy. For `dram_traffic` the outermost level costs one per bit and nothing else
    costs anything, so that the least energy is the least traffic in bits.

    Raises `NotComparable`.
    """
    check(problem)
    return {
        "nodes": nodes(problem),
        "workload": workload(problem.cascade),
        "searches": searches,
    }


def check(problem: Problem) -> None:
    """Raise `NotComparable` for whatever would make the comparison unequal."""
    space = problem.mapspace
    if problem.objective.minimize not in OBJECTIVES:
        raise NotComparable(f"objective {problem.objective.minimize}: only {' and '.join(OBJECTIVES)}")
    if problem.objective.subject_to:
        raise NotComparable("upper bounds (subject_to) are not given to AccelForge")
    if space.tile_sizes != "divisors":
        raise NotComparable("AccelForge averages over ragged tiles: only tile_sizes: divisors")
    if space.recomputation:
        raise NotComparable("AccelForge does not recompute: only recomputation: false")
    if space.fusion not in ("free", "none"):
        raise NotComparable("prescribed fused groups: only fusion: free or none")
    if space.orders or space.residency or space.tiles:
        raise NotComparable("pinned orders, residencies or tiles are not given to AccelForge")
    if problem.cascade.barriers:
        raise NotComparable("AccelForge has no softmax barrier: only cascades without one")


def nodes(problem: Problem) -> list[dict[str, Any]]:
    """The machine from the outermost level to the compute unit."""
    machine = problem.hardware
    traffic = problem.objective.minimize == "dram_traffic"
    intermediates = "All" if problem.mapspace.fusion == "none" else "~Intermediates"
    found = []
    above: tuple[SpatialDim, ...] = ()
    for place, level in enumerate(machine.levels):
        read, write = level.read_energy, level.write_energy
        if traffic:
            read = write = Rate(read.amount * 0 + (place == 0))
        keep = "All" if place else intermediates
        found.append(memory(level, read, write, keep) | fanout(above))
        above = level.spatial
    return [*found, compute(machine, problem.cascade, traffic) | fanout(above)]


def memory(level: Level, read: Rate, write: Rate, keep: str) -> dict[str, Any]:
    """One level. `keep` is the set of tensors that must be held there, the others may."""
    if level.holds is not None:
        raise NotComparable(f"level {level.name} holds only some tensors: only levels that hold everything")
    if level.double_buffer:
        raise NotComparable(f"level {level.name} is double-buffered: AccelForge has no such level")
    actions = [action("read", read), action("write", write)]
    return {
        "kind": "Memory",
        "name": level.name,
        "size": "inf" if level.capacity is None else level.capacity,
        "leak_power": 0,
        "area": 0,
        "tensors": {"keep": keep, "may_keep": "All"},
        "actions": actions,
    }


def action(name: str, energy: Rate) -> dict[str, Any]:
    """A read or a write of one bit or of one value; time is not compared, so it takes none."""
    amount = {"name": name, "energy": float(energy.amount), "throughput": "inf"}
    return amount | ({"bits_per_action": 1} if energy.per == "bit" else {"values_per_action": {"All": 1}})


def fanout(dimensions: tuple[SpatialDim, ...]) -> dict[str, Any]:
    """The instances of a node; both tools multicast inputs and reduce outputs over them."""
    for dimension in dimensions:
        if not (dimension.multicast and dimension.reduce):
            raise NotComparable(f"dimension {dimension.name} cannot multicast and reduce: only ones that can")
    if not dimensions:
        return {}
    return {"spatial": [{"name": dim.name, "fanout": dim.size} for dim in dimensions]}


def compute(machine: Hardware, cascade: Cascade, traffic: bool) -> dict[str, Any]:
    """The compute unit: one that takes any rank on any dimension and holds nothing between steps."""
    if len(machine.compute) != 1:
        raise NotComparable(f"machine {machine.name} has several compute units: only one")
    unit: ComputeUnit = machine.compute[0]
    if unit.kind != "free" or unit.registers or unit.instances.size != 1:
        raise NotComparable(f"unit {unit.name}: only one free array without registers")
    for einsum in cascade.einsums:
        if einsum.op not in unit.ops or dict(einsum.cost) != {einsum.op: 1}:
            raise NotComparable(f"Einsum {einsum.name}: only one operation per point that {unit.name} lists")
    energies = {unit.ops[einsum.op].energy for einsum in cascade.einsums}
    if len(energies) != 1:
        raise NotComparable("operations of different energy: AccelForge's unit has one")
    energy = 0.0 if traffic else float(energies.pop())
    point = {"name": "compute", "energy": energy, "throughput": 1}
    return {"kind": "Compute", "name": unit.name, "leak_power": 0, "area": 0, "actions": [point]}


def workload(cascade: Cascade) -> dict[str, Any]:
    """Ranks in capitals with their extents, Einsums with their accesses, bits of every tensor."""
    ranks: dict[str, tuple[str, ...]] = {}
    for einsum in cascade.einsums:
        for access in (einsum.output, *einsum.inputs):
            if not access.plain or ranks.setdefault(access.tensor, access.ranks) != access.ranks:
                raise NotComparable(f"{access}: only plain indices, the same wherever a tensor is used")
    if any(rank != rank.lower() for rank in cascade.ranks):
        raise NotComparable("AccelForge writes ranks in small letters")
    return {
        "rank_sizes": {rank.upper(): extent for rank, extent in cascade.ranks.items()},
        "bits_per_value": {tensor.name: tensor.bits for tensor in cascade.tensors.values()},
        "einsums": [equation(einsum) for einsum in cascade.einsums],
    }


def equation(einsum: Einsum) -> dict[str, Any]:
    accesses = [operand(access, output=False) for access in einsum.inputs]
    return {"name": einsum.name, "tensor_accesses": [*accesses, operand(einsum.output, output=True)]}


def operand(access: Access, *, output: bool) -> dict[str, Any]:
    return {"name": access.tensor, "projection": list(access.ranks), "output": output}
