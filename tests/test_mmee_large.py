"""The enumeration of cascades of more than four Einsums: partitions, bounds, quick starts."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from golden_instances import Instance, instances
from random_dags import problem as random_dag
from two_operator_problems import problem as random_problem

from exactile import Cascade, Mapspace, Problem
from exactile.compare_text import space
from exactile.formulation.core import evaluate, violations
from exactile.formulation.problem import Objective
from exactile.solver.construct import construct
from exactile.solver.cpsat import cpsat
from exactile.solver.engine import Control, Size, UnsupportedProblem
from exactile.solver.engines import choose
from exactile.solver.mmee import mmee
from exactile.solver.mmee.additive import Additive
from exactile.solver.mmee.candidates import coupled
from exactile.solver.mmee.master import Master
from exactile.solver.mmee.size import space_size
from exactile.solver.mmee.support import Limits
from exactile.solver.orders import candidate_groups, partitions, stages
from hand_made import machine


def graph(seed: int, einsums: int) -> Problem:
    """A random DAG of elementwise Einsums."""
    rng = random.Random(seed)
    texts = []
    for number in range(einsums):
        made = [f"T{other}" for other in range(number)]
        reads = rng.sample(made, min(len(made), rng.randint(0, 2))) or [f"I{number}"]
        texts.append(f"T{number}[a] = {' + '.join(f'{name}[a]' for name in reads)}")
    order = rng.choice(["search", "given"])
    return Problem(Cascade({"a": 4}, texts), machine(), mapspace=Mapspace(order=order))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_the_master_finds_the_cheapest_of_all_partitions(seed: int) -> None:
    problem, rng = graph(seed, 2 + seed % 5), random.Random(seed)
    groups = [group for group in candidate_groups(problem) if len(group) == 1 or rng.random() < 0.8]
    costs = {group: (rng.randint(1, 5 * len(group)), rng.randint(0, 3)) for group in groups}
    values = {
        tuple(sorted(parts)): tuple(map(sum, zip(*(costs[part] for part in parts), strict=True)))
        for parts in partitions(problem, groups)
    }
    master = Master(problem, groups)
    found = master.partition(costs)
    assert found is not None and found[0] == min(values.values()) == values[tuple(sorted(found[1]))]
    for group, least in master.through(costs).items():
        assert least == min(value for parts, value in values.items() if group in parts)


def test_partitions_run_in_an_order_that_the_graph_allows() -> None:
    """`T0` and `T2` around `T1` cannot be a group of their own."""
    texts = ["T0[a] = I[a]", "T1[a] = T0[a]", "T2[a] = T1[a] + T0[a]"]
    problem = Problem(Cascade({"a": 4}, texts), machine())
    groups = candidate_groups(problem)
    assert ("T0", "T2") not in groups and ("T0", "T1", "T2") in groups
    assert Master(problem, [("T0", "T2"), ("T1",)]).partition({("T0", "T2"): (1,), ("T1",): (1,)}) is None


def test_of_too_many_orders_only_the_written_one_is_searched() -> None:
    wide = Problem(Cascade({"a": 4}, [f"T{i}[a] = I{i}[a]" for i in range(12)]), machine())
    done, every = stages(wide)
    assert not every and len(done) == 13
    assert stages(replace(wide, mapspace=Mapspace(order="given"))) == (done, True)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_of_what_is_not_listed_hold(seed: int) -> None:
    """However little is listed: bound ≤ optimum ≤ value, and `optimal` only with the optimum."""
    one = random_problem(seed)
    if coupled(one.objective):
        return
    whole = mmee(one, Control())
    for limits in (Limits(einsums=1), Limits(steps=200), Limits(pairs=3_000)):
        search = Additive(one, Control(), limits)
        search.search_all = search._small_first  # type: ignore[method-assign]
        part = search.run()
        if whole.bound is None:
            assert part.status in ("infeasible", "unknown") and part.mapping is None
            continue
        assert part.bound is not None and part.bound <= whole.bound
        if part.mapping is not None:
            value = evaluate(one.cascade, one.hardware, part.mapping).quantity(one.objective.minimize)
            assert value >= whole.bound and (value == part.bound) == (part.status == "optimal")


@pytest.mark.parametrize("one", [i for i in instances() if i.operators > 4], ids=str)
@pytest.mark.slow
def test_golden_optima_of_six_einsums(one: Instance) -> None:
    outcome = mmee(Problem(one.cascade, one.hardware, Objective(one.objective, ()), one.mapspace), Control())
    assert outcome.status == "optimal" and outcome.bound == one.optimum


def chain(length: int, capacity: int = 600, objective: str = "dram_traffic") -> Problem:
    """`T0[m,r0] = X·W0`, `T1[m,r1] = T0·W1`, …"""
    ranks = {"m": 12, "x": 6, **{f"r{i}": (8, 6, 4)[i % 3] for i in range(length)}}
    texts, last = [], "X[m,x]"
    for number in range(length):
        column = last[last.index(",") + 1 : -1]
        texts.append(f"T{number}[m,r{number}] = {last} * W{number}[{column},r{number}]")
        last = f"T{number}[m,r{number}]"
    dram, glb = machine().levels
    hardware = replace(machine(), levels=(dram, replace(glb, capacity=capacity)))
    return Problem(Cascade(ranks, texts), hardware, Objective(objective, ()))


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [500, 1500])
def test_a_chain_against_the_solver(capacity: int) -> None:
    problem = chain(5, capacity)
    solved, listed = cpsat(problem, Control(20)), mmee(problem, Control(3))
    assert solved.status == "optimal" and solved.bound is not None and listed.bound is not None
    assert listed.mapping is not None and listed.bound <= solved.bound
    assert violations(problem.cascade, problem.hardware, listed.mapping, problem.mapspace) == ()
    value = evaluate(problem.cascade, problem.hardware, listed.mapping).quantity("dram_traffic")
    assert value >= solved.bound and (listed.status == "optimal") == (value == listed.bound)


@pytest.mark.parametrize("seed", [3, 7, 11, 15, 19, 27, 31, 39])
def test_five_einsums_against_the_solver(seed: int) -> None:
    """Where both prove an optimum it is the same, key by key; the solver does not try more than 24 orders."""
    problem = random_dag(seed)
    assert len(problem.cascade.einsums) == 5
    scores = []
    for engine in (mmee, cpsat):
        outcome = engine(problem, Control(60))
        assert outcome.mapping is not None and (outcome.status == "optimal" or engine is cpsat)
        cost = evaluate(problem.cascade, problem.hardware, outcome.mapping)
        scores.append(tuple(cost.quantity(key) for key in problem.objective.keys))
    assert scores[0] == scores[1] if outcome.status == "optimal" else scores[0] <= scores[1]


def test_a_stopped_search_has_a_valid_bound() -> None:
    problem = chain(8)
    outcome = mmee(problem, Control(0.3))
    assert outcome.status in ("feasible", "unknown") and outcome.bound is not None
    assert outcome.bound <= cpsat(problem, Control(20)).bound  # type: ignore[operator]


def test_what_does_not_add_up_over_groups_is_refused_for_large_cascades() -> None:
    with pytest.raises(
        UnsupportedProblem, match=r"energy × latency for cascades of at most 4 Einsums.* has 5"
    ):
        mmee(chain(5, objective="edp"), Control())


def test_auto_solves_where_groups_are_too_large_to_list() -> None:
    choice = choose(chain(12))
    assert choice.facts.name == "cpsat" and "groups too large to list" in choice.why


def test_a_size_with_groups_left_out_is_a_lower_bound() -> None:
    problem = chain(6)
    small, size = space_size(replace(problem, mapspace=Mapspace(fusion="none"))), space_size(problem)
    assert small.exact and not size.exact and 0 < size.unlisted < size.groups
    assert size.pairs > small.pairs and str(size).startswith("at least ") and "groups too large" in str(size)


def test_numbers_that_are_lower_bounds_are_marked_in_a_comparison() -> None:
    assert space(Size(3, 20, 60)) == "60 pairs (3 structures, up to 20 tilings)"
    assert space(Size(3, 20, 60, complete=False)) == "≥ 60 pairs"
    left_out = Size(9, 8, 314_159_265_358_979, groups=122, unlisted=17)
    assert space(left_out) == "≥ 3.1e14 pairs, 17 of 122 groups too large to list"


@pytest.mark.parametrize("objective", ["dram_traffic", "energy", "latency", "edp"])
def test_a_quick_start_is_legal_and_no_worse_than_no_fusion(objective: str) -> None:
    problem = chain(8, objective=objective)
    mapping = construct(problem, Control(10))
    assert mapping is not None
    assert violations(problem.cascade, problem.hardware, mapping, problem.mapspace) == ()
    if objective != "edp":
        alone = mmee(replace(problem, mapspace=Mapspace(fusion="none")), Control())
        assert alone.bound is not None
        assert evaluate(problem.cascade, problem.hardware, mapping).quantity(objective) <= alone.bound


def test_a_quick_start_in_another_order() -> None:
    texts = ["A[m] = X[m,k]", "B[m] = Y[m,k]", "C[m] = A[m]", "D[m] = B[m] + C[m]"]
    problem = Problem(Cascade({"m": 4, "k": 4}, texts), machine(), Objective("dram_traffic", ()))
    order = ("A", "C", "B", "D")
    mapping = construct(problem, Control(10), order)
    assert mapping is not None and [name for group in mapping.groups for name in group.order] == list(order)
    assert problem.cascade.einsums[1].name == "B"
