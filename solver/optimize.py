"""From a problem to a verified solution: choose an engine, search, distrust the answer, return it."""

from __future__ import annotations

import time

from exactile.formulation.consistency import problem_faults
from exactile.formulation.cost import Cost
from exactile.formulation.faults import InputError
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome
from exactile.solver.engines import AUTO, choose
from exactile.solver.solution import Solution, Verified
from exactile.solver.verify import VerificationError, verify

DEFAULT_TIME_LIMIT = 120.0


def optimize(
    problem: Problem,
    engine: str = AUTO,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    *,
    control: Control | None = None,
    replay: bool = True,
) -> Solution:
    """The best mapping of `problem`, verified.

    `time_limit` is in seconds, `None` for none; a `control` made by the caller brings its own limit.
    The answer is checked for legality, costed anew in exact arithmetic and, unless `replay` is false,
    replayed loop by loop.

    Raises `InputError` for an unknown engine or a problem whose parts contradict each other,
    `UnsupportedProblem` if the engine cannot search this
    problem, `VerificationError` if the engine's answer is wrong (a bug of Exactile).
    """
    start = time.monotonic()
    if faults := problem_faults(problem):
        raise InputError(faults)
    choice = choose(problem, engine)
    search = choice.load()
    loaded = time.monotonic()
    control = control or Control(time_limit)
    outcome = search(problem, control)
    searched = time.monotonic()
    cost, verified = None, Verified()
    if outcome.mapping is not None:
        cost, verified = verify(problem, outcome.mapping, replay=replay)
    _check_claims(problem, choice.facts.name, outcome, cost)
    end = time.monotonic()
    return Solution(
        problem=problem,
        engine=choice.facts.name,
        status=outcome.status,
        mapping=outcome.mapping,
        cost=cost,
        bound=outcome.bound,
        proof=outcome.proof,
        reason=outcome.reason,
        interrupted=control.interrupted.is_set(),
        seconds={
            "total": end - start,
            "load": loaded - start,
            "search": searched - loaded,
            "verify": end - searched,
        },
        trace=tuple(control.trace),
        space=outcome.space,
        verified=verified,
        choice=choice.why,
    )


def _check_claims(problem: Problem, engine: str, outcome: Outcome, cost: Cost | None) -> None:
    """What the engine says about its mapping must be true of the rescored mapping."""
    if (outcome.status in ("optimal", "feasible")) != (cost is not None):
        have = "a mapping" if cost is not None else "no mapping"
        raise VerificationError(f"{engine} reports {outcome.status} but returns {have}")
    if outcome.status == "infeasible" and not outcome.reason:
        raise VerificationError(f"{engine} reports infeasible without a reason")
    if cost is None:
        return
    name = problem.objective.minimize
    value = cost.quantity(name)
    if outcome.bound is not None and outcome.bound > value:
        raise VerificationError(
            f"{name}: {engine} claims the bound {outcome.bound}, its mapping costs {value}"
        )
    if outcome.status == "optimal" and outcome.bound != value:
        raise VerificationError(
            f"{name}: {engine} claims the optimum {outcome.bound}, its mapping costs {value}"
        )
