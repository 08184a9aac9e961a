"""Random problems of two operators under random restrictions: pins, forbidden freedoms, limits.

`restricted(seed)` is `two_operator_problems.problem(seed)` with one to three restrictions more, some of
which contradict each other or leave nothing: such a problem has to be proved infeasible.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from two_operator_problems import problem

from exactile.formulation.encoding.bounds import compulsory
from exactile.formulation.problem import Problem


def restricted(seed: int) -> Problem:
    """The restricted problem of that number."""
    rng = random.Random(f"restricted {seed}")
    found = problem(seed)
    for restrict in rng.sample(RESTRICTIONS, rng.randint(1, 3)):
        found = restrict(rng, found)
    return replace(found, name=f"restricted {seed}")


def _change(found: Problem, **changes: object) -> Problem:
    return replace(found, mapspace=replace(found.mapspace, **changes))  # type: ignore[arg-type]


def _orders(rng: random.Random, found: Problem) -> Problem:
    """Pinned orders of one or two Einsums, sometimes without one of the ranks."""
    orders: dict[str, tuple[str, ...]] = {}
    for einsum in rng.sample(found.cascade.einsums, rng.randint(1, 2)):
        foreign = [rank for rank in found.cascade.ranks if rank not in einsum.ranks]
        ranks = [*einsum.ranks, *rng.sample(foreign, rng.randint(0, len(foreign)))]
        rng.shuffle(ranks)
        orders[einsum.name] = tuple(ranks if rng.random() < 0.7 else ranks[1:])
    return _change(found, orders=orders)


def _residency(rng: random.Random, found: Problem) -> Problem:
    """Pinned residencies of one or two tensors, anything of the ranks of one of their Einsums."""
    pins: dict[str, frozenset[str]] = {}
    cascade = found.cascade
    for tensor in rng.sample(sorted(cascade.tensors), rng.randint(1, 2)):
        users = [e for e in cascade.einsums if e.name == tensor or e in cascade.consumers[tensor]]
        ranks = rng.choice(users).ranks
        pins[tensor] = frozenset(rng.sample(ranks, rng.randint(0, len(ranks))))
    return _change(found, residency=pins)


def _tiles(rng: random.Random, found: Problem) -> Problem:
    ranks = found.cascade.ranks
    chosen = rng.sample(sorted(ranks), rng.randint(1, 2))
    pins = {
        rank: rng.choice([t for t in range(1, ranks[rank] + 1) if ranks[rank] % t == 0]) for rank in chosen
    }
    return _change(found, tiles=pins)


def _fusion(rng: random.Random, found: Problem) -> Problem:
    names = tuple(einsum.name for einsum in found.cascade.einsums)
    cut = rng.randint(1, len(names) - 1)
    return _change(found, fusion=rng.choice(("none", (names,), (names[:cut], names[cut:]))))


def _freedoms(rng: random.Random, found: Problem) -> Problem:
    freedoms = ("recomputation", "shared_inputs", "fused_outputs")
    return _change(found, **dict.fromkeys(rng.sample(freedoms, rng.randint(1, 2)), False))


def _limit(rng: random.Random, found: Problem) -> Problem:
    """A limit at or above what is needed in any case: reachable or not."""
    name = rng.choice(("dram_traffic", "energy", "latency", "operations", "edp"))
    factor = rng.choice((Fraction(1), Fraction(5, 4), Fraction(2), Fraction(4)))
    limits = {**found.objective.subject_to, name: compulsory(found, name) * factor}
    return replace(found, objective=replace(found.objective, subject_to=limits))


def _given(_: random.Random, found: Problem) -> Problem:
    return _change(found, order="given")


RESTRICTIONS: tuple[Callable[[random.Random, Problem], Problem], ...] = (
    _orders,
    _residency,
    _tiles,
    _fusion,
    _freedoms,
    _limit,
    _given,
)
