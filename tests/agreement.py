"""An engine against the enumeration: the same status, bound and quantities, and a legal mapping."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from exactile.formulation.consistency import problem_faults
from exactile.formulation.core import evaluate, violations
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome
from exactile.solver.mmee import mmee

Search = Callable[[Problem, Control], Outcome]


def score(problem: Problem, outcome: Outcome) -> tuple[Fraction, ...] | None:
    """The quantities of the objective that a mapping has; it must be legal and keep the limits."""
    if outcome.mapping is None:
        return None
    assert violations(problem.cascade, problem.hardware, outcome.mapping, problem.mapspace) == ()
    cost = evaluate(problem.cascade, problem.hardware, outcome.mapping)
    for name, most in problem.objective.subject_to.items():
        assert cost.quantity(name) <= most, name
    return tuple(cost.quantity(key) for key in problem.objective.keys)


def check(problem: Problem, engine: Search, time_limit: float = 300.0) -> None:
    """The engine and the enumeration prove the same, in all quantities of the objective."""
    if problem_faults(problem):
        return
    expected, found = mmee(problem, Control()), engine(problem, Control(time_limit))
    assert (found.status, found.bound) == (expected.status, expected.bound), problem.name
    assert score(problem, found) == score(problem, expected), problem.name
    assert found.status != "infeasible" or found.reason, problem.name
