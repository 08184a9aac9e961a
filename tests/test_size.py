"""The size of a space: counted, and the same as what an enumeration lists without any shortcut."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from exactile import Cascade, Hardware, Mapspace, Problem, load_problem
from exactile.formulation.encoding.shape import group_specs
from exactile.formulation.encoding.structures import structures
from exactile.solver.engine import Size, UnsupportedProblem
from exactile.solver.mmee.size import space_size
from hand_made import machine

RANKS = {"m": 12, "n": 7, "e": 4, "f": 9}


def two_products(space: Mapspace, hardware: Hardware | None = None) -> Problem:
    equations = ["S[m,n] = Q[m,e] * K[n,e]", "O[m,f] = S[m,n] * V[n,f]"]
    return Problem(Cascade(RANKS, equations), hardware or machine(), mapspace=space)


def divisors(extent: int) -> int:
    return sum(extent % tile == 0 for tile in range(1, extent + 1))


def trip_counts(extent: int) -> int:
    return len({-(-extent // tile) for tile in range(1, extent + 1)})


@pytest.mark.parametrize(("sizes", "candidates"), [("divisors", divisors), ("all", trip_counts)])
def test_pairs_are_structures_times_tilings_of_every_group(sizes: str, candidates: object) -> None:
    assert callable(candidates)
    problem = two_products(Mapspace(sizes))  # type: ignore[arg-type]
    number = {rank: candidates(extent) for rank, extent in RANKS.items()}
    expected, listed, largest = 0, 0, 0
    for names, ranks in ((("S",), "mne"), (("O",), "mnf"), (("S", "O"), "mnef")):
        (spec,) = group_specs(problem.cascade, names, problem.mapspace)
        rows, tilings = len(structures(spec.shape)), prod(number[rank] for rank in ranks)
        expected, listed, largest = expected + rows * tilings, listed + rows, max(largest, tilings)
    assert space_size(problem) == Size(listed, largest, expected)


def test_without_fusion_there_are_only_single_einsums() -> None:
    free, none = (space_size(two_products(Mapspace(fusion=fusion))) for fusion in ("free", "none"))
    assert none.pairs < free.pairs and none.tilings == divisors(12) * divisors(7) * divisors(9)


def test_a_pinned_tile_is_one_candidate() -> None:
    pinned = space_size(two_products(Mapspace(tiles={"m": 4})))
    assert pinned.tilings * divisors(12) == space_size(two_products(Mapspace())).tilings


def test_counting_ends_early_where_the_tilings_are_too_many() -> None:
    problem = two_products(Mapspace())
    whole = space_size(problem)
    early = space_size(problem, most=10)
    assert not early.complete and 10 < early.pairs < whole.pairs
    assert str(early).startswith("at least ")
    assert space_size(problem, most=10**6) == whole


def test_what_cannot_be_listed_is_not_counted() -> None:
    dram, glb = machine().levels
    with pytest.raises(UnsupportedProblem, match="has 3"):
        space_size(two_products(Mapspace(), replace(machine(), levels=(dram, glb, glb))))


@pytest.mark.parametrize("name", ["crosscheck-h12-512", "gpt3-6.7b-attention-latency"])
def test_a_search_lists_no_more_than_was_counted(name: str) -> None:
    """Groups that a lower bound rules out are counted and not listed."""
    from exactile import optimize

    problem = load_problem(name)
    found, size = optimize(problem, "mmee", replay=False).space, space_size(problem)
    assert 0 < found.structures <= size.structures and 0 < found.tilings <= size.tilings


def test_the_size_in_words() -> None:
    assert str(Size(16, 441, 7056)) == "16 structures × 441 tilings = 7 056 pairs"
    assert str(Size(21, 441, 7500)) == "21 structures, each with up to 441 tilings: 7 500 pairs"
