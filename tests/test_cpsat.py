"""CP-SAT against the enumeration, the brute force's golden optima, time limits and the stop button."""

from __future__ import annotations

import threading
from dataclasses import replace
from fractions import Fraction

import pytest
from agreement import check, score
from golden_instances import Instance, instances
from ortools.sat.python import cp_model
from restricted_problems import restricted
from two_operator_problems import problem as random_problem

import exactile as ex
from exactile.formulation.problem import Objective, Problem
from exactile.solver.cpsat import cpsat
from exactile.solver.cpsat.session import configure
from exactile.solver.cpsat.translate import LARGEST, Translation
from exactile.solver.engine import Control, UnsupportedProblem
from exactile.solver.exact.engine import formulations

GOLDEN = {instance.id: instance for instance in instances()}
LONG = (78,)
"""Every tile size of 16 384 × 16 384: seconds."""


def golden(instance: Instance) -> Problem:
    return Problem(instance.cascade, instance.hardware, Objective(instance.objective, ()), instance.mapspace)


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_the_enumeration(seed: int) -> None:
    check(random_problem(seed), cpsat)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 300))
def test_agrees_with_the_enumeration_on_many(seed: int) -> None:
    check(random_problem(seed), cpsat)


@pytest.mark.parametrize("seed", [*range(20), 53, 70, 95, 401, 470, 494])
def test_agrees_under_restrictions(seed: int) -> None:
    check(restricted(seed), cpsat)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(20, 40), *range(100, 300)])
def test_agrees_under_many_restrictions(seed: int) -> None:
    check(restricted(seed), cpsat)


@pytest.mark.parametrize("number", [n for n, one in GOLDEN.items() if n not in LONG and one.operators <= 6])
def test_golden_optima(number: int) -> None:
    instance = GOLDEN[number]
    outcome = cpsat(golden(instance), Control(120))
    assert (outcome.status, outcome.bound) == ("optimal", instance.optimum)
    assert score(golden(instance), outcome) == (instance.optimum,)


@pytest.mark.slow
@pytest.mark.parametrize("number", LONG)
def test_golden_optimum_of_a_large_space(number: int) -> None:
    outcome = cpsat(golden(GOLDEN[number]), Control(300))
    assert (outcome.status, outcome.bound) == ("optimal", GOLDEN[number].optimum)


@pytest.mark.parametrize("seconds", [0.1, 1, 5])
@pytest.mark.parametrize("number", [8, 15, 41, 52, 59, 78])
def test_bounds_hold_at_a_time_limit(number: int, seconds: float) -> None:
    problem, optimum = golden(GOLDEN[number]), GOLDEN[number].optimum
    control = Control(seconds)
    outcome = cpsat(problem, control)
    assert outcome.bound is not None and outcome.bound <= optimum
    assert all(point.incumbent is None or point.incumbent >= optimum for point in control.trace)
    assert all(point.bound is None or point.bound <= optimum for point in control.trace)
    value = score(problem, outcome)
    assert value is None or value[0] >= optimum
    assert outcome.status != "optimal" or outcome.bound == optimum


@pytest.mark.parametrize("bytes_", [12, 40, 64, 400])
def test_a_rank_of_every_tensor_may_carry_a_statistic(bytes_: int) -> None:
    """No loop over it is shared, although every tensor has it."""
    softmax = {"einsum": "P[m,n] = softmax(S[m,n])", "over": "n", "mode": "row", "in_place": True}
    equations = ["S[m,n] = Q[m,n] * K[m,n]", softmax, "O[m,n] = P[m,n] * V[m,n]"]
    machine = ex.hardware("nvdla-like")
    dram, buffer = machine.levels
    small = replace(machine, levels=(dram, replace(buffer, capacity=8 * bytes_)))
    check(Problem(ex.Cascade({"m": 8, "n": 16}, equations), small, Objective("dram_traffic")), cpsat)


def test_the_stop_button_ends_a_search() -> None:
    layer = ex.load_problem("gpt3-6.7b-attention-latency")
    layer = replace(layer, mapspace=replace(layer.mapspace, tile_sizes="all"), objective=Objective("edp", ()))
    control = Control(None)
    threading.Timer(1.0, control.stop).start()
    outcome = cpsat(layer, control)
    assert outcome.status in ("feasible", "unknown", "optimal")
    assert control.seconds < 5


def test_numbers_beyond_what_cp_sat_counts_are_capped() -> None:
    """Energy of a sequence of 2^20 in single pieces is no number of 62 bits; its least energy is."""
    sides = {"m": 1 << 20, "n": 1 << 20, "e": 128, "f": 128}
    cascade = ex.Cascade(sides, ["S[m,n] = Q[m,e] * K[n,e]", "O[m,f] = S[m,n] * V[n,f]"])
    problem = Problem(cascade, ex.hardware("nvdla-like"), Objective("energy", ()))
    (formulation,) = formulations(problem)
    translation = Translation(formulation.model, formulation.costs.quantities)
    assert translation.beyond is not None
    assert (
        max(formulation.model.bounds(linear)[1] for linear in formulation.costs.quantities.values()) > LARGEST
    )
    check(problem, cpsat)


def test_every_number_of_a_proof_is_exact_beyond_floats() -> None:
    """The bound must not be the nearest float."""
    odd = Fraction((1 << 46) + 1)
    problem = replace(random_problem(17), objective=Objective("energy", ()))
    dram, buffer = problem.hardware.levels
    dear = replace(dram, read_energy=replace(dram.read_energy, amount=odd, per="value"))
    large = replace(problem, hardware=replace(problem.hardware, levels=(dear, buffer)))
    (formulation,) = formulations(large)
    outcome = cpsat(large, Control(60))
    assert outcome.bound is not None
    assert outcome.bound * formulation.costs.space.scale("energy") > 1 << 53
    check(large, cpsat)


def test_numbers_too_large_for_cp_sat_are_said_to_be() -> None:
    problem = replace(random_problem(17), objective=Objective("energy", ()))
    dram, buffer = problem.hardware.levels
    dear = replace(dram, read_energy=replace(dram.read_energy, amount=Fraction(1 << 80), per="value"))
    with pytest.raises(UnsupportedProblem, match="62 bits"):
        cpsat(replace(problem, hardware=replace(problem.hardware, levels=(dear, buffer))), Control(60))


SUSPECT = "linear + amo"
"""How CP-SAT's log names what the presolve step of google/or-tools #5293 changes."""


def presolve_log(seed: int, **changes: int) -> str:
    """What CP-SAT says while it solves a model with our parameters and `changes` to them."""
    (formulation,) = formulations(random_problem(seed))
    key = formulation.decisions.layout.problem.objective.measured[0]
    translation = Translation(formulation.model, {key: formulation.costs.quantities[key]})
    translation.target.minimize(translation.quantities[key])
    solver = cp_model.CpSolver()
    configure(solver, Control(60), presolve=True)
    for name, value in changes.items():
        setattr(solver.parameters, name, value)
    lines: list[str] = []
    solver.parameters.log_search_progress, solver.parameters.log_to_stdout = True, False
    solver.log_callback = lines.append
    solver.solve(translation.target)
    return "\n".join(lines)


@pytest.mark.parametrize("seed", [0, 1, 3, 5])
def test_the_presolve_step_that_certifies_wrong_optima_is_off(seed: int) -> None:
    """Without our switch the step does change these models; with it, never."""
    unsafe = cp_model.CpSolver().parameters.presolve_inclusion_work_limit
    assert SUSPECT in presolve_log(seed, presolve_inclusion_work_limit=unsafe)
    assert SUSPECT not in presolve_log(seed)
