"""Optima that an exhaustive search elsewhere found: attention, FFN layers and small cascades, real sizes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from golden_instances import Instance, instances
from proved import proved

from exactile.formulation.problem import Mapspace, Objective, Problem

SLOW = {33, 35, 48, 58, 77, 78}  # long lists of structures, or five milliards of points

CHOSEN = [one for one in instances() if one.operators <= 4]
EACH = pytest.mark.parametrize(
    "one",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one.id in SLOW else [], id=str(one).replace(" ", "-"))
        for one in CHOSEN
    ],
)


def test_all_entries_of_two_to_four_operators_are_here() -> None:
    assert Counter(one.operators for one in CHOSEN) == {2: 35, 3: 15, 4: 6}


def optimum(one: Instance, mapspace: Mapspace) -> Fraction:
    problem = Problem(one.cascade, one.hardware, Objective(one.objective, ()), mapspace, str(one))
    return proved(problem).quantity(one.objective)


@EACH
def test_least_value(one: Instance) -> None:
    assert optimum(one, one.mapspace) == one.optimum


@EACH
def test_least_value_without_recomputation(one: Instance) -> None:
    assert optimum(one, replace(one.mapspace, recomputation=False)) == one.without_recomputation


@EACH
def test_least_value_without_fusion(one: Instance) -> None:
    assert optimum(one, replace(one.mapspace, fusion="none")) == one.unfused
