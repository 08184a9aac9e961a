"""One engine on one problem: search, distrust the answer, return it verified."""

from __future__ import annotations

import time

from exactile.formulation.cost import Cost
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome
from exactile.solver.engines import Choice
from exactile.solver.solution import Solution, Verified
from exactile.solver.verify import VerificationError, verify


def run(problem: Problem, choice: Choice, control: Control, *, replay: bool = True) -> Solution:
    """What the engine found, checked for legality, costed anew and, unless `replay` is false, replayed.

    Raises `UnsupportedProblem` if the engine cannot search this problem, `VerificationError` if its answer is
    wrong (a bug of Exactile).
    """
    start = time.monotonic()
    search = choice.load()
    loaded = time.monotonic()
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
