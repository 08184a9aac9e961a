"""CP-SAT: the model of `formulation.families` solved by constraint programming with clause learning."""

from __future__ import annotations

from exactile.solver.cpsat.engine import cpsat

__all__ = ["cpsat"]
