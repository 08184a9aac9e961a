"""Fates of tensors, counted by hand, and sums that must come out for any mapping."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from fractions import Fraction

import pytest
from core_tools import group, machine, mapping
from strategies import random_case

import exactile
import hand_made
from exactile.fate import Fate, Shared, fates
from exactile.fate_table import fate_text, fates_table
from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.cost import Traffic
from exactile.formulation.mapping import Buffer, Mapping
from exactile.formulation.mapping_text import plain
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.json_output import fates_json

# energies per value of the machine of core_tools: a drain and a fill of the buffer
WRITTEN, READ = 210 + 6, 200 + 7


def problem_of(cascade: Cascade) -> Problem:
    return Problem(cascade, machine(10**6), Objective("energy"), Mapspace(tile_sizes="all"))


def fates_of(cascade: Cascade, chosen: Mapping) -> dict[str, Fate]:
    problem = problem_of(cascade)
    assert not violations(cascade, problem.hardware, chosen)
    return {fate.tensor: fate for fate in fates(problem, chosen)}


def saved(fate: Fate) -> tuple[Fraction, Fraction]:
    return fate.saved_bytes, fate.saved_energy


def test_scores_of_fused_attention_never_move() -> None:
    """|S| = 2·509·512 values of two bytes, not written and not read; P, of one byte, takes its place."""
    found = {fate.tensor: fate for fate in fates(hand_made.problem(), hand_made.fused())}
    assert list(found) == ["Q", "K", "S", "P", "V", "O"]
    values = 2 * 509 * 512
    transfer = Fraction(2 * 7500 + 132 + 234, 1000)
    scores = found["S"]
    assert (scores.kind, scores.fused, scores.overwrites) == ("fused", ("P",), None)
    assert scores.dram_bytes == 0
    assert saved(scores) == (2 * 2 * values, values * 16 * transfer)
    weights = found["P"]
    assert (weights.kind, weights.fused, weights.overwrites) == ("fused", ("O",), "S")
    assert saved(weights) == (2 * values, values * 8 * transfer)
    # keys and values come again for each of the eight blocks of queries
    assert found["K"].kind == found["V"].kind == "from DRAM"
    assert found["K"].moved == found["V"].moved == Traffic(8 * 2 * 512 * 64, 0)
    assert (found["O"].kind, found["O"].dram_bytes) == ("to DRAM", 2 * 509 * 64)
    # the online softmax rescales the output for each of the four blocks of keys
    assert found["O"].extra_operations == 4 * 2 * 509 * 64
    assert not any(found[name].extra_operations for name in "QKSPV")


def test_unfused_attention_saves_nothing() -> None:
    found = {fate.tensor: fate for fate in fates(hand_made.problem(), hand_made.unfused())}
    values = 2 * 509 * 512
    assert (found["S"].kind, found["S"].written_in, found["S"].read_in) == ("through DRAM", 1, (2,))
    assert (found["P"].kind, found["P"].written_in, found["P"].read_in) == ("through DRAM", 2, (3,))
    assert found["S"].moved == found["P"].moved == Traffic(values, values)
    assert (found["S"].dram_bytes, found["P"].dram_bytes) == (4 * values, 2 * values)
    assert not any(any(saved(fate)) for fate in found.values())


def gated() -> tuple[Cascade, Mapping]:
    """Both projections read one fetch of X, which comes again for each of the two blocks of `f`."""
    cascade = Cascade(
        {"m": 4, "d": 3, "f": 6, "o": 5},
        ["G[m,f] = X[m,d] * WG[d,f]", "U[m,f] = X[m,d] * WU[d,f]", "H[m,f] = G[m,f] * U[m,f]"],
        bits=16,
    )
    nests = dict.fromkeys("GUH", "f:3 m:2")
    buffers = ("X G+U f m", "WG G f", "WU U f", "G G+H f m", "U U+H f m", "H H f m")
    return cascade, mapping(group(nests, *buffers))


def test_one_fetch_of_a_gated_layer_spares_the_second() -> None:
    cascade, chosen = gated()
    found = fates_of(cascade, chosen)
    assert (found["X"].kind, found["X"].shared) == ("shared", (Shared(1, ("G", "U")),))
    assert found["X"].moved == Traffic(2 * 12, 0)
    assert saved(found["X"]) == (2 * 2 * 12, 2 * 12 * READ)
    for name in "GU":
        assert found[name].kind == "fused"
        assert saved(found[name]) == (2 * 2 * 24, 24 * (WRITTEN + READ))


def test_what_sharing_saves_is_what_separate_fetches_cost() -> None:
    cascade, chosen = gated()
    (only,) = chosen.groups
    apart = [buffer for buffer in only.buffers if buffer.tensor != "X"]
    apart += [Buffer("X", (user,), frozenset("fm")) for user in "GU"]
    separate = Mapping((replace(only, buffers=tuple(apart)),))
    costs = [evaluate(cascade, machine(10**6), one) for one in (separate, chosen)]
    shared = fates_of(cascade, chosen)["X"]
    assert costs[0].dram_bytes - costs[1].dram_bytes == shared.saved_bytes
    assert costs[0].energy - costs[1].energy == shared.saved_energy
    assert fates_of(cascade, separate)["X"].kind == "from DRAM"


def test_what_fusing_saves_is_what_whole_tensors_through_dram_cost() -> None:
    """Where a group of its own reads and writes each tensor once, the least is met."""
    cascade = Cascade({"m": 4, "k": 3, "f": 6}, ["C[m,f] = A[m,k] * B[k,f]", "E[m,f] = exp(C[m,f])"])
    fused = mapping(group({"C": "m:2", "E": "m:2"}, "A C m", "B C", "C C+E m", "E E m"))
    apart = mapping(group({"C": "m:2"}, "A C m", "B C", "C C m"), group({"E": "m:2"}, "C E m", "E E m"))
    costs = [evaluate(cascade, machine(10**6), one) for one in (apart, fused)]
    tensor = fates_of(cascade, fused)["C"]
    assert costs[0].dram_bytes - costs[1].dram_bytes == tensor.saved_bytes == 2 * 24
    assert costs[0].energy - costs[1].energy == tensor.saved_energy == 24 * (WRITTEN + READ)


def test_a_fused_output_saves_its_read_only() -> None:
    cascade = Cascade(
        {"m": 4, "k": 3, "f": 6},
        ["C[m,f] = A[m,k] * B[k,f]", "E[m] = C[m,f] * D[f]"],
        tensors={"C": {"role": "output"}},
    )
    chosen = mapping(group({"C": "m:2", "E": "m:2"}, "A C m", "B C", "C C+E m", "D E", "E E m"))
    fate = fates_of(cascade, chosen)["C"]
    assert (fate.kind, fate.fused, fate.read_in, fate.moved) == (
        "fused and written",
        ("E",),
        (),
        Traffic(0, 24),
    )
    assert saved(fate) == (24, 24 * READ)


def skip() -> tuple[Cascade, Mapping]:
    """C is fused into D; E and F of the next group take it, written out by then, from one fetch."""
    cascade = Cascade(
        {"m": 4, "k": 3},
        [
            "C[m,k] = exp(A[m,k])",
            "D[m] = C[m,k] * V[k]",
            "E[m,k] = C[m,k] * D[m]",
            "F[m,k] = C[m,k] * E[m,k]",
        ],
    )
    first = group({"C": "m:2", "D": "m:2"}, "A C m", "C C+D m", "V D", "D D m")
    second = group({"E": "m:2", "F": "m:2"}, "C E+F m", "D E m", "E E+F m", "F F m")
    return cascade, mapping(first, second)


def test_a_tensor_may_be_fused_written_and_shared() -> None:
    cascade, chosen = skip()
    fate = fates_of(cascade, chosen)["C"]
    assert (fate.kind, fate.fused, fate.written_in, fate.read_in) == ("fused and written", ("D",), 1, (2,))
    assert fate.shared == (Shared(2, ("E", "F")),)
    assert fate.moved == Traffic(12, 12)
    assert saved(fate) == (2 * 12, 2 * 12 * READ)
    assert fate_text(fate) == "fused in 1 into D, also to DRAM → 2, one fetch for E, F"


def test_recomputation_is_told() -> None:
    """`j` is foreign to C, whose 2·3·4 points are computed once for each of its three blocks."""
    cascade = Cascade(
        {"i": 2, "k": 3, "l": 4, "j": 6}, ["C[i,l] = A[i,k] * B[k,l]", "E[i,j] = C[i,l] * D[l,j]"]
    )
    nests = {"C": "j:2 i:1", "E": "j:2 i:1"}
    chosen = mapping(group(nests, "A C j i", "B C j", "C C+E j i", "D E j", "E E j i"))
    found = fates_of(cascade, chosen)
    assert found["C"].extra_operations == 2 * 24
    assert found["E"].extra_operations == 0


@pytest.mark.parametrize("seed", range(120))
def test_sums_of_any_mapping(seed: int) -> None:
    """Nothing is left out: DRAM bytes and operations add up to those of the cost."""
    case = random_case(seed)
    problem = Problem(case.cascade, case.hardware, Objective("energy"), Mapspace(tile_sizes="all"))
    cost = evaluate(case.cascade, case.hardware, case.mapping)
    found = fates(problem, case.mapping, cost)
    assert {fate.tensor for fate in found} == set(case.cascade.tensors)
    assert sum(fate.dram_bytes for fate in found) == cost.dram_bytes
    once = sum(case.cascade.points(e) * sum(e.cost.values(), Fraction(0)) for e in case.cascade.einsums)
    assert sum(fate.extra_operations for fate in found) == cost.operations - once
    for fate in found:
        stays = bool(fate.fused) or bool(fate.shared)
        assert (fate.saved_bytes > 0) == stays and (fate.saved_energy > 0) <= stays
        if fate.kind == "fused":
            assert fate.moved == Traffic() and not fate.read_in


def test_as_json() -> None:
    cascade, chosen = skip()
    problem = problem_of(cascade)
    data = fates_json(problem, chosen, evaluate(cascade, problem.hardware, chosen))
    assert data is not None
    assert data[1] == {
        "tensor": "C",
        "fate": "fused and written",
        "written_in": 1,
        "fused": ["D"],
        "read_in": [2],
        "shared": [{"group": 2, "readers": ["E", "F"]}],
        "overwrites": None,
        "dram": {"reads": 12, "writes": 12},
        "dram_bytes": 24,
        "saved_bytes": 24,
        "saved_energy": 24 * READ,
        "extra_operations": 0,
    }
    assert fates_json(problem, None, None) is None


def squeezed(line: str) -> str:
    return " ".join(line.split())


def test_as_a_table() -> None:
    cascade, chosen = skip()
    problem = problem_of(cascade)
    lines = plain(fates_table(problem, chosen, evaluate(cascade, problem.hardware, chosen))).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["tensor", "A", "C", "", "V", "D", "E", "F", "all"]
    # a long fate goes on in the next line
    assert squeezed(lines[2]) == "C 12 B fused in 1 into D, also to DRAM → 2, 24 24 4 968"
    assert squeezed(lines[3]) == "one fetch for E, F"
    assert squeezed(lines[5]) == "D 4 B through DRAM 1 → 2 8"
    assert squeezed(lines[-1]) == "all 59 48 10 044"
    assert 24 * READ + 12 * (WRITTEN + READ) == 10044


def test_no_public_name_is_a_module() -> None:
    """A module of the name of a public function would take its place once it is imported."""
    modules = {module.name for module in pkgutil.iter_modules(exactile.__path__)}
    assert not modules & set(exactile.__all__)
    importlib.import_module("exactile.fate")
    assert exactile.fates is fates
