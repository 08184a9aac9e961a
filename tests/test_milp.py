"""MILP against the enumeration, the golden optima, and what HiGHS must not be believed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import highspy
import pytest
import two_operator_problems
from golden_instances import Instance, instances

import exactile as ex
from exactile.formulation.core import evaluate, violations
from exactile.formulation.families.decode import decode
from exactile.formulation.families.model import Linear, Model, Quantity
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.solver.engine import Control, Outcome, UnsupportedProblem
from exactile.solver.exact.engine import formulations
from exactile.solver.milp import cbc, highs, milp
from exactile.solver.milp import session as session_module
from exactile.solver.milp.linear_program import LinearProgram
from exactile.solver.milp.session import MilpSession
from exactile.solver.milp.solved import Solved, Watch
from exactile.solver.milp.translate import translate
from exactile.solver.milp.write import write
from exactile.solver.mmee import mmee

QUICK = [seed for seed in range(26) if seed not in (7, 13, 15, 17)]
GOLDEN = {instance.id: instance for instance in instances()}


def score(problem: Problem, outcome: Outcome) -> tuple[Fraction, ...] | None:
    """All keys of the mapping, which must be legal and keep the limits."""
    if outcome.mapping is None:
        return None
    assert not violations(problem.cascade, problem.hardware, outcome.mapping, problem.mapspace)
    cost = evaluate(problem.cascade, problem.hardware, outcome.mapping)
    assert all(cost.quantity(key) <= most for key, most in problem.objective.subject_to.items())
    return tuple(cost.quantity(key) for key in problem.objective.keys)


def golden(number: int) -> Problem:
    instance: Instance = GOLDEN[number]
    objective = Objective(instance.objective, ())
    return Problem(instance.cascade, instance.hardware, objective, instance.mapspace, str(instance))


def check_agreement(seed: int) -> None:
    problem = two_operator_problems.problem(seed)
    expected, found = mmee(problem, Control()), milp(problem, Control(300))
    assert (found.status, found.bound) == (expected.status, expected.bound)
    assert score(problem, found) == score(problem, expected)
    assert found.proof == "milp (float, 1e-6)"


@pytest.mark.parametrize("seed", QUICK)
def test_agrees_with_the_enumeration(seed: int) -> None:
    check_agreement(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in range(0, 300, 6) if seed not in QUICK])
def test_agrees_with_the_enumeration_on_many(seed: int) -> None:
    check_agreement(seed)


@pytest.mark.parametrize("seed", [2, 9])
def test_cbc_stands_in_for_highs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "installed", lambda: cbc.solve)
    check_agreement(seed)


@pytest.mark.parametrize("number", [3, 9, 14, 24])
def test_golden_optima(number: int) -> None:
    found = milp(golden(number), Control(120))
    assert (found.status, found.bound) == ("optimal", GOLDEN[number].optimum)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        instance.id
        for instance in instances()
        if instance.operators == 2
        and instance.mapspace.tile_sizes == "divisors"
        and instance.objective in ("dram_traffic", "energy")
    ],
)
def test_every_golden_optimum_of_two_operators_with_divisors(number: int) -> None:
    found = milp(golden(number), Control(300))
    assert (found.status, found.bound) == ("optimal", GOLDEN[number].optimum)


@pytest.mark.parametrize("name", ["bert-base-attention", "crosscheck-h12-512"])
def test_dram_traffic_of_bert_base(name: str) -> None:
    problem = replace(ex.load_problem(name), objective=Objective("dram_traffic", ()))
    solution = ex.optimize(problem, "milp", 120, replay=False)
    assert (solution.status, solution.value) == ("optimal", 1_572_864)
    assert solution.proof == "milp (float, 1e-6)"


# limits and the stop button


HARD = 59
"""Energy of a feed-forward layer: many seconds from a proof."""


def check_limit(problem: Problem, optimum: Fraction, seconds: float) -> None:
    control = Control(seconds)
    found = milp(problem, control)
    value = score(problem, found)
    assert found.bound is not None
    assert all(point.incumbent is None or point.incumbent >= optimum for point in control.trace)
    assert all(point.bound is None or point.bound <= optimum for point in control.trace)
    assert found.bound <= optimum
    assert value is None or value[0] >= optimum
    if found.status == "optimal":
        assert found.bound == optimum


@pytest.mark.parametrize("seconds", [0.1, 1])
@pytest.mark.parametrize("number", [8, 41])
def test_bounds_hold_at_a_time_limit(number: int, seconds: float) -> None:
    check_limit(golden(number), GOLDEN[number].optimum, seconds)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.1, 1, 5])
@pytest.mark.parametrize("number", [8, 12, 15, 19, 41, 44, 49, 52, 59, 64, 78])
def test_bounds_hold_at_every_time_limit(number: int, seconds: float) -> None:
    check_limit(golden(number), GOLDEN[number].optimum, seconds)


def test_a_time_limit_is_not_called_a_proof() -> None:
    control = Control(1)
    found = milp(golden(HARD), control)
    assert found.status in ("feasible", "unknown")
    assert found.proof == "none"
    assert control.seconds < 20


def test_the_stop_button_ends_a_solve() -> None:
    control = Control(120)
    threading.Timer(2, control.stop).start()
    found = milp(golden(HARD), control)
    assert found.status in ("feasible", "unknown")
    assert control.seconds < 30


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    milp(golden(3), Control(0.5))
    assert capfd.readouterr() == ("", "")


# the encoding

STAIRCASES = [(2, 3, 7), (5, 4, 1), (0, 1, 6), (3, 9, 2), (1, 1, 8)]


@pytest.mark.parametrize("values", [*product(STAIRCASES, repeat=2), STAIRCASES[:3]], ids=str)
def test_products_are_exact_at_whole_numbers(values: Sequence[Sequence[int]]) -> None:
    """For every step of every staircase, the least result is the product, and half of it otherwise free."""
    model = Model()
    ladders = [[model.boolean(f"{k}.{step}") for step in range(2)] for k in range(len(values))]
    for low, high in ladders:
        model.implies((high,), low)
    factors = [
        Quantity(base, tuple(zip(ladder, rest, strict=True)))
        for ladder, (base, *rest) in zip(ladders, values, strict=True)
    ]
    value = model.product("product", factors)
    gate = model.boolean("gate")
    gated = model.where("gated", value, (gate,))
    whole = {"sum": Linear(0, (*value.terms, *gated.terms)).merged()}
    for places in product(range(3), repeat=len(values)):
        for opened in (0, 1):
            program = translate(model, whole.values())
            for ladder, place in zip(ladders, places, strict=True):
                for step, literal in enumerate(ladder):
                    program.lows[literal] = program.highs[literal] = int(step < place)
            program.lows[gate] = program.highs[gate] = opened
            target = LinearProgram("one", program, whole)
            assert target.aim("sum", {})
            solved = highs.solve(target.problem, target.variables, {}, 1e-9, quiet())
            taken = prod(row[place] for row, place in zip(values, places, strict=True))
            assert solved.status == "optimal"
            assert solved.value is not None
            assert solved.value * target.unit == pytest.approx(taken * (1 + opened), abs=1e-6)


def quiet() -> Watch:
    return Watch(Control(60), lambda value, bound: None)


# what a solver says is not believed


def traffic() -> Problem:
    work = ex.attention(1, 4, 8, softmax="none", name="small")
    machine = ex.hardware("unit-energy-32x32")
    outer, inner = machine.levels
    small = replace(machine, levels=(outer, replace(inner, capacity=8 * 48)))
    return Problem(work, small, Objective("dram_traffic", ()), Mapspace("divisors"), "small")


class Doctored:
    """HiGHS, except that `change` may alter what it says at each call."""

    def __init__(self, change: Any) -> None:
        self.change, self.calls = change, 0

    def __call__(
        self,
        problem: Any,
        variables: Sequence[Any],
        start: Mapping[Any, float],
        tolerance: float,
        watch: Watch,
    ) -> Solved:
        solved = highs.solve(problem, variables, start, tolerance, watch)
        self.calls += 1
        changed: Solved = self.change(self.calls, solved)
        return changed


def doctored(monkeypatch: pytest.MonkeyPatch, change: Any) -> tuple[MilpSession, Doctored]:
    fake = Doctored(change)
    monkeypatch.setattr(session_module, "installed", lambda: fake)
    return MilpSession(next(formulations(traffic()))), fake


def test_an_optimum_that_its_mapping_does_not_have_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(call: int, solved: Solved) -> Solved:
        assert solved.value is not None
        return replace(solved, value=solved.value * 0.99, bound=solved.value * 0.99)

    session, fake = doctored(monkeypatch, lie)
    answer = session.minimize("dram_traffic", {}, Control(60), lambda value, bound: None)
    assert answer.status == "feasible"
    assert fake.calls == 2, "asked again with a finer tolerance"


def test_one_doubtful_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(call: int, solved: Solved) -> Solved:
        assert solved.value is not None
        return replace(solved, value=solved.value * 0.99) if call == 1 else solved

    session, _ = doctored(monkeypatch, stumble)
    answer = session.minimize("dram_traffic", {}, Control(60), lambda value, bound: None)
    assert answer.status == "optimal"


def test_an_illegal_mapping_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is best as long as nothing looks at it is said to be illegal: the answer is another mapping."""
    session, _ = doctored(monkeypatch, lambda call, solved: solved)
    honest = session.minimize("dram_traffic", {}, Control(60), lambda *_: None)
    assert honest.holds is not None
    best = decode(session.formulation, honest.holds)

    def best_is_illegal(cascade: Any, hardware: Any, mapping: Any, space: Any) -> Sequence[object]:
        return ("too large",) if mapping == best else violations(cascade, hardware, mapping, space)

    monkeypatch.setattr(session_module, "violations", best_is_illegal)
    session, fake = doctored(monkeypatch, lambda call, solved: solved)
    answer = session.minimize("dram_traffic", {}, Control(60), lambda *_: None)
    assert answer.status == "optimal"
    assert answer.holds is not None
    assert decode(session.formulation, answer.holds) != best
    assert fake.calls >= 2


def test_a_known_solution_refutes_infeasibility(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(call: int, solved: Solved) -> Solved:
        return Solved("infeasible") if call == 2 else solved

    session, _ = doctored(monkeypatch, deny)
    first = session.minimize("dram_traffic", {}, Control(60), lambda value, bound: None)
    assert first.bound is not None
    again = session.minimize("dram_traffic", {"dram_traffic": first.bound}, Control(60), lambda *_: None)
    assert again.status == "feasible"


def test_a_limit_at_the_optimum_keeps_it_and_one_below_does_not() -> None:
    session = MilpSession(next(formulations(traffic())))
    first = session.minimize("dram_traffic", {}, Control(60), lambda *_: None)
    assert first.bound is not None
    same = session.minimize("dram_traffic", {"dram_traffic": first.bound}, Control(60), lambda *_: None)
    assert (same.status, same.bound) == ("optimal", first.bound)
    less = session.minimize("dram_traffic", {"dram_traffic": first.bound - 1}, Control(60), lambda *_: None)
    assert less.status == "infeasible"


# files


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
def test_the_written_model_has_the_same_optimum(suffix: str, tmp_path: Path) -> None:
    problem = traffic()
    path = tmp_path / f"model{suffix}"
    write(problem, path)
    solver = highspy.Highs()
    solver.silent()
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.run()
    expected = mmee(problem, Control()).bound
    assert expected is not None
    assert solver.getInfo().objective_function_value == pytest.approx(float(expected), rel=1e-6)


def test_energy_times_latency_has_no_linear_program(tmp_path: Path) -> None:
    problem = replace(traffic(), objective=Objective("edp", ()))
    with pytest.raises(UnsupportedProblem, match="not linear"):
        write(problem, tmp_path / "model.lp")
