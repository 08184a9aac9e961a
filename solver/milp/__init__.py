"""MILP: the model of `formulation.families` as a mixed-integer linear program (PuLP, solved by HiGHS)."""

from __future__ import annotations

from exactile.solver.milp.engine import milp

__all__ = ["milp"]
