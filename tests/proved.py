"""What MMEE proves, checked: the exact cost of its mapping, which must be legal and meet its own bound."""

from __future__ import annotations

from exactile.formulation.core import evaluate, violations
from exactile.formulation.cost import Cost
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control
from exactile.solver.mmee import mmee


def proved(problem: Problem) -> Cost:
    """The cost of the proved optimum of a problem that has one."""
    outcome = mmee(problem, Control())
    assert outcome.status == "optimal", (problem.name, outcome.status, outcome.reason)
    assert outcome.mapping is not None
    assert violations(problem.cascade, problem.hardware, outcome.mapping, problem.mapspace) == (), (
        problem.name
    )
    cost = evaluate(problem.cascade, problem.hardware, outcome.mapping)
    assert outcome.bound == cost.quantity(problem.objective.minimize), problem.name
    return cost


def feasible(problem: Problem) -> Cost | None:
    """The same, or `None` if MMEE proves that there is no mapping."""
    outcome = mmee(problem, Control())
    if outcome.status == "infeasible":
        assert outcome.mapping is None and outcome.reason, problem.name
        return None
    return proved(problem)
