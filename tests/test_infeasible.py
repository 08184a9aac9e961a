"""Infeasible problems: every engine proves them and says what is short, by how much, and what would help.

The numbers of the sentences are held against the brute force: one bit or unit less than what is named is
still too little, and exactly that is enough.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from brute_force import BruteForce
from core_tools import machine
from two_operator_problems import problem as random_problem

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import violations
from exactile.formulation.hardware import OpCost
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.solver.engine import Control, Outcome, Stopped
from exactile.solver.engines import ENGINES
from exactile.solver.explain import explain, roomy
from exactile.solver.mmee import mmee
from exactile.solver.mmee.smallest import smallest
from exactile.solver.restrictions import lifted, restrictions
from exactile.solver.verify import VerificationError

SOLVERS = ("mmee", "cpsat", "milp")
FUSED = (("S", "P", "O"),)
RANKS = {"m": 8, "n": 8, "e": 4, "f": 4}
SOFTMAX: dict[str, Any] = {"einsum": "P[m,n] = softmax(S[m,n])", "over": "n", "mode": "row", "in_place": True}
ATTENTION = Cascade(
    RANKS, ["S[m,n] = Q[m,e] * K[n,e]", SOFTMAX, "O[m,f] = P[m,n] * V[n,f]"], name="attention"
)
CHAIN = Cascade(RANKS, ["S[m,n] = Q[m,e] * K[n,e]", "O[m,f] = S[m,n] * V[n,f]"], name="chain")
SMALL = Cascade({"m": 2, "n": 3, "e": 2, "f": 2}, ["S[m,n] = Q[m,e] * K[n,e]", "O[m,f] = S[m,n] * V[n,f]"])
AGAIN = Cascade(
    {"i": 4, "l": 6, "k": 1, "j": 4}, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"], name="again"
)


def made(cascade: Cascade, capacity: int, mapspace: Mapspace | None = None, **limits: int) -> Problem:
    """A problem on a buffer of `capacity` bytes."""
    hardware = machine(8 * capacity)
    (unit,) = hardware.compute
    every = {op: OpCost(Fraction(1)) for op in ("ew", "softmax", "mac")}
    hardware = replace(hardware, compute=(replace(unit, ops=every),))
    subject_to = {name: Fraction(limit) for name, limit in limits.items()}
    return Problem(cascade, hardware, Objective("energy", (), subject_to), mapspace or Mapspace())


def residency(**pins: str) -> dict[str, frozenset[str]]:
    """`residency(P="mn")`: exactly the loops m and n are outside the buffer of P."""
    return {tensor: frozenset(ranks) for tensor, ranks in pins.items()}


BACKWARDS = Mapspace(orders={"O": ("m", "n", "f")}, residency=residency(O="n"), tiles={"n": 2})

# problem, bytes that the smallest tiles need, restrictions without which it would be feasible
SHORT: dict[str, tuple[Problem, int, list[str]]] = {
    "nothing fits": (made(ATTENTION, 2), 3, []),
    "forced fusion": (made(ATTENTION, 9, Mapspace(fusion=FUSED)), 10, ["mapspace.fusion"]),
    "either tile": (
        made(CHAIN, 20, Mapspace(tiles={"m": 8, "n": 8})),
        80,
        ["mapspace.tiles.m", "mapspace.tiles.n"],
    ),
    "one tile": (made(CHAIN, 10, Mapspace(tiles={"n": 8, "f": 1})), 17, ["mapspace.tiles.n"]),
    "both tiles": (made(CHAIN, 6, Mapspace(tiles={"m": 4, "f": 4})), 24, ["mapspace.tiles"]),
    "order against residency": (
        made(CHAIN, 40, BACKWARDS),
        50,
        ["mapspace.orders.O", "mapspace.residency.O"],
    ),
}
# problem, the least value of every limit that cannot be met, restrictions without which it would be feasible
OVER: dict[str, tuple[Problem, dict[str, int], list[str]]] = {
    "one": (made(CHAIN, 64, dram_traffic=100), {"dram_traffic": 160}, ["subject_to.dram_traffic"]),
    "one of two": (
        made(AGAIN, 12, Mapspace(fusion="none"), dram_traffic=80, operations=1000),
        {"dram_traffic": 122},
        ["mapspace.fusion", "subject_to.dram_traffic"],
    ),
    "two": (
        made(AGAIN, 12, dram_traffic=10, operations=119),
        {"dram_traffic": 68, "operations": 120},
        ["subject_to"],
    ),
    "product": (made(SMALL, 8, edp=10), {"edp": 153_504}, ["subject_to.edp"]),
    "jointly": (
        made(AGAIN, 12, dram_traffic=68, operations=120),
        {},
        ["subject_to.dram_traffic", "subject_to.operations"],
    ),
}
# problem, the restrictions that contradict each other, the dependency that is in the way
CONTRADICTIONS: dict[str, tuple[Problem, set[str], str]] = {
    "row statistic": (
        made(
            ATTENTION,
            4096,
            Mapspace(fusion=FUSED, residency=residency(P="mn"), tiles={"n": 2}, recomputation=False),
        ),
        {"mapspace.fusion", "mapspace.residency.P", "mapspace.tiles.n"},
        "readers of P need whole rows over n",
    ),
    "reduction": (
        made(CHAIN, 4096, Mapspace(fusion=(("S", "O"),), residency=residency(S="me"), tiles={"e": 2})),
        {"mapspace.fusion", "mapspace.residency.S", "mapspace.tiles.e"},
        "S is summed over e, and partial sums must not be read",
    ),
    "order against residency": (
        made(CHAIN, 4096, replace(BACKWARDS, tiles={"m": 2, "n": 2, "f": 1})),
        {"mapspace.orders.O", "mapspace.residency.O", "mapspace.tiles.m", "mapspace.tiles.n"},
        "",
    ),
}
EVERY = {name: one for found in (SHORT, OVER, CONTRADICTIONS) for name, (one, *_) in found.items()}


def solve(engine: str, one: Problem) -> Outcome:
    return ENGINES[engine].load()(one, Control())


def reason(engine: str, one: Problem) -> str:
    outcome = solve(engine, one)
    assert (outcome.status, outcome.mapping, outcome.bound) == ("infeasible", None, None), engine
    assert outcome.reason is not None and "\n" not in outcome.reason
    return outcome.reason


def helps(sentence: str) -> list[str]:
    """The restrictions that a sentence advises to lift."""
    _, _, advice = sentence.partition("; it would be feasible without ")
    return advice.split(" or without ") if advice else []


def feasible(one: Problem) -> bool:
    """Decided by trying everything; where orders or residencies are pinned by the enumeration."""
    space = one.mapspace
    if space.orders or space.residency:
        return mmee(one, Control()).mapping is not None
    brute = BruteForce(one)
    return (brute.best() if space.recomputation else brute.best_without_recomputation()) is not None


def with_capacity(one: Problem, bits: int) -> Problem:
    dram, buffer = one.hardware.levels
    return replace(one, hardware=replace(one.hardware, levels=(dram, replace(buffer, capacity=bits))))


def needed(sentence: str) -> tuple[str, int, int]:
    """Level, bits needed and bits short; the tensors add up to what is needed."""
    found = re.match(
        r"even with the smallest tiles, (\w+): group \S+ needs ([\d .]+) B while \w+ runs \((.*?)\), "
        r"capacity is [\d .]+ B \(short by ([\d .]+) B\)",
        sentence,
    )
    assert found is not None, sentence
    tensors = [bits(part.partition(" ")[2]) for part in found[3].split(", ")]
    assert sum(tensors) == bits(found[2]), sentence
    return found[1], bits(found[2]), bits(found[4])


def bits(text: str) -> int:
    return int(8 * Fraction(text.replace(" ", "")))


@pytest.mark.parametrize("engine", SOLVERS)
@pytest.mark.parametrize("name", SHORT)
def test_a_shortage_is_told_tensor_by_tensor(name: str, engine: str) -> None:
    one, need, advice = SHORT[name]
    sentence = reason(engine, one)
    capacity = one.hardware.levels[1].capacity or 0
    assert needed(sentence) == ("GLB", 8 * need, 8 * need - capacity)
    assert helps(sentence) == advice


@pytest.mark.parametrize("name", SHORT)
def test_what_is_needed_is_enough_and_less_is_not(name: str) -> None:
    one, need, _ = SHORT[name]
    assert feasible(with_capacity(one, 8 * need)) and not feasible(with_capacity(one, 8 * need - 1))


@pytest.mark.parametrize("engine", SOLVERS)
@pytest.mark.parametrize("name", OVER)
def test_limits_are_told_with_their_least_values(name: str, engine: str) -> None:
    one, least, advice = OVER[name]
    sentence = reason(engine, one)
    if least:
        said = re.findall(r"(\w+) is at least ([\d ]*\d)[^,]*? and may be at most ([\d ]*\d)", sentence)
        assert {n: int(value.replace(" ", "")) for n, value, _ in said} == least, sentence
        assert all(int(limit.replace(" ", "")) == one.objective.subject_to[n] for n, _, limit in said)
    else:
        assert sentence.startswith("each limit can be met, but no mapping meets all of dram_traffic ≤ 68 B, ")
    assert helps(sentence) == advice


@pytest.mark.parametrize("name", [name for name, (_, least, _) in OVER.items() if least])
def test_the_least_values_are_reached_and_less_is_not(name: str) -> None:
    one, least, _ = OVER[name]
    for quantity, value in least.items():
        for slack in (0, -1):
            limits = {quantity: Fraction(value + slack)}
            assert feasible(replace(one, objective=replace(one.objective, subject_to=limits))) == (not slack)


@pytest.mark.parametrize("engine", SOLVERS)
@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictory_restrictions_are_named(name: str, engine: str) -> None:
    one, conflict, why = CONTRADICTIONS[name]
    sentence = reason(engine, one)
    found = re.match(r"(.*?) contradict each other(?: \((.*?)\))?", sentence)
    assert found is not None, sentence
    assert set(re.split(", | and ", found[1])) == conflict and (found[2] or "") == why
    assert set(helps(sentence)) == conflict


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_hold_and_none_of_them_can_be_spared(name: str) -> None:
    one, conflict, _ = CONTRADICTIONS[name]
    every = [r for r in restrictions(one) if r.key != "tile_sizes"]
    assert not feasible(roomy(lifted(one, [r for r in every if str(r) not in conflict])))
    assert all(feasible(roomy(r.lifted(one))) for r in every if str(r) in conflict)


@pytest.mark.parametrize("name", EVERY)
def test_the_advice_is_right_and_complete(name: str) -> None:
    """Of single restrictions exactly those are named without which there is a mapping."""
    one = EVERY[name]
    advice = helps(reason("cpsat", one))
    for restriction in restrictions(one):
        assert (str(restriction) in advice) == feasible(restriction.lifted(one)), restriction


def test_random_shortages_are_the_same_for_all_engines() -> None:
    met = 0
    for seed in range(60):
        one = random_problem(seed)
        one = replace(one, objective=Objective("dram_traffic", ()))
        outcome = mmee(one, Control())
        if outcome.status == "infeasible":
            assert outcome.reason is not None
            level, need, short = needed(outcome.reason)
            assert (level, need, short) == needed(reason("cpsat", one)), seed
            assert feasible(with_capacity(one, need)) and not feasible(with_capacity(one, need - 1)), seed
            met += 1
    assert met >= 5


# the mechanism, with searches that are stopped or wrong


def stopped(one: Problem, control: Control) -> Outcome:
    return Outcome("unknown")


def no_time(one: Problem, control: Control) -> None:
    raise Stopped


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing fits", "no mapping fits into GLB (2 B) ("),
        ("either tile", "fits into GLB (20 B) and keeps mapspace.tiles.m, mapspace.tiles.n ("),
        ("jointly", "fits into GLB (12 B) and meets dram_traffic ≤ 68 B, operations ≤ 120 ("),
    ],
)
def test_without_time_the_short_sentence_is_said(name: str, words: str) -> None:
    assert words in explain(EVERY[name], Control(), stopped, no_time)


def test_time_that_ends_later_keeps_what_is_known() -> None:
    """The shortage is found, no relaxed problem can be decided."""
    one, need, _ = SHORT["either tile"]
    whole = mmee(roomy(one), Control()).mapping
    sentence = explain(one, Control(), stopped, lambda one, control: whole)
    assert needed(sentence)[1] >= 8 * need and helps(sentence) == []


def test_a_mapping_that_fits_refutes_the_claim() -> None:
    one = made(CHAIN, 64)
    best = mmee(one, Control()).mapping
    assert best is not None and not violations(one.cascade, one.hardware, best)
    with pytest.raises(VerificationError, match="a mapping fits into GLB"):
        explain(one, Control(), mmee, lambda one, control: best)


def test_a_first_solution_that_does_not_stand_is_looked_for_again() -> None:
    """A search that loses its solution when it is stopped by it is asked again without a stop."""
    one, _, advice = SHORT["forced fusion"]

    def forgetful(one: Problem, control: Control) -> Outcome:
        outcome = mmee(one, Control())
        if outcome.mapping is not None:
            control.report(outcome.bound, None)
        return Outcome("unknown") if control.stopped else outcome

    assert helps(explain(one, Control(), forgetful, smallest)) == advice


def test_an_explanation_ends_with_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the search had no limit."""
    monkeypatch.setattr("exactile.solver.explain.MOST_SECONDS", 0.1)
    given: list[float | None] = []

    def patient(one: Problem, control: Control) -> Outcome:
        given.append(control.left)
        while not control.stopped:
            pass
        return Outcome("unknown")

    one, _, _ = OVER["one"]
    assert "no time to find out more" in explain(one, Control(None), patient, no_time)
    assert given[0] is not None and given[0] <= 0.1
