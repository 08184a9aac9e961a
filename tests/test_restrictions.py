"""Every restriction of the mapspace, with the real engine: pinning the optimum keeps it, nothing gets better.

Problems are random with one softmax at most; for one Einsum the answer is compared with all its mappings.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any

import pytest
from core_tools import UNIT, machine
from two_operator_problems import problem as random_problem

from exactile.formulation.cascade import Cascade
from exactile.formulation.consistency import problem_faults
from exactile.formulation.core import evaluate, violations
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.solver.engine import Control, Outcome
from exactile.solver.mmee import mmee

SEEDS, CHUNK = 40, 10


@cache
def free(seed: int) -> tuple[Problem, Outcome]:
    """A random problem without pins and with every tile size, and its optimum."""
    one = random_problem(20_000 + seed)
    one = replace(one, mapspace=replace(one.mapspace, tile_sizes="all", tiles={}, fusion="free"))
    return one, mmee(one, Control())


def restricted(one: Problem, **changes: Any) -> Problem:
    return replace(one, mapspace=replace(one.mapspace, **changes))


def values(one: Problem, outcome: Outcome) -> tuple[Fraction, ...] | None:
    """The objective's keys of a proved optimum that keeps all restrictions; `None` if infeasible."""
    if outcome.status == "infeasible":
        assert outcome.mapping is None and outcome.reason, one
        return None
    assert outcome.status == "optimal" and outcome.mapping is not None, (outcome.status, outcome.reason)
    assert violations(one.cascade, one.hardware, outcome.mapping, one.mapspace) == (), one.mapspace
    cost = evaluate(one.cascade, one.hardware, outcome.mapping)
    assert outcome.bound == cost.quantity(one.objective.minimize), one.mapspace
    return tuple(cost.quantity(key) for key in one.objective.keys)


# what the optimum itself has, pinned


def orders(one: Problem, mapping: Mapping) -> dict[str, tuple[str, ...]]:
    found = {}
    for group in mapping.groups:
        for name, nest in group.nests.items():
            loops = tuple(loop.rank for loop in nest)
            rest = tuple(rank for rank in one.cascade.by_name[name].ranks if rank not in loops)
            found[name] = loops + rest
    return found


def residency(one: Problem, mapping: Mapping) -> dict[str, frozenset[str]]:
    """Of tensors that have one buffer, or the same residency in all."""
    found: dict[str, set[frozenset[str]]] = {}
    for group in mapping.groups:
        for buffer in group.buffers:
            found.setdefault(buffer.tensor, set()).add(buffer.outside)
    return {tensor: next(iter(sets)) for tensor, sets in found.items() if len(sets) == 1}


def tiles(one: Problem, mapping: Mapping) -> dict[str, int]:
    """Of ranks that every Einsum tiles alike."""
    found: dict[str, set[int]] = {}
    for group in mapping.groups:
        for name, nest in group.nests.items():
            loops = {loop.rank: loop.tile for loop in nest}
            for rank in (*one.cascade.by_name[name].ranks, *loops):
                found.setdefault(rank, set()).add(loops.get(rank, one.cascade.ranks[rank]))
    return {rank: next(iter(sizes)) for rank, sizes in found.items() if len(sizes) == 1}


def fusion(one: Problem, mapping: Mapping) -> tuple[tuple[str, ...], ...]:
    return tuple(group.order for group in mapping.groups)


PINS: dict[str, Callable[[Problem, Mapping], Any]] = {
    "orders": orders,
    "residency": residency,
    "tiles": tiles,
    "fusion": fusion,
}


@pytest.mark.parametrize("pinned", [*PINS, "all"])
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_pinning_the_optimum_keeps_it(first: int, pinned: str) -> None:
    for seed in range(first, first + CHUNK):
        one, outcome = free(seed)
        best = values(one, outcome)
        if outcome.mapping is None:
            continue
        names = PINS if pinned == "all" else [pinned]
        same = restricted(one, **{name: PINS[name](one, outcome.mapping) for name in names})
        assert problem_faults(same) == [], (seed, same.mapspace)
        assert values(same, mmee(same, Control())) == best, (seed, same.mapspace)


# random values, pinned


def random_pins(one: Problem, rng: random.Random, kind: str) -> dict[str, Any]:
    ranks = list(one.cascade.ranks)
    if kind == "orders":
        found = {}
        for einsum in rng.sample(one.cascade.einsums, rng.randint(1, len(one.cascade.einsums))):
            foreign = [rank for rank in ranks if rank not in einsum.ranks and rng.random() < 0.5]
            names = [*einsum.ranks, *foreign]
            found[einsum.name] = tuple(rng.sample(names, len(names)))
        return {kind: found}
    if kind == "residency":
        chosen = rng.sample(list(one.cascade.tensors), rng.randint(1, 2))
        return {kind: {t: frozenset(rank for rank in ranks if rng.random() < 0.4) for t in chosen}}
    if kind == "tiles":
        rank = rng.choice(ranks)
        return {kind: {rank: rng.randint(1, one.cascade.ranks[rank])}}
    names = [einsum.name for einsum in one.cascade.einsums]
    cut = rng.randint(0, len(names))
    return {kind: tuple(part for part in (tuple(names[:cut]), tuple(names[cut:])) if part)}


@pytest.mark.parametrize("kind", [*PINS, "all"])
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_pins_are_kept_and_never_better(first: int, kind: str) -> None:
    met: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        one, outcome = free(seed)
        best, rng = values(one, outcome), random.Random(f"{kind} {seed}")
        changes: dict[str, Any] = {}
        for name in rng.sample(list(PINS), 2) if kind == "all" else [kind]:
            changes |= random_pins(one, rng, name)
        pinned = restricted(one, **changes)
        if problem_faults(pinned):
            continue
        found = values(pinned, mmee(pinned, Control()))
        assert found is None or (best is not None and found >= best), (seed, pinned.mapspace)
        met["infeasible" if found is None else "worse" if found != best else "same"] += 1
    assert met["worse"] + met["same"] > 0


# switches

SWITCHES: dict[str, dict[str, Any]] = {
    "no recomputation": {"recomputation": False},
    "no fused outputs": {"fused_outputs": False},
    "no shared inputs": {"shared_inputs": False},
    "divisors": {"tile_sizes": "divisors"},
    "written order": {"order": "given"},
    "no fusion": {"fusion": "none"},
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_switches_are_kept_and_never_better(switch: str) -> None:
    for seed in range(SEEDS):
        one, outcome = free(seed)
        best = values(one, outcome)
        stricter = restricted(one, **SWITCHES[switch])
        found = values(stricter, mmee(stricter, Control()))
        assert found is None or (best is not None and found >= best), seed
        if switch == "written order":
            assert found == best, "two operators in a chain have one order"


def test_shared_inputs_can_be_forbidden() -> None:
    """Two matmuls of one input: fetched once if shared, twice if not."""
    cascade = Cascade({"m": 4, "k": 6, "n": 5}, ["Y[m,n] = X[m,k] * A[k,n]", "Z[m,n] = X[m,k] * B[k,n]"])
    one = Problem(cascade, machine(1 << 20), Objective("dram_traffic", ()))
    shared = values(one, mmee(one, Control()))
    apart = values(stricter := restricted(one, shared_inputs=False), mmee(stricter, Control()))
    assert shared is not None and apart is not None
    assert apart[0] - shared[0] == 4 * 6


# one Einsum: every mapping there is

EXTENTS = {"m": 4, "k": 3, "n": 2}
MATMUL = Cascade(EXTENTS, ["Z[m,n] = A[m,k] * B[k,n]"])
SMALL = machine(12 * 8)


@cache
def every() -> tuple[tuple[tuple[Fraction, ...], Mapping], ...]:
    """All legal mappings of the matmul on the small machine, best first."""
    objective = Objective("energy")
    found = []
    for mapping in _every():
        if not violations(MATMUL, SMALL, mapping):
            cost = evaluate(MATMUL, SMALL, mapping)
            found.append((tuple(cost.quantity(key) for key in objective.keys), mapping))
    return tuple(sorted(found, key=lambda entry: entry[0]))


def _every() -> Iterator[Mapping]:
    for chosen in product(*(range(1, extent + 1) for extent in EXTENTS.values())):
        sizes = dict(zip(EXTENTS, chosen, strict=True))
        loops = [rank for rank, tile in sizes.items() if tile < EXTENTS[rank]]
        for order in permutations(loops):
            nest = tuple(Loop(rank, sizes[rank]) for rank in order)
            for depths in product(range(len(order) + 1), repeat=3):
                buffers = tuple(
                    Buffer(tensor, ("Z",), frozenset(order[:depth]))
                    for tensor, depth in zip("ABZ", depths, strict=True)
                )
                yield Mapping((Group(("Z",), {"Z": nest}, buffers, {"Z": UNIT}),))


def random_mapspace(rng: random.Random) -> Mapspace:
    pins: dict[str, Any] = {"tile_sizes": rng.choice(("divisors", "all", "all"))}
    if rng.random() < 0.5:
        pins["orders"] = {"Z": tuple(rng.sample(list(EXTENTS), 3))}
    if rng.random() < 0.7:
        chosen = rng.sample("ABZ", rng.choice((1, 1, 2)))
        pins["residency"] = {t: frozenset(r for r in EXTENTS if rng.random() < 0.5) for t in chosen}
    if rng.random() < 0.5:
        rank = rng.choice(list(EXTENTS))
        divisors = [t for t in range(1, EXTENTS[rank] + 1) if EXTENTS[rank] % t == 0]
        pins["tiles"] = {rank: rng.choice(divisors)}
    return Mapspace(**pins)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_pins_of_one_einsum_against_all_its_mappings(first: int) -> None:
    met: Counter[str] = Counter()
    for seed in range(first, first + 50):
        mapspace = random_mapspace(random.Random(f"one {seed}"))
        one = Problem(MATMUL, SMALL, Objective("energy"), mapspace)
        best = next((v for v, m in every() if not violations(MATMUL, SMALL, m, mapspace)), None)
        assert values(one, mmee(one, Control())) == best, (seed, mapspace)
        met["infeasible" if best is None else "worse" if best > every()[0][0] else "same"] += 1
    assert met["worse"] >= 3
