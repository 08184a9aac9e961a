"""More freedom never hurts, and optima scale as they must: properties that need no reference value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from proved import feasible, proved
from two_operator_problems import problem

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import Hardware, Level, Rate
from exactile.formulation.problem import Mapspace, Objective, Problem

FIRST, COUNT, CHUNK = 5000, 16, 8
CHUNKS = pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
Change = Callable[[Problem], Problem]


def _space(**changes: object) -> Change:
    return lambda one: replace(one, mapspace=replace(Mapspace(), **changes))  # type: ignore[arg-type]


def _levels(one: Problem, change: Callable[[Level], Level], which: int) -> Problem:
    levels = list(one.hardware.levels)
    levels[which] = change(levels[which])
    return replace(one, hardware=replace(one.hardware, levels=tuple(levels)))


def _capacity(factor: Fraction) -> Change:
    def change(level: Level) -> Level:
        assert level.capacity is not None
        return replace(level, capacity=int(level.capacity * factor))

    return lambda one: _levels(one, change, 1)


def _faster(rate: Rate | None) -> Rate | None:
    return None if rate is None else Rate(2 * rate.amount, rate.per)


def _bandwidth(one: Problem) -> Problem:
    def change(level: Level) -> Level:
        return replace(
            level,
            read_bandwidth=_faster(level.read_bandwidth),
            write_bandwidth=_faster(level.write_bandwidth),
        )

    return _levels(one, change, 0)


def _fewer_instances(one: Problem) -> Problem:
    units = [replace(u, instances=replace(u.instances, size=1)) for u in one.hardware.compute]
    return replace(one, hardware=replace(one.hardware, compute=tuple(units)))


def _same(one: Problem) -> Problem:
    return one


def open_problem(seed: int) -> Problem:
    """A random problem with all its freedoms and no limits."""
    one = problem(seed)
    return replace(one, mapspace=Mapspace(), objective=Objective(one.objective.minimize, ()))


MORE: dict[str, tuple[Change, Change]] = {
    "fusion": (_space(fusion="none"), _space()),
    "recomputation": (_space(recomputation=False), _space()),
    "fused outputs": (_space(fused_outputs=False), _space()),
    "tile sizes": (_space(), _space(tile_sizes="all")),
    "capacity": (_same, _capacity(Fraction(3, 2))),
    "bandwidth": (_same, _bandwidth),
    "instances": (_fewer_instances, _same),
}


@CHUNKS
@pytest.mark.parametrize("freedom", MORE)
def test_more_freedom_is_never_worse(freedom: str, first: int) -> None:
    little, much = MORE[freedom]
    for seed in range(first, first + CHUNK):
        one = open_problem(seed)
        less, more = feasible(little(one)), feasible(much(one))
        if less is not None:
            assert more is not None, seed
            name = one.objective.minimize
            assert more.quantity(name) <= less.quantity(name), seed


@CHUNKS
def test_the_first_key_does_not_depend_on_the_tie_break(first: int) -> None:
    for seed in range(first, first + CHUNK):
        one = open_problem(seed)
        name = one.objective.minimize
        costs = [
            feasible(replace(one, objective=Objective(name, then)))
            for then in ((), ("operations", "energy"), ("latency",))
        ]
        assert len({None if cost is None else cost.quantity(name) for cost in costs}) == 1, seed


@CHUNKS
def test_a_bound_at_the_optimum_leaves_it_and_one_below_refuses(first: int) -> None:
    for seed in range(first, first + CHUNK):
        one = open_problem(seed)
        cost = feasible(one)
        if cost is None:
            continue
        name = one.objective.minimize
        value = cost.quantity(name)
        at = replace(one, objective=Objective(name, (), {name: value}))
        assert proved(at).quantity(name) == value, seed
        below = replace(one, objective=Objective(name, (), {name: value - Fraction(1, 10**6)}))
        assert feasible(below) is None, seed


@CHUNKS
def test_energies_twice_as_high_cost_twice_as_much(first: int) -> None:
    for seed in range(first, first + CHUNK):
        one = replace(open_problem(seed), objective=Objective("energy", ()))
        cost, double = feasible(one), feasible(replace(one, hardware=_twice(one.hardware)))
        if cost is not None:
            assert double is not None and double.energy == 2 * cost.energy, seed


def _twice(machine: Hardware) -> Hardware:
    levels = [
        replace(
            level,
            read_energy=Rate(2 * level.read_energy.amount, level.read_energy.per),
            write_energy=Rate(2 * level.write_energy.amount, level.write_energy.per),
        )
        for level in machine.levels
    ]
    units = [
        replace(unit, ops={name: replace(op, energy=2 * op.energy) for name, op in unit.ops.items()})
        for unit in machine.compute
    ]
    return replace(machine, levels=tuple(levels), compute=tuple(units))


# machines on which heads cannot share anything: one instance, and no array that spreads them
APART = [s for s in range(7000, 7040) if all(u.kind != "free" for u in problem(s).hardware.compute)][:6]


@pytest.mark.parametrize("objective", ["dram_traffic", "energy"])
@pytest.mark.parametrize("seed", APART)
def test_heads_do_not_help_each_other(seed: int, objective: str) -> None:
    """A rank of every tensor multiplies traffic and energy, whatever the capacity."""
    one = _fewer_instances(problem(seed))
    values = []
    for heads in (1, 3):
        ranks = {"h": heads, "i": 6, "l": 4, "k": 3, "j": 4}
        equations = ["C[h,i,l] = A[h,i,k] * B[h,l,k]", "E[h,i,j] = C[h,i,l] * D[h,l,j]"]
        many = Problem(Cascade(ranks, equations), one.hardware, Objective(objective, ()))
        many = _levels(many, lambda level: replace(level, capacity=40 * 8, double_buffer=False), 1)
        values.append(proved(many).quantity(objective))
    assert values[1] == 3 * values[0]
