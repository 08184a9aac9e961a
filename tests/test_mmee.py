"""MMEE against brute force over plain loop orders, levels and tilings, on random two-operator problems."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from brute_force import BruteForce
from two_operator_problems import problem

from exactile.formulation.core import evaluate, violations
from exactile.formulation.problem import OBJECTIVES, Problem
from exactile.solver.engine import Control, Outcome
from exactile.solver.mmee import mmee

FAST, ALL, CHUNK = 160, 1000, 20
MANY = range(FAST, ALL, CHUNK)

shares: Counter[str] = Counter()


def check(one: Problem, outcome: Outcome, best: tuple[Fraction, ...] | None) -> None:
    """The outcome is proved optimal, legal and worth exactly `best`, key by key; or both say infeasible."""
    if best is None:
        assert outcome.status == "infeasible", (one.name, outcome.status)
        assert outcome.mapping is None and outcome.reason, one.name
        return
    assert outcome.status == "optimal", (one.name, outcome.status, outcome.reason)
    assert outcome.mapping is not None
    assert violations(one.cascade, one.hardware, outcome.mapping, one.mapspace) == (), one.name
    cost = evaluate(one.cascade, one.hardware, outcome.mapping)
    assert tuple(cost.quantity(name) for name in one.objective.keys) == best, (one.name, outcome.mapping)
    assert outcome.bound == best[0], one.name
    assert all(cost.quantity(name) <= limit for name, limit in one.objective.subject_to.items()), one.name


def compare(seed: int) -> Counter[str]:
    """Check one problem; what it is an example of."""
    one = problem(seed)
    search = BruteForce(one)
    best = search.best()
    check(one, mmee(one, Control()), best)
    found = Counter({"problems": 1, one.objective.minimize: 1})
    if best is None:
        found["infeasible"] += 1
        return found
    unfused, once = search.best_unfused(), search.best_without_recomputation()
    found["fusion wins"] += unfused is None or best[0] < unfused[0]
    found["recomputation wins"] += once is None or best[0] < once[0]
    return found


@pytest.mark.parametrize("first", range(0, FAST, CHUNK))
def test_mmee_finds_the_brute_force_optimum(first: int) -> None:
    for seed in range(first, first + CHUNK):
        shares.update(compare(seed))


def test_the_problems_ask_for_fusion_recomputation_and_refusal() -> None:
    """Runs after the comparison and looks at what it met; alone, it has nothing to judge."""
    if shares["problems"] < FAST:
        pytest.skip("needs the whole comparison in one process")
    total = shares["problems"]
    assert shares["infeasible"] >= 0.1 * total
    assert shares["fusion wins"] >= 0.3 * total
    assert shares["recomputation wins"] >= 0.1 * total
    assert all(shares[name] >= 0.2 * total for name in OBJECTIVES)


@pytest.mark.slow
@pytest.mark.parametrize("first", MANY)
def test_mmee_finds_the_brute_force_optimum_of_many_more(first: int) -> None:
    for seed in range(first, first + CHUNK):
        compare(seed)
