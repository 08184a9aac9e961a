"""The engine `cpsat`."""

from __future__ import annotations

from exactile.formulation.problem import Problem
from exactile.solver.cpsat.session import CpSatSession
from exactile.solver.engine import Control, Outcome
from exactile.solver.exact.engine import solve
from exactile.solver.support import require_searchable


def cpsat(problem: Problem, control: Control) -> Outcome:
    """Search the whole mapspace of `problem` with CP-SAT."""
    require_searchable(problem, "cpsat")
    return solve(problem, control, CpSatSession)
