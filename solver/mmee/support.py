"""Which problems the enumeration lists."""

from __future__ import annotations

from exactile.formulation.problem import Problem
from exactile.solver.support import require_searchable

MAX_EINSUMS = 4
"""Cascades up to this size are listed whole; the number of structures explodes beyond."""


def require_supported(problem: Problem) -> None:
    """Raise `UnsupportedProblem` with every reason why the problem cannot be enumerated."""
    require_searchable(problem, "mmee", MAX_EINSUMS)
