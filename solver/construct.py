"""A good mapping quickly: small groups listed, and the best way to cut one execution order into them.

A start for engines that prove: its value cuts their search. It proves nothing itself.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from exactile.formulation.cascade import Cascade
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Objective, Problem
from exactile.solver.engine import Control, UnsupportedProblem
from exactile.solver.mmee.additive import Additive
from exactile.solver.mmee.support import QUICK, Limits
from exactile.solver.orders import Names

KEYS = {"edp": "energy", "peak": "dram_traffic"}
"""What is minimised instead of a quantity that does not add up over groups."""


def construct(
    problem: Problem, control: Control, order: Names | None = None, limits: Limits = QUICK
) -> Mapping | None:
    """The best mapping whose groups are small intervals of an execution order; `None` if none was found.

    `order` holds all Einsums, the written order by default. Limits of `subject_to` are not looked at. The
    time limit and the stop button of `control` hold: then it is the best of what was seen.
    """
    written = tuple(einsum.name for einsum in problem.cascade.einsums)
    cascade = problem.cascade if order is None or order == written else _reordered(problem.cascade, order)
    minimize = problem.objective.minimize
    objective = Objective(KEYS.get(minimize, minimize), ())
    one = replace(
        problem,
        cascade=cascade,
        objective=objective,
        mapspace=replace(problem.mapspace, order="given"),
    )
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            return Additive(one, control, limits).run(rescuing=False).mapping
    except UnsupportedProblem:
        return None


def _reordered(cascade: Cascade, order: Names) -> Cascade:
    """The same cascade, written in another order."""
    found = copy(cascade)
    for known in ("by_name", "consumers", "barriers"):
        found.__dict__.pop(known, None)
    found.einsums = tuple(cascade.by_name[name] for name in order)
    return found
