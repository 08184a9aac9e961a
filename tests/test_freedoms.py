"""Freedoms of whole cascades: without fusion the parts add up, and more freedom never costs more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from random_dags import problem

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate
from exactile.formulation.hardware import Level, Rate
from exactile.formulation.problem import Mapspace, Problem
from exactile.solver.cpsat import cpsat
from exactile.solver.engine import Control

Change = Callable[[Problem], Problem]
# of these seeds two in four are cascades of two or three Einsums, the others of four and five
SEEDS = tuple(range(1000, 1016))


def value(one: Problem) -> Fraction | None:
    """The proved optimum, `None` where nothing fits; with many execution orders at least the best found."""
    outcome = cpsat(one, Control(60))
    if outcome.status == "infeasible":
        return None
    assert outcome.mapping is not None, one.name
    found = evaluate(one.cascade, one.hardware, outcome.mapping).quantity(one.objective.minimize)
    assert outcome.status == "optimal" and outcome.bound == found, one.name
    return found


def alone(one: Problem, position: int) -> Problem:
    """One Einsum of the cascade by itself; what it reads are inputs, what it writes is the output."""
    einsum = one.cascade.einsums[position]
    names = {access.tensor for access in (einsum.output, *einsum.inputs)}
    tensors = {name: {"bits": one.cascade.tensors[name].bits} for name in names}
    ranks = {rank: one.cascade.ranks[rank] for rank in einsum.ranks} or {"unit": 1}
    work = Cascade(ranks, [replace(einsum, in_place=None)], tensors=tensors)
    return replace(one, cascade=work)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_fusion_the_answer_is_the_sum_of_the_parts(seed: int) -> None:
    one = replace(problem(seed), mapspace=Mapspace("all", fusion="none"))
    parts = [value(alone(one, position)) for position in range(len(one.cascade.einsums))]
    whole = value(one)
    assert whole == (None if None in parts else sum(part for part in parts if part is not None)), seed


def _space(**changes: object) -> Change:
    return lambda one: replace(one, mapspace=replace(Mapspace(), **changes))  # type: ignore[arg-type]


def _level(one: Problem, which: int, change: Callable[[Level], Level]) -> Problem:
    levels = list(one.hardware.levels)
    levels[which] = change(levels[which])
    return replace(one, hardware=replace(one.hardware, levels=tuple(levels)))


def _roomier(one: Problem) -> Problem:
    return _level(one, 1, lambda level: replace(level, capacity=(level.capacity or 0) * 3 // 2))


def _faster(one: Problem) -> Problem:
    def twice(rate: Rate | None) -> Rate | None:
        return None if rate is None else Rate(2 * rate.amount, rate.per)

    def change(level: Level) -> Level:
        read, write = twice(level.read_bandwidth), twice(level.write_bandwidth)
        return replace(level, read_bandwidth=read, write_bandwidth=write)

    return _level(_level(one, 0, change), 1, change)


MORE: dict[str, tuple[Change, Change]] = {
    "fusion": (_space(fusion="none"), _space()),
    "recomputation": (_space(recomputation=False), _space()),
    "sharing": (_space(shared_inputs=False), _space()),
    "fused outputs": (_space(fused_outputs=False), _space()),
    "execution order": (_space(order="given"), _space()),
    "tile sizes": (_space(), _space(tile_sizes="all")),
    "capacity": (_space(), lambda one: _roomier(_space()(one))),
    "bandwidth": (_space(), lambda one: _faster(_space()(one))),
}


@pytest.mark.parametrize("freedom", MORE)
def test_more_freedom_is_never_worse(freedom: str) -> None:
    little, much = MORE[freedom]
    seen = 0
    for seed in SEEDS:
        if seed % 4 == 3 and freedom != "fusion":
            continue  # five Einsums: once is enough
        less = value(little(problem(seed)))
        if less is not None:
            more = value(much(problem(seed)))
            assert more is not None and more <= less, seed
            seen += 1
    assert seen >= len(SEEDS) // 2
