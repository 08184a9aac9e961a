"""The time limit and the stop button of the real engine on real problems."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest
from proved import proved

from exactile import load_problem, optimize
from exactile.formulation.core import evaluate, violations
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome
from exactile.solver.mmee import mmee

LATE = 1.5
"""Seconds that an answer may take longer than asked: blocks of work are finished, the mapping decoded."""

PROBLEMS = ("gpt3-6.7b-attention", "llama3-8b-attention", "gpt3-6.7b-attention-latency")
LIMITS = (0.05, 0.3, 1.0)


@cache
def real(name: str) -> Problem:
    """An attention layer with all tile sizes; nobody waits for its optimum here."""
    problem = load_problem(name)
    return replace(problem, mapspace=replace(problem.mapspace, tile_sizes="all"))


@cache
def reachable(name: str) -> Fraction:
    """The least value with divisors alone: no bound may lie above it."""
    return proved(load_problem(name)).quantity(real(name).objective.minimize)


def judge(name: str, outcome: Outcome) -> None:
    """What a stopped search returns is legal, costs at least its bound, and the bound is one."""
    problem, minimize = real(name), real(name).objective.minimize
    assert outcome.bound is not None and 0 < outcome.bound <= reachable(name)
    if outcome.status == "unknown":
        assert outcome.mapping is None
        return
    assert outcome.status in ("feasible", "optimal") and outcome.mapping is not None
    assert violations(problem.cascade, problem.hardware, outcome.mapping, problem.mapspace) == ()
    value = evaluate(problem.cascade, problem.hardware, outcome.mapping).quantity(minimize)
    assert outcome.bound <= value
    assert outcome.status == "feasible" or outcome.bound == value <= reachable(name)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_time_limit_is_kept(name: str, limit: float) -> None:
    real(name), reachable(name)
    start = time.monotonic()
    outcome = mmee(real(name), Control(limit))
    assert time.monotonic() - start <= limit + LATE
    judge(name, outcome)
    assert outcome.status != "unknown", "a mapping of this layer is found at once"


def test_a_search_that_may_finish_is_not_cut_short() -> None:
    """The optimum of this layer is the same with and without a limit that is long enough."""
    problem = load_problem("bert-base-attention")
    limited, free = mmee(problem, Control(60)), mmee(problem, Control())
    assert limited.status == free.status == "optimal" and limited.bound == free.bound


def test_the_best_so_far_only_gets_better() -> None:
    control = Control(1.0)
    mmee(real("gpt3-6.7b-attention"), control)
    values = [point.incumbent for point in control.trace if point.incumbent is not None]
    assert values and values == sorted(values, reverse=True)
    assert all(point.bound is None or point.bound <= values[-1] for point in control.trace)


@pytest.mark.parametrize("after", [0.0, 0.2])
def test_stopping_from_another_thread(after: float) -> None:
    """`Control.stop` is all that Ctrl-C does; the search looks at it between blocks of work."""
    name = PROBLEMS[0]
    real(name), reachable(name)
    control = Control()
    timer = threading.Timer(after, control.stop)
    timer.start()
    start = time.monotonic()
    outcome = mmee(real(name), control)
    assert time.monotonic() - start <= after + LATE
    timer.join()
    judge(name, outcome)


def test_a_stopped_answer_is_verified_like_any_other() -> None:
    solution = optimize(real(PROBLEMS[0]), time_limit=0.3)
    assert solution.status == "feasible" and not solution.interrupted
    assert solution.verified.legal and solution.verified.rescored and solution.verified.replayed
    assert solution.gap is not None and 0 < solution.gap < 1


@pytest.mark.slow
def test_the_bound_of_a_stopped_search_is_below_the_optimum() -> None:
    name = PROBLEMS[0]
    optimum = proved(real(name)).quantity(real(name).objective.minimize)
    for limit in (*LIMITS, 2.0):
        outcome = mmee(real(name), Control(limit))
        judge(name, outcome)
        assert outcome.bound is not None and outcome.bound <= optimum
