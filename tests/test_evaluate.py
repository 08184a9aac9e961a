"""The analytical core against other people's counts, closed formulas, and the rules it must not follow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from math import ceil, prod
from pathlib import Path
from typing import Any

import pytest
from core_tools import UNIT, group, machine, mapping
from golden_instances import Instance, instances

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, fullest, violations
from exactile.formulation.cost import Cost, Traffic
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, SpatialDim
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping

TIMELOOP = json.loads((Path(__file__).parent / "golden" / "timeloop_counts.json").read_text())


def moved(cost: Cost, level: str, tensor: str) -> Traffic:
    """All traffic of a tensor at a level."""
    total = Traffic()
    for counts in cost.groups:
        for (where, _, what), amount in counts.traffic.items():
            if (where, what) == (level, tensor):
                total += amount
    return total


# --- golden optima -----------------------------------------------------------------------------------


@pytest.mark.parametrize("instance", instances(), ids=str)
def test_golden_mappings_are_legal_and_cost_what_the_exhaustive_search_said(instance: Instance) -> None:
    for chosen in (instance.energy_mapping, instance.latency_mapping):
        assert violations(instance.cascade, instance.hardware, chosen, instance.mapspace) == ()
        cost = evaluate(instance.cascade, instance.hardware, chosen)
        assert cost.dram_values == sum(score["dram"] for score in instance.scores)
        assert [counts.peak["GLB"] for counts in cost.groups] == [8 * s["peak"] for s in instance.scores]
        assert fullest(instance.cascade, instance.hardware, chosen)["GLB"].bits == cost.peak["GLB"]
    assert evaluate(instance.cascade, instance.hardware, instance.mapping).quantity(instance.objective) == (
        instance.optimum
    )


@pytest.mark.parametrize("instance", [i for i in instances() if i.bandwidth], ids=str)
def test_golden_energies_cycles_and_latencies(instance: Instance) -> None:
    assert instance.bandwidth is not None
    best = evaluate(instance.cascade, instance.hardware, instance.energy_mapping)
    assert best.energy == sum(score["energy"] for score in instance.scores)
    fast = evaluate(instance.cascade, instance.hardware, instance.latency_mapping)
    assert fast.cycles * instance.bandwidth == sum(score["latency"] for score in instance.scores)
    for counts, score in zip(fast.groups, instance.scores, strict=True):
        assert counts.cycles.get("array", 0) == score["matrix_cycles"]
        assert counts.cycles.get("vector", 0) == score["vector_cycles"]
    for cost in (best, fast):
        for split in (cost.energy_by_level, cost.energy_by_einsum):
            assert sum(split.values()) == cost.energy


# --- Timeloop ----------------------------------------------------------------------------------------


WINDOWED = pytest.mark.skip(reason="windowed input: index maps with sums are not covered yet")
CASES = [
    pytest.param(
        case, id=f"{number}-{case['name']}", marks=[WINDOWED] if case["name"].startswith("conv1d") else []
    )
    for number, case in enumerate(TIMELOOP)
]


def timeloop_problem(case: dict[str, Any]) -> tuple[Cascade, Hardware, Mapping]:
    """One matmul; two or three levels; one processing element per spatial position, nothing held."""
    spec = case["spec"]
    extents = {rank.lower(): extent for rank, extent in spec["dims"].items()}
    cascade = Cascade(extents, ["Z[m,n] = A[m,k] * B[k,n]"], bits=8)
    keep = spec.get("glb_keep")
    spread = {r.lower(): f for r, f in spec.get("spatial", {}).items() if f > 1}
    dims = tuple(SpatialDim(f"d{rank}", factor) for rank, factor in spread.items())
    levels = [Level("DRAM"), Level("GLB", 10**6, holds=frozenset(keep) if keep else None, spatial=dims)]
    orders = spec.get("dram_order_outer_to_inner") or spec.get("order_outer_to_inner") or "MNK"
    inner: Group | UnitMapping = UNIT
    blocks = tile_below(extents, {r: int(str(f).split(",")[0]) for r, f in spec["dram_factors"].items()})
    if "rf_factors" in spec:
        levels.append(Level("RF", 10**6))
        rf = {rank.lower(): factor for rank, factor in spec["rf_factors"].items()}
        nest = tuple(Loop(r.lower(), rf[r.lower()]) for r in spec["order_outer_to_inner"])
        factors = {"Z": {rank: {f"d{rank}": factor} for rank, factor in spread.items()}}
        inner = Group(("Z",), {"Z": nest}, private("A B Z", nest), {"Z": UNIT}, factors)
    nest = tuple(Loop(rank.lower(), blocks[rank.lower()]) for rank in orders)
    held = private(" ".join(keep or "ABZ"), nest)
    pe = ComputeUnit("pe", "free", {"mac": OpCost(Fraction(1))})
    top = Group(("Z",), {"Z": nest}, held, {"Z": inner})
    return cascade, Hardware("timeloop", tuple(levels), (pe,)), Mapping((top,))


def tile_below(extents: dict[str, int], factors: dict[str, int]) -> dict[str, int]:
    return {rank: ceil(extents[rank] / factors[rank.upper()]) for rank in extents}


def private(tensors: str, nest: tuple[Loop, ...]) -> tuple[Buffer, ...]:
    """Every tensor inside all loops, as Timeloop writes it; the core moves the buffers outward itself."""
    return tuple(Buffer(t, ("Z",), frozenset(loop.rank for loop in nest)) for t in tensors.split())


@pytest.mark.parametrize("case", CASES)
def test_access_counts_of_timeloop(case: dict[str, Any]) -> None:
    """`elide`: a fresh output tile is not read. Timeloop's output fills count it all the same, so what the
    level above reads is compared instead; it does not count what a buffer reads to drain; the imperfect
    case is compared outside the padded inner level."""
    cascade, hardware, chosen = timeloop_problem(case)
    assert violations(cascade, hardware, chosen) == ()
    cost = evaluate(cascade, hardware, chosen)
    counts = case["counts"]["elide"]
    levels = counts["levels"]
    imperfect = "imperfect" in case["name"]
    names = [level.name for level in hardware.levels]
    for tensor in "ABZ":
        above = None
        for name in (name for name in names if tensor in levels[name]):
            seen, ours = levels[name][tensor], moved(cost, name, tensor)
            reads, updates, fills = (
                seen[key] * seen["utilized_instances"]
                for key in ("scalar_reads", "scalar_updates", "scalar_fills")
            )
            if tensor == "Z" and above:
                reads, fills = reads + fills, levels[above]["Z"]["scalar_reads"]
            assert ours.writes == updates + fills or (imperfect and tensor == "Z" and above)
            assert ours.reads == reads or (imperfect and above)
            above = name
    assert cost.groups[0].executions == {"Z": counts["computes"]}
    assert imperfect or cost.groups[0].cycles == {"pe": counts["cycles"]}
    for name in names[1:]:
        assert cost.peak[name] == 8 * sum(t["utilized_capacity"] for t in levels[name].values())


# --- the two-operator formulas ------------------------------------------------------------------------

RANKS = {"i": 7, "l": 5, "k": 3, "j": 4}
TILES = {"i": 3, "l": 2, "k": 2, "j": 3}
TRIPS = {rank: ceil(RANKS[rank] / TILES[rank]) for rank in RANKS}
SHAPES = {"A": "ik", "B": "lk", "C": "il", "D": "lj", "E": "ij"}
PAIR = Cascade(RANKS, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"], bits=8)


def moved_outward(nest: str, shared: str, tensor: str, depth: int) -> str:
    while depth > len(shared) and nest[depth - 1] not in SHAPES[tensor]:
        depth -= 1
    return nest[:depth]


def pair_structures() -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Shared loops, both nests, and distinct residencies (as prefixes) of A, B, D and E."""
    seen = set()
    for size in range(4):
        for chosen in permutations("ilj", size):
            shared = "".join(chosen)
            firsts = ["".join(p) for p in permutations(set("ilk") - set(shared))]
            seconds = ["".join(p) for p in permutations(set("ilj") - set(shared))]
            for first in (shared + rest for rest in sorted(firsts)):
                for second in (shared + rest for rest in sorted(seconds)):
                    for depths in product_of(
                        len(first) + 1, len(first) + 1, len(second) + 1, len(second) + 1
                    ):
                        sets = {
                            t: moved_outward(first if t in "AB" else second, shared, t, d)
                            for t, d in zip("ABDE", depths, strict=True)
                        }
                        key = (shared, *(frozenset(s) for s in sets.values()))
                        if key not in seen:
                            seen.add(key)
                            yield shared, first, second, sets


def product_of(*sizes: int) -> Iterator[tuple[int, ...]]:
    return product(*(range(size) for size in sizes))


def test_closed_formulas_on_every_structure_of_two_operators() -> None:
    """Traffic and peak of model section "two operators": visits summed, the larger of two live sets."""

    def visits(tensor: str, outside: str) -> int:
        foreign = prod(TRIPS[r] for r in outside if r not in SHAPES[tensor])
        return prod(RANKS[r] for r in SHAPES[tensor]) * foreign

    def space(tensor: str, outside: str) -> int:
        return prod(TILES[r] if r in outside else RANKS[r] for r in SHAPES[tensor])

    hardware = machine()
    checked = 0
    for shared, first, second, sets in pair_structures():
        users = {"A": "C", "B": "C", "D": "E", "E": "E"}
        held = [f"{t} {users[t]} {' '.join(s)}" for t, s in sets.items()]
        nests = {e: " ".join(f"{r}:{TILES[r]}" for r in nest) for e, nest in (("C", first), ("E", second))}
        chosen = mapping(group(nests, f"C C+E {' '.join(shared)}", *held))
        cost = evaluate(PAIR, hardware, chosen)
        f = {t: space(t, s) for t, s in (sets | {"C": shared}).items()}
        early = sum(f[t] for t in "DE" if len(sets[t]) < len(shared))
        late = sum(f[t] for t in "AB" if len(sets[t]) < len(shared))
        executions = TRIPS["j"] if "j" in shared else 1
        assert cost.dram_values == (
            sum(visits(t, sets[t]) for t in "ABD") + 2 * visits("E", sets["E"]) - RANKS["i"] * RANKS["j"]
        )
        assert fullest(PAIR, hardware, chosen)["GLB"].bits == 8 * max(
            f["A"] + f["B"] + f["C"] + early, f["C"] + f["D"] + f["E"] + late
        )
        assert cost.macs == RANKS["i"] * RANKS["l"] * (RANKS["k"] * executions + RANKS["j"])
        checked += 1
    assert checked > 5000
