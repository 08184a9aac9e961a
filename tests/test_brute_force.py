"""The brute force against the analytical core: two cost functions written apart from each other."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from brute_force import BruteForce
from brute_force_sample import sample
from golden_instances import Instance, instances
from two_operator_problems import problem

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost
from exactile.formulation.problem import Mapspace, Objective, Problem

EVERYTHING = Objective("dram_traffic", ("energy", "latency", "operations"))
CHUNK = 20


@pytest.mark.parametrize("first", range(0, 160, CHUNK))
def test_its_cost_function_and_its_rules_are_those_of_the_core(first: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        one = replace(problem(seed), objective=EVERYTHING)
        search, rng = BruteForce(one), random.Random(seed)
        for _ in range(6):
            mapping, values, peaks = sample(search, rng)
            cost = evaluate(one.cascade, one.hardware, mapping)
            assert {name: cost.quantity(name) for name in values} == values, (seed, mapping)
            assert cost.peak["GLB"] == max(peaks), (seed, mapping)
            capacity = search.capacity
            broken = violations(one.cascade, one.hardware, mapping, one.mapspace)
            assert bool(broken) == (capacity is not None and max(peaks) > capacity), (seed, broken)
            found["fits" if not broken else "too large"] += 1
            found["fused"] += any(len(group.order) > 1 for group in mapping.groups)
    assert min(found["fits"], found["too large"], found["fused"]) > 0


GOLDEN = [one for one in instances() if one.id in {1, 7, 13, 14, 24, 28}]


@pytest.mark.parametrize("one", GOLDEN, ids=str)
def test_it_finds_golden_optima(one: Instance) -> None:
    objective = Objective(one.objective, ())
    search = BruteForce(Problem(one.cascade, one.hardware, objective, one.mapspace))
    assert search.best() == (one.optimum,)
    assert search.best_without_recomputation() == (one.without_recomputation,)
    assert search.best_unfused() == (one.unfused,)


def _attention(ranks: dict[str, int], values: int, objective: str = "dram_traffic") -> Problem:
    work = Cascade(ranks, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"])
    vector = ComputeUnit("vector", "vector", {"ew": OpCost(Fraction(1))})
    machine = Hardware("plain", (Level("DRAM"), Level("GLB", values * 8)), (vector,))
    return Problem(work, machine, Objective(objective, ()))


def test_a_problem_done_by_hand() -> None:
    """Everything fits: each input once, the output once."""
    ranks = {"i": 4, "l": 6, "k": 2, "j": 3}
    everything = 4 * 2 + 6 * 2 + 4 * 6 + 6 * 3 + 4 * 3
    search = BruteForce(_attention(ranks, everything))
    assert search.best() == (4 * 2 + 6 * 2 + 6 * 3 + 4 * 3,)
    assert search.best_unfused() == (4 * 2 + 6 * 2 + 6 * 3 + 4 * 3 + 2 * 4 * 6,)


def test_two_values_are_too_few_and_three_are_enough() -> None:
    ranks = {"i": 2, "l": 2, "k": 2, "j": 2}
    assert BruteForce(_attention(ranks, 2)).best() is None
    assert BruteForce(_attention(ranks, 3)).best() is not None


@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_tile_of_each_trip_count_is_enough(seed: int) -> None:
    one = problem(1000 + seed)
    sizes = {rank: min(extent, 7) for rank, extent in one.cascade.ranks.items()}
    bits = {name: {"bits": tensor.bits} for name, tensor in one.cascade.tensors.items()}
    work = Cascade(sizes, one.cascade.einsums, tensors=bits)
    small = replace(one, cascade=work, mapspace=Mapspace("all"))
    assert BruteForce(small).best() == BruteForce(small, every_tile=True).best()
