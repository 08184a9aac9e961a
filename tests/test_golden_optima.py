"""Optima that an exhaustive search elsewhere found, of attention heads and FFN layers at real sizes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from golden_instances import Instance, instances
from proved import proved

from exactile.formulation.problem import Mapspace, Objective, Problem

SLOW = {78}  # 16 384 tokens with every tile size: five milliards of points


def _two_contractions(one: Instance) -> bool:
    """Two operators, or a softmax between them."""
    ops = [einsum.op for einsum in one.cascade.einsums]
    return ops in (["mac", "mac"], ["mac", "ew", "mac"]) and one.name != "rmsnorm-matmul"


CHOSEN = [one for one in instances() if _two_contractions(one)]
EACH = pytest.mark.parametrize(
    "one",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one.id in SLOW else [], id=str(one).replace(" ", "-"))
        for one in CHOSEN
    ],
)


def test_all_two_operator_entries_are_here() -> None:
    assert sum(one.operators == 2 for one in CHOSEN) == sum(one.operators == 2 for one in instances()) == 35


def optimum(one: Instance, mapspace: Mapspace) -> Fraction:
    problem = Problem(one.cascade, one.hardware, Objective(one.objective, ()), mapspace, str(one))
    return proved(problem).quantity(one.objective)


@EACH
def test_least_value_of_two_operators(one: Instance) -> None:
    assert optimum(one, one.mapspace) == one.optimum


@EACH
def test_least_value_without_recomputation(one: Instance) -> None:
    assert optimum(one, replace(one.mapspace, recomputation=False)) == one.without_recomputation


@EACH
def test_least_value_without_fusion(one: Instance) -> None:
    assert optimum(one, replace(one.mapspace, fusion="none")) == one.unfused
