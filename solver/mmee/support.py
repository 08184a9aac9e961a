"""Which problems the enumeration takes, and which groups are small enough to list."""

from __future__ import annotations

from dataclasses import dataclass

from exactile.formulation.problem import Problem
from exactile.solver.engine import UnsupportedProblem
from exactile.solver.support import require_searchable

MAX_EINSUMS = 4
"""Cascades up to this size are listed whole; the number of structures explodes beyond."""


@dataclass(frozen=True)
class Limits:
    """Groups that are listed: `None` does not limit.

    `einsums` does not count those that overwrite their input in place, they add no buffer. `steps`
    (some 20 µs each) are what listing their structures may take, `pairs` how many structures × tilings they
    may have.
    """

    einsums: int | None = None
    steps: int | None = None
    pairs: int | None = None


WHOLE = Limits()
LARGE = Limits(einsums=6, steps=500_000, pairs=10**9)
"""In larger cascades some groups are left out; others take up to ten seconds each."""

COUNTED = Limits(einsums=2, steps=2_000)
"""Groups whose structures are counted before a search of a larger cascade: a fraction of a second each."""

QUICK = Limits(einsums=3, steps=10_000, pairs=3 * 10**7)
"""Groups that a quick start lists: some tenths of a second each."""


def limits_of(problem: Problem) -> Limits:
    """Which groups of a problem are listed."""
    return WHOLE if len(problem.cascade.einsums) <= MAX_EINSUMS else LARGE


def require_supported(problem: Problem) -> None:
    """Raise `UnsupportedProblem` with every reason why the problem cannot be enumerated."""
    require_searchable(problem, "mmee")
    objective, count = problem.objective, len(problem.cascade.einsums)
    product = "edp" in objective.keys
    if count > MAX_EINSUMS and (product or objective.subject_to):
        what = "minimises energy × latency" if product else "keeps limits (subject_to)"
        raise UnsupportedProblem(
            f"mmee {what} for cascades of at most {MAX_EINSUMS} Einsums, {problem.cascade.name} has {count}"
        )
