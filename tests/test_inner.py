"""What the tables of unit uses say, against the core: use by use, and the least over all uses there are."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from brute_force_cost import Ruler, unit_mappings
from two_operator_problems import machine

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.cost import Traffic
from exactile.formulation.encoding.inner import UnitFamily, pass_counts, unit_families
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.formulation.units import candidates
from exactile.solver.engine import Control
from exactile.solver.mmee import mmee

SEEDS, CHUNK = 120, 20
EQUATIONS = (
    "Z[m,n] = A[m,k] * B[k,n]",
    "Z[m,n] = A[m,k] * B[k,n]",
    "Z[m,n] = A[m,k] * B[k,n]",
    "Z[h,m,n] = A[h,m,k] * B[h,k,n]",
    "Z[h,m] = A[h,m,k] * B[k]",
    "Z[m,n] = A[m] * B[n]",
    "Z[m,n] = exp(A[m,n])",
    "Z[m] = A[m,k] * B[m,k] * C[k]",
)

met: Counter[str] = Counter()


def case(seed: int) -> tuple[Cascade, Hardware, Mapping]:
    """A random Einsum on a random machine with a random nest and residencies; any unit use is wanting."""
    rng = random.Random(f"inner {seed}")
    ranks = {rank: rng.choice((1, 2, 3, 4, 5, 6)) for rank in "hmkn"}
    cascade = Cascade(ranks, [EQUATIONS[seed % len(EQUATIONS)]])
    (einsum,) = cascade.einsums
    order = rng.sample(einsum.ranks, len(einsum.ranks))
    nest = tuple(Loop(rank, rng.randint(1, ranks[rank])) for rank in order)
    loops = [loop.rank for loop in nest if loop.tile < ranks[loop.rank]]
    buffers = tuple(
        Buffer(access.tensor, (einsum.name,), frozenset(loops[: rng.randint(0, len(loops))]))
        for access in (*einsum.inputs, einsum.output)
    )
    kept = tuple(loop for loop in nest if loop.rank in loops)
    unit = UnitMapping("")
    hardware = machine(rng, 1 << 20, starved=False)
    return cascade, hardware, Mapping((Group((einsum.name,), {einsum.name: kept}, buffers, {"Z": unit}),))


def using(mapping: Mapping, unit: UnitMapping) -> Mapping:
    (group,) = mapping.groups
    return Mapping((replace(group, inner={"Z": unit}),))


def whole(cascade: Cascade) -> Mapping:
    """One pass: everything held whole."""
    (einsum,) = cascade.einsums
    buffers = tuple(Buffer(a.tensor, ("Z",), frozenset()) for a in (*einsum.inputs, einsum.output))
    return Mapping((Group(("Z",), {"Z": ()}, buffers, {"Z": UnitMapping("")}),))


def use_of(family: UnitFamily, member: int) -> UnitMapping:
    return UnitMapping(
        family.unit.name, family.dataflow, family.transposed, family.spatial(member), family.order
    )


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_use_in_the_tables_counts_what_the_core_counts(first: int) -> None:
    """One pass over the whole tensors: reads of every input, writes of the result, steps."""
    for seed in range(first, first + CHUNK):
        cascade, hardware, _ = case(seed)
        (einsum,) = cascade.einsums
        tiles = {rank: np.array([float(cascade.ranks[rank])]) for rank in einsum.ranks}
        rng = random.Random(seed)
        for family in unit_families(hardware, einsum, cascade.ranks, cycles=True):
            counts = pass_counts(hardware, einsum, family, tiles)
            for member in rng.sample(range(len(family)), min(5, len(family))):
                chosen = using(whole(cascade), use_of(family, member))
                assert violations(cascade, hardware, chosen) == (), (seed, chosen)
                found = evaluate(cascade, hardware, chosen).groups[0]
                for access, reads in zip(einsum.inputs, counts.reads, strict=True):
                    seen = found.traffic["GLB", "Z", access.tensor]
                    assert seen.reads == reads[min(member, len(reads) - 1), 0], (seed, chosen)
                # every value written is read once: by the next update of a partial sum, or to be drained
                writes = int(counts.writes[min(member, len(counts.writes) - 1), 0])
                assert found.traffic["GLB", "Z", "Z"] == Traffic(writes, writes), (seed, chosen)
                per_step = sum(
                    count * (family.unit.ops.get(op) or family.unit.ops["ew"]).cycles
                    for op, count in einsum.cost.items()
                )
                steps = Fraction(int(counts.steps[min(member, len(counts.steps) - 1), 0]))
                assert found.cycles[family.unit.name] == steps * per_step, (seed, chosen)
                met[family.unit.kind] += 1
                met["transposed"] += family.transposed
                met["several ranks on one dimension"] += _crowded(chosen)
                met["held operands"] += bool(family.unit.registers)
                met["copies"] += any((copies > 1).any() for copies in (*family.copies, family.partials))


def _crowded(mapping: Mapping) -> bool:
    unit = mapping.groups[0].inner["Z"]
    assert isinstance(unit, UnitMapping)
    dims = Counter(dim for factors in unit.spatial.values() for dim in factors)
    return any(count > 1 for count in dims.values())


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_least_of_the_tables_is_the_least_of_all_uses(first: int) -> None:
    """Energy, cycles and their product of a given nest, every use of every unit tried by the core."""
    for seed in range(first, first + CHUNK):
        cascade, hardware, given = case(seed)
        (einsum,), (group,) = cascade.einsums, given.groups
        uses = list(unit_mappings(Ruler(Problem(cascade, hardware)), einsum))
        if len(uses) > 600:
            uses = random.Random(seed).sample(uses, 600)
        costs = [evaluate(cascade, hardware, using(given, use)) for use in uses]
        loops = {loop.rank: loop.tile for loop in group.nests["Z"]}
        tiles = {rank: loops.get(rank, cascade.ranks[rank]) for rank in einsum.ranks}
        order = tuple(loops) + tuple(rank for rank in einsum.ranks if rank not in loops)
        pins = Mapspace(
            "all", tiles=tiles, orders={"Z": order}, residency={b.tensor: b.outside for b in group.buffers}
        )
        for name in ("energy", "latency", "edp"):
            outcome = mmee(Problem(cascade, hardware, Objective(name, ()), pins), Control())
            least = min(cost.quantity(name) for cost in costs)
            assert outcome.status == "optimal" and outcome.bound is not None, (seed, outcome.reason)
            if len(uses) < 600:
                assert outcome.bound == least, (seed, name, given)
            else:
                assert outcome.bound <= least, (seed, name, given)
        met["all uses"] += len(uses) < 600
        met[" ".join(sorted({unit.kind for unit in candidates(hardware, einsum)}))] += 1


def test_the_cases_are_of_every_kind() -> None:
    """Runs after the others and looks at what they met; alone, it has nothing to judge."""
    if not met["all uses"] or not met["systolic"]:
        pytest.skip("needs the whole file in one process")
    kinds = ("systolic", "free", "vector", "transposed", "held operands", "copies")
    for kind in (*kinds, "several ranks on one dimension"):
        assert met[kind] >= 10, (kind, met)
    assert met["all uses"] >= 0.8 * SEEDS
