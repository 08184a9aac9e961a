"""CP-SAT, MMEE and MILP against brute force on random DAGs of two to five Einsums.

Every answer is proved, equal to the brute force, legal, replayed with the counts of the core, and its
numbers are those of `numpy.einsum`; the cases together must be worth having.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from brute_force import BruteForce
from brute_force_dags import BruteForceDags
from random_dags import problem
from random_mappings import MappingDraw
from strategies import random_inputs
from two_operator_problems import problem as two_operators

from exactile.formulation.core import evaluate, violations
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.solver.cpsat import cpsat
from exactile.solver.engine import Control
from exactile.solver.milp import milp
from exactile.solver.mmee import mmee
from exactile.solver.replay import reference, replay

FAST, ALL, CHUNK = 24, 360, 12
SECONDS = 120.0
MMEE_EINSUMS = 4
TELLING = (94, 109, 231, 255, 274)
"""An Einsum without ranks; a buffer given up in a shared loop that is not its own; what would be overwritten
is read outside the group."""

met: Counter[str] = Counter()


def replayed(one: Problem, mapping: Mapping, seed: int) -> None:
    """The loops do what the core counts, and the numbers are right."""
    inputs = random_inputs(one.cascade, seed)
    observed = replay(one.cascade, one.hardware, mapping, numbers=inputs)
    computed = evaluate(one.cascade, one.hardware, mapping)
    for seen, counted in zip(observed.groups, computed.groups, strict=True):
        assert seen.peak == counted.peak, seed
        assert seen.executions == counted.executions, seed
        assert seen.cycles == counted.cycles, seed
        assert {k: t for k, t in seen.traffic.items() if t.reads or t.writes} == {
            k: t for k, t in counted.traffic.items() if t.reads or t.writes
        }, seed
    right = reference(one.cascade, inputs)
    outputs = {name for name, tensor in one.cascade.tensors.items() if tensor.role == "output"}
    assert outputs <= set(observed.values), seed
    for tensor, values in observed.values.items():
        np.testing.assert_allclose(values, right[tensor], rtol=1e-9, atol=1e-9, err_msg=f"{tensor}, {seed}")


def check(one: Problem, engine: str, best: Fraction | None, seed: int) -> None:
    """The engine proves what the brute force found, with a mapping that does what it says."""
    outcome = {"cpsat": cpsat, "mmee": mmee, "milp": milp}[engine](one, Control(SECONDS))
    if best is None:
        assert outcome.status == "infeasible" and outcome.mapping is None, (engine, seed)
        return
    assert outcome.mapping is not None, (engine, seed)
    assert violations(one.cascade, one.hardware, outcome.mapping, one.mapspace) == (), (engine, seed)
    value = evaluate(one.cascade, one.hardware, outcome.mapping).quantity(one.objective.minimize)
    assert value >= best, (engine, seed, "better than the brute force")
    assert (outcome.status, outcome.bound, value) == ("optimal", best, best), (engine, seed)
    replayed(one, outcome.mapping, seed)


def drawn(seed: int) -> Problem:
    """The random problem, but of five Einsums most run in the written order: up to 120 orders take long."""
    one = problem(seed)
    if len(one.cascade.einsums) <= MMEE_EINSUMS or seed % 16 == 3:
        return one
    return replace(one, mapspace=replace(one.mapspace, order="given"))


def compare(seed: int) -> None:
    """Check one problem and note what it is an example of."""
    one = drawn(seed)
    search = BruteForceDags(one)
    best = search.best()
    check(one, "cpsat", best, seed)
    if len(one.cascade.einsums) <= MMEE_EINSUMS and seed % 5 == 0:
        check(one, "mmee", best, seed)
    met.update(("problems", f"{len(one.cascade.einsums)} Einsums", one.objective.minimize))
    if best is None:
        met["infeasible"] += 1
        return
    for name, less in (
        ("fusion wins", search.best(fusion=False)),
        ("recomputation wins", search.best(recomputation=False)),
        ("sharing wins", search.best(sharing=False)),
    ):
        assert less is None or less >= best
        met[name] += less is None or less > best


@pytest.mark.parametrize("first", range(0, FAST, CHUNK))
def test_cpsat_finds_the_brute_force_optimum(first: int) -> None:
    for seed in range(first, first + CHUNK):
        compare(seed)


@pytest.mark.parametrize("seed", TELLING)
def test_enumeration_finds_it_where_it_is_easily_lost(seed: int) -> None:
    one = problem(seed)
    check(
        one, "mmee" if len(one.cascade.einsums) <= MMEE_EINSUMS else "cpsat", BruteForceDags(one).best(), seed
    )


def worth(total: int) -> None:
    """The shares that the cases must have."""
    assert met["fusion wins"] >= 0.3 * total, met
    assert met["recomputation wins"] >= 0.1 * total, met
    assert met["sharing wins"] >= 0.1 * total, met
    assert min(met[f"{count} Einsums"] for count in (2, 3, 4, 5)) >= 0.2 * total, met


def test_the_cases_are_worth_having() -> None:
    """Runs after the comparison and looks at what it met; alone, it has nothing to judge."""
    if met["problems"] < FAST:
        pytest.skip("needs the whole comparison in one process")
    worth(met["problems"])


@pytest.mark.slow
def test_all_random_cascades() -> None:
    met.clear()
    for seed in range(ALL):
        compare(seed)
    assert met["problems"] == ALL >= 300
    worth(ALL)


@pytest.mark.parametrize("seed", range(0, 12, 4))
def test_milp_proves_the_same(seed: int) -> None:
    one = problem(seed)
    check(one, "milp", BruteForceDags(one).best(), seed)


@pytest.mark.parametrize("first", range(400, 412, 12))
def test_no_random_mapping_is_better_than_the_brute_force(first: int) -> None:
    """Mappings drawn without a search: if the enumeration forgot a kind of mapping, one beats it."""
    tried = 0
    for seed in range(first, first + 12):
        one = replace(problem(seed), mapspace=Mapspace("all"))
        search, rng = BruteForceDags(one), random.Random(seed)
        best = search.best()
        draw = MappingDraw(rng, one.cascade, one.hardware)
        for _ in range(25):
            mapping = draw.mapping()
            if violations(one.cascade, one.hardware, mapping, one.mapspace) == ():
                value = evaluate(one.cascade, one.hardware, mapping).quantity(one.objective.minimize)
                assert best is not None and value >= best, (seed, mapping)
                tried += 1
    assert tried >= 8


@pytest.mark.parametrize("first", range(0, 10, 5))
def test_it_agrees_with_the_brute_force_of_chains(first: int) -> None:
    """Which knows softmaxes, arrays and pins, and was written for another kind of loop tree."""
    for seed in range(first, first + 5):
        one = two_operators(seed)
        for goal in ("dram_traffic", "latency"):
            alone = replace(one, objective=Objective(goal, ()))
            chain, dag = BruteForce(alone), BruteForceDags(alone)
            best = chain.best()
            assert (None if best is None else best[0]) == dag.best(), seed
            unfused = chain.best_unfused()
            if one.mapspace.fusion in ("free", "none"):
                assert (None if unfused is None else unfused[0]) == dag.best(fusion=False), seed
