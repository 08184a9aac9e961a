"""Models grow with the candidates, never with the extents."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from exactile import Cascade, Mapspace, Objective, Problem
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost
from exactile.solver.cpsat.translate import Translation
from exactile.solver.exact.engine import formulations


def chain(tokens: int, capacity: int = 2**15) -> Problem:
    equations = ["A[t,f] = X[t,d] * V[d,f]", "B[t,f] = gelu(A[t,f])", "C[t,e] = B[t,f] * W[f,e]"]
    ops = {"mac": OpCost(Fraction(1)), "ew": OpCost(Fraction(1))}
    unit = ComputeUnit("vector", "vector", ops)
    machine = Hardware("m", (Level("DRAM"), Level("GLB", 8 * capacity)), (unit,))
    work = Cascade({"t": tokens, "d": 16, "f": 32, "e": 16}, equations)
    return Problem(work, machine, Objective("dram_traffic", ()))


def size(one: Problem) -> tuple[int, int]:
    """Variables and rows of the CP-SAT model."""
    formulation = next(formulations(one))
    quantity = formulation.costs.quantities["dram_traffic"]
    proto = Translation(formulation.model, {"dram_traffic": quantity}).target.proto
    return len(proto.variables), len(proto.constraints)


@pytest.mark.parametrize(("small", "large"), [(2**10 - 3, 2**20 - 3), (2053, 1048583), (7**3, 1009**3)])
def test_as_many_candidates_make_the_same_model(small: int, large: int) -> None:
    """Extents of the same shape (primes, cubes of primes): the same number of divisors each."""
    assert _divisors(small) == _divisors(large)
    few, many = size(chain(small)), size(chain(large))
    assert abs(many[0] - few[0]) <= few[0] // 5 and abs(many[1] - few[1]) <= few[1] // 5


def test_2_to_the_20_tokens_make_a_model_of_the_same_order_as_2_048() -> None:
    few, many = size(chain(2**11)), size(chain(2**20))
    assert many[0] <= 3 * few[0] and many[1] <= 3 * few[1]


def test_more_candidates_do_make_a_larger_model() -> None:
    few, many = size(chain(2053)), size(replace(chain(2**11), mapspace=Mapspace("all")))
    assert many[0] > few[0] and many[1] > few[1]


def _divisors(extent: int) -> int:
    return sum(
        (1 if tile * tile == extent else 2)
        for tile in range(1, 40_000)
        if extent % tile == 0 and tile * tile <= extent
    )
