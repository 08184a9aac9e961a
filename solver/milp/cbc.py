"""CBC through PuLP: a process of its own that tells no bound before the end and stops by time only."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pulp  # type: ignore[import-untyped]

from exactile.solver.milp.solved import Solved, Watch


def solve(
    problem: Any, variables: Sequence[Any], start: Mapping[Any, float], tolerance: float, watch: Watch
) -> Solved:
    """See `SolveProgram`."""
    for variable in problem.variables():
        variable.varValue = start.get(variable)
    left = watch.control.left
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PuLP will ship CBC apart one day
        solver = pulp.PULP_CBC_CMD(
            msg=False,
            gapRel=0.0,
            gapAbs=tolerance,
            timeLimit=None if left is None else max(0.1, left),
            warmStart=bool(start),
            options=[f"integerTolerance {tolerance}", f"primalTolerance {tolerance}"],
        )
    problem.solve(solver)
    if problem.sol_status == pulp.LpSolutionInfeasible:
        return Solved("infeasible")
    if problem.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return Solved("unknown")
    values = [variable.varValue or 0.0 for variable in variables]
    value = float(pulp.value(problem.objective) or 0.0)
    if problem.sol_status == pulp.LpSolutionOptimal:
        return Solved("optimal", value, value, values)
    return Solved("feasible", value, None, values)
