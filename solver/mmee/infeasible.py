"""Why a problem has no mapping, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from exactile.formulation.encoding.monomials import Group
from exactile.formulation.encoding.plan import Plan
from exactile.formulation.problem import Problem
from exactile.solver.mmee.partitions import Names


def explain(problem: Problem, candidates: Sequence[tuple[Names, list[tuple[Group, list[Plan]]]]]) -> str:
    return "nothing fits"
