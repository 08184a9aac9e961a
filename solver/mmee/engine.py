"""The engine: the search that the objective asks for, and what to say about its outcome."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from exactile.formulation.core import evaluate
from exactile.formulation.encoding.bounds import compulsory
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome, Status, UnsupportedProblem
from exactile.solver.explain import explain
from exactile.solver.mmee.additive import Additive
from exactile.solver.mmee.candidates import coupled
from exactile.solver.mmee.coupled import Coupled
from exactile.solver.mmee.enumeration import Enumeration
from exactile.solver.mmee.smallest import smallest
from exactile.solver.mmee.support import limits_of, require_supported


def mmee(problem: Problem, control: Control) -> Outcome:
    """Search the whole mapspace of `problem` by enumeration.

    Returns the optimum with its proof, or, when `control` stops it, the best mapping so far and a
    valid bound. Raises `UnsupportedProblem` for machines and cascades it cannot list.
    """
    require_supported(problem)
    # the matrices are small: one thread multiplies them faster than two that wait for each other
    with threadpool_limits(limits=1, user_api="blas"):
        if problem.mapspace.tile_sizes == "all":
            outcome = _coarse_first(problem, control)
        else:
            outcome = _enumeration(problem, control).run()
        if outcome.status == "infeasible":
            return replace(outcome, reason=explain(problem, control, _search, smallest))
        return outcome


def _search(problem: Problem, control: Control) -> Outcome:
    """The search that an explanation asks about relaxed problems."""
    return _enumeration(problem, control).run(rescuing=False)


def _coarse_first(problem: Problem, control: Control) -> Outcome:
    """Search the divisors before all tile sizes: a good mapping early, in case there is no more time."""
    divisors = replace(problem, mapspace=replace(problem.mapspace, tile_sizes="divisors"))
    coarse = _enumeration(divisors, control).run()
    status: Status = "unknown" if coarse.mapping is None else "feasible"
    bound = compulsory(problem, problem.objective.minimize)
    unfinished = replace(coarse, status=status, bound=bound, proof="none", reason=None)
    if control.stopped:
        return unfinished
    try:
        fine = _enumeration(problem, control).run(rescuing=coarse.mapping is None)
    except UnsupportedProblem as error:
        if coarse.mapping is None:
            raise
        return replace(unfinished, reason=str(error))
    if fine.status in ("optimal", "infeasible") or coarse.mapping is None:
        return fine
    better = fine.mapping is not None and _score(problem, fine.mapping) < _score(problem, coarse.mapping)
    return replace(fine, status="feasible", mapping=fine.mapping if better else coarse.mapping)


def _score(problem: Problem, mapping: Mapping) -> tuple[Fraction, ...]:
    """The objective of a mapping, key by key, as the core computes it."""
    cost = evaluate(problem.cascade, problem.hardware, mapping)
    return tuple(cost.quantity(key) for key in problem.objective.keys)


def _enumeration(problem: Problem, control: Control) -> Enumeration:
    """A search that fits the objective."""
    kind = Coupled if coupled(problem.objective) else Additive
    return kind(problem, control, limits_of(problem))
