"""From the neutral model to a mixed-integer linear program.

A clause `a or not b` is the row `a + (1 − b) ≥ 1`. A row enforced where literals hold is relaxed elsewhere
by the least amount that makes it always true: `F ≥ 3·x` where `a`, with `x ≤ 9`, is
`F − 3·x + 27·(1 − a) ≥ 0`. A product is taken apart by the values of its factors (`_times`). Only Booleans
are whole numbers: what follows from them is as large as the rows make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import gcd

from exactile.formulation.families.model import Linear, Model, Product, Quantity, Row
from exactile.solver.milp.program import Program, literal, total


def translate(model: Model, wanted: Iterable[Linear]) -> Program:
    """The program of a model as far as the quantities in `wanted` need it; column `v` is variable `v`."""
    whole = [(low, high) == (0, 1) for low, high in zip(model.lows, model.highs, strict=True)]
    program = Program(list(model.names), list(model.lows), list(model.highs), whole)
    needed = model.needed(wanted)
    for clause in model.clauses:
        program.add(total(map(literal, clause)), 1)
    for one_hot in model.one_hots:
        program.add(total(map(literal, one_hot)), 1, equal=True)
    for row in model.rows:
        if row.lifts is None or row.lifts in needed:
            _enforced(program, row)
    for product in model.products:
        if product.result in needed:
            _product(program, model, product)
    return program


def _enforced(program: Program, row: Row) -> None:
    terms = Linear(0, row.terms)
    if not row.when and _is_ceiling(program, row):
        # half a step of room: what fills a capacity to the last bit stays clear of the solver's tolerance
        step = gcd(*(c for _, c in row.terms))
        program.add(terms.times(2), 2 * -(-row.low // step) * step - step)
        return
    missing = row.low - program.bounds(terms)[0]
    if missing > 0:
        slack = [literal(-lit).times(missing) for lit in row.when]
        program.add(total([terms, *slack]), row.low)


def _is_ceiling(program: Program, row: Row) -> bool:
    """The row limits a sum of amounts from above."""
    return all(c < 0 for _, c in row.terms) and not all(program.whole[v] for v, _ in row.terms)


def _product(program: Program, model: Model, product: Product) -> None:
    """Factor by factor, that with the most values first: it is not taken apart."""
    *factors, first = sorted(product.factors, key=lambda factor: len(factor.steps))
    so_far, (low, high) = model.linear(first), (first.low, first.high)
    most = program.highs[product.result]
    while factors:
        factor = factors.pop()
        if factors:
            low_after, high_after = low * factor.low, high * factor.high
            result = program.column(f"partial {program.names[product.result]}", low_after, high_after)
        else:
            low_after, high_after, result = low * factor.low, most, product.result
        _times(program, factor, so_far, (low, high), result)
        so_far, low, high = Linear(0, ((result, 1),)), low_after, high_after


def _times(program: Program, factor: Quantity, other: Linear, bounds: tuple[int, int], result: int) -> None:
    """`result ≥ factor · other`, where `other` lies within `bounds`.

    `other` is split into one share per value of the factor, all but that of the value taken being zero:
    for a factor of 2 if `a` else 5, `result ≥ 2·y + 5·z`, `y + z ≥ other`, `y ≤ high·a`, `z ≤ high·(1 − a)`.
    A share is no larger than what keeps the result within its bound.
    """
    low, high = bounds
    shares, lifted = [], []
    for value, taken in _cases(factor):
        most = high if not value else min(high, program.highs[result] // value)
        share = Linear(0, ((program.column(f"share {program.names[result]}", 0, max(0, most)), 1),))
        program.add(total([taken.times(most), share.times(-1)]), 0)
        if low > 0:
            program.add(total([share, taken.times(-low)]), 0)
        shares.append(share)
        lifted.append(share.times(-value))
    program.add(total([*shares, other.times(-1)]), 0)
    program.add(total([Linear(0, ((result, 1),)), *lifted]), 0)


def _cases(factor: Quantity) -> Iterator[tuple[int, Linear]]:
    """Every value of a quantity with a sum that is 1 where it is taken, else 0."""
    reached = [Linear(1), *(literal(lit) for lit, _ in factor.steps), Linear(0)]
    for value, (here, ahead) in zip(factor.values, pairwise(reached), strict=True):
        yield value, total([here, ahead.times(-1)])
