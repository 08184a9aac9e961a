"""The engine `milp`."""

from __future__ import annotations

from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome
from exactile.solver.exact.engine import solve
from exactile.solver.milp.session import MilpSession
from exactile.solver.support import require_searchable


def milp(problem: Problem, control: Control) -> Outcome:
    """Search the whole mapspace of `problem` with mixed-integer linear programs."""
    require_searchable(problem, "milp")
    return solve(problem, control, MilpSession)
