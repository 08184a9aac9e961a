"""The engine `cpsat`."""

from __future__ import annotations

from exactile.formulation.families.build import Formulation
from exactile.formulation.problem import Problem
from exactile.solver.cpsat.session import CpSatSession
from exactile.solver.engine import Control, Outcome
from exactile.solver.exact.engine import solve
from exactile.solver.support import require_searchable


def cpsat(problem: Problem, control: Control) -> Outcome:
    """Search the whole mapspace of `problem` with CP-SAT."""
    require_searchable(problem, "cpsat")
    return solve(problem, control, CpSatSession)


def without_presolve(problem: Problem, control: Control) -> Outcome:
    """The same search of the model as it stands: a proof that no step of the presolve has touched."""
    require_searchable(problem, "cpsat")
    return solve(problem, control, _AsItStands)


class _AsItStands(CpSatSession):
    proof = "cpsat without presolve"

    def __init__(self, formulation: Formulation) -> None:
        super().__init__(formulation, presolve=False)
