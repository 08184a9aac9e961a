"""Legality: every rule broken on its own, with the sentence that tells it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from core_tools import (
    ALONE,
    ATTENTION,
    BASE,
    HELD,
    IN_PLACE,
    NESTS,
    RECOMPUTING,
    ROOM,
    UNIT,
    buffer,
    edit,
    group,
    loops,
    machine,
    mapping,
    nests,
    said,
    told,
)

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, fullest, occupancies, violations
from exactile.formulation.hardware import ComputeUnit, Level, OpCost, SpatialDim
from exactile.formulation.mapping import Buffer, Mapping, UnitMapping


def held(*texts: str, without: str = "") -> Mapping:
    """The base mapping with buffers put in place of those of the tensors in `without`."""
    kept = [b for b in BASE.buffers if b.tensor not in without]
    return edit(buffers=(*kept, *map(buffer, texts)))


def on(unit: UnitMapping) -> Mapping:
    return edit(inner={**BASE.inner, "S": unit})


FAULTS: dict[str, tuple[Mapping, str]] = {
    "missing Einsum": (mapping(ALONE["S"], ALONE["P"]), "Einsum O is in no group"),
    "Einsum twice": (mapping(BASE, ALONE["P"]), "Einsum P is in group 1 and again in group 2"),
    "twice in a group": (edit(order=("S", "P", "P", "O")), "twice in group 1"),
    "unknown Einsum": (mapping(BASE, group({"Oo": ""})), "unknown Einsum 'Oo'"),
    "empty group": (mapping(BASE, group({})), "group 2 is empty"),
    "groups out of order": (mapping(ALONE["S"], ALONE["O"], ALONE["P"]), "must stand in an execution order"),
    "cyclic groups": (
        mapping(group({"S": "", "O": ""}, "Q S", "K S", "S S", "P O", "V O", "O O"), ALONE["P"]),
        "each need the other to run first",
    ),
    "kept": (replace(mapping(BASE), kept_between_groups=("S",)), "S is kept between groups, which is"),
    "kept unknown": (replace(mapping(BASE), kept_between_groups=("SS",)), "unknown tensor 'SS'; did you"),
    "no nest": (edit(nests={"S": (), "P": ()}), "Einsum O has no loop nest"),
    "foreign nest": (edit(nests={**BASE.nests, "X": ()}), "loop nest given for X, which is not in the group"),
    "no inner": (edit(inner={"S": UNIT, "P": UNIT}), "Einsum O has no mapping below it"),
    "inner too deep": (edit(inner={**BASE.inner, "O": BASE}), "the last level; expected a compute unit"),
    "unknown rank": (nests(S="m:2 n:3 z:2"), "loop over the unknown rank 'z'"),
    "rank twice": (nests(S="m:2 n:3 e:2 e:1"), "two loops over e"),
    "tile zero": (nests(S="m:2 n:3 e:0"), "the tile of e is 0, expected 1 to 4"),
    "tile negative": (nests(S="m:2 n:3 e:-1"), "the tile of e is -1, expected 1 to 4"),
    "tile too large": (nests(S="m:2 n:3 e:5"), "the tile of e is 5, expected 1 to 4"),
    "foreign loop": (nests(O="m:2 n:3 e:2"), "O has a loop over e, which is neither a rank of it nor a loop"),
    "shared tiles differ": (nests(P="m:4 n:3"), "share loop m through S but with tiles of 2 and 4"),
    "shared orders differ": (nests(P="n:3 m:2"), "order the loops outside it differently (m n; n m)"),
    "shared loop missing": (nests(P="m:2"), "loop n is outside the buffer of S"),
    "not a prefix": (held("K S n e", without="K"), "do not lead the nest of S (m n e)"),
    "unknown outside": (held("K S m q", without="K"), "unknown rank 'q' outside the buffer of K"),
    "unknown tensor": (held("KK S m"), "buffer for the unknown tensor 'KK'; did you mean 'K'?"),
    "missing buffer": (held(without="K"), "K has no buffer for S"),
    "missing output": (edit(buffers=BASE.buffers[:-1]), "O has no buffer for O"),
    "two buffers": (held("K S m"), "S uses K from 2 buffers"),
    "no users": (edit(buffers=(*BASE.buffers, Buffer("K", (), frozenset()))), "the buffer of K has no users"),
    "unknown user": (held("K S+T m", without="K"), "used by T, which is not in the group"),
    "idle user": (held("K S+P m", without="K"), "P is listed as a user of the buffer of K"),
    "user twice": (held("K S+S m", without="K"), "lists a user twice"),
    "users reversed": (held("S P+S m n", without="S"), "(P, S) are not in execution order"),
    "through DRAM": (
        edit(buffers=(*BASE.buffers[1:], buffer("S S m n"), buffer("S P m n"))),
        "S is written and read in the group and needs one buffer for S, P",
    ),
    "not topological": (
        mapping(group(dict(reversed(NESTS.items())), "S P+S m n", "P O+P m n", *HELD[2:])),
        "P runs before S, which it reads",
    ),
    "partial sums": (
        mapping(group({"S": "m:2 e:2 n:3", "P": "m:2 e:2 n:3", "O": "m:2"}, "S S+P m e n", "P P+O m",
                      "Q S m", "K S", "V O", "O O m")),
        "P would read partial sums of S: they share loop e",
    ),
    "recomputed output": (
        mapping(ALONE["S"], group({"P": "m:2 f:2", "O": "m:2 f:2"}, "P P+O m", "S P m f", "V O m f",
                                  "O O m f")),
        "P has a loop over f, which is neither a rank of it nor a loop",
    ),
    "held recomputation": (
        mapping(group(dict.fromkeys("SPO", "m:2 n:3 f:2"), "S S+P m n", "P P+O m n f",
                      "Q S m n", "K S m n", "V O m n f", "O O m")),
        "S has a loop over f",
    ),
    "unknown unit": (on(UnitMapping("pee")), "unknown unit 'pee'; did you mean 'pe'?"),
    "dataflow": (on(UnitMapping("pe", "weight_stationary")), "no systolic array and has no dataflow"),
    "transposed": (on(UnitMapping("pe", transposed=True)), "cannot be transposed"),
    "unit factor": (on(UnitMapping("pe", spatial={"m": {"rows": 2}})), "unknown spatial dimension 'rows'"),
    "instances": (on(UnitMapping("pe", spatial={"m": {"instances": 2}})), "to 2, but instances has size 1"),
    "factor zero": (on(UnitMapping("pe", spatial={"m": {"instances": 0}})), "is 0, expected at least 1"),
    "factor rank": (on(UnitMapping("pe", spatial={"f": {"instances": 1}})), "f, which is not a rank of it"),
    "step rank": (on(UnitMapping("pe", order=("z",))), "the order of steps names z"),
    "step twice": (on(UnitMapping("pe", order=("m", "m"))), "names a rank twice"),
    "spatial without dimension": (edit(spatial={"S": {"m": {"cores": 2}}}), "dimension 'cores'"),
}  # fmt: skip


def test_the_base_mapping_is_legal() -> None:
    assert violations(ATTENTION, ROOM, mapping(BASE)) == ()
    assert violations(ATTENTION, ROOM, mapping(*ALONE.values())) == ()


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_sentence(fault: str) -> None:
    chosen, sentence = FAULTS[fault]
    found = violations(ATTENTION, ROOM, chosen)
    assert said(sentence, found), found


def test_recomputing_a_consumer_while_its_input_is_held_is_legal() -> None:
    assert violations(ATTENTION, ROOM, RECOMPUTING) == ()
    assert evaluate(ATTENTION, ROOM, RECOMPUTING).groups[0].executions == {"S": 192, "P": 96, "O": 192}


def test_all_faults_are_told_not_the_first() -> None:
    broken = mapping(
        replace(ALONE["S"], nests={"S": loops("m:9 z:1")}),
        replace(ALONE["P"], inner={"P": UnitMapping("nowhere")}),
        replace(ALONE["O"], buffers=()),
    )
    found = violations(ATTENTION, ROOM, broken)
    for part in (
        "tile of m is 9",
        "unknown rank 'z'",
        "unknown unit 'nowhere'",
        "P has no buffer",
        "V has no buffer",
    ):
        assert said(part, found), found


def test_a_mapping_of_another_cascade() -> None:
    other = Cascade({"m": 4, "k": 4, "n": 4}, ["Z[m,n] = A[m,k] * B[k,n]"])
    found = violations(other, ROOM, mapping(BASE))
    assert "group 1 names the unknown Einsum 'S'" in found
    assert "Einsum Z is in no group" in found


def test_capacity_names_level_group_and_live_tensors() -> None:
    need = fullest(ATTENTION, ROOM, mapping(BASE))["GLB"]
    assert need.einsum == "S"
    assert dict(need.tensors) == {"S": 48, "Q": 32, "K": 48, "O": 64}
    assert violations(ATTENTION, machine(need.bits), mapping(BASE)) == ()
    assert violations(ATTENTION, machine(need.bits - 8), mapping(BASE)) == (
        "GLB: group S+P+O needs 24 B while S runs (S 6, Q 4, K 6, O 8), capacity is 23 B (short by 1 B)",
    )
    assert [item.einsum for item in occupancies(ATTENTION, ROOM, mapping(BASE))] == ["S", "P", "O"]


def test_a_unit_must_know_the_op() -> None:
    hardware = replace(ROOM, compute=(ComputeUnit("pe", "free", {"mac": OpCost(Fraction(1))}),))
    assert told("can run op exp of P", ATTENTION, hardware, mapping(BASE))


def test_a_matmul_goes_to_the_array() -> None:
    ew = {"ew": OpCost(Fraction(1))}
    array = ComputeUnit("array", "systolic", {"mac": OpCost(Fraction(1))}, ("weight_stationary",))
    hardware = replace(ROOM, compute=(array, ComputeUnit("pe", "vector", ew, lanes=4)))
    found = violations(ATTENTION, hardware, mapping(BASE))
    assert [text for text in found if "unit pe cannot run it (op mac); expected array" in text] == [
        "S: unit pe cannot run it (op mac); expected array",
        "O: unit pe cannot run it (op mac); expected array",
    ]
    wrong = on(UnitMapping("array", "output_stationary"))
    assert told("no dataflow 'output_stationary'", ATTENTION, hardware, wrong)


# --- levels that hold something, in place, barriers, spatial -------------------------------------------


def test_bypass_follows_what_a_level_holds() -> None:
    hardware = machine(10**6)
    glb = replace(hardware.levels[1], holds=frozenset({"input", "intermediate"}))
    hardware = replace(hardware, levels=(hardware.levels[0], glb))
    found = violations(ATTENTION, hardware, mapping(BASE))
    assert found == ("group S+P+O at GLB: O has a buffer, but GLB does not hold it",)
    assert violations(ATTENTION, hardware, edit(buffers=BASE.buffers[:-1])) == ()
    glb = replace(glb, holds=frozenset({"input", "output"}))
    found = violations(ATTENTION, replace(hardware, levels=(hardware.levels[0], glb)), mapping(BASE))
    assert said("S is written and read in the group, but GLB does not hold it", found)


def test_in_place_takes_one_buffer_of_the_larger_width() -> None:
    together = mapping(group(NESTS, "S S+P+O m n", *HELD[2:]))
    assert violations(IN_PLACE, ROOM, together) == ()
    assert dict(fullest(IN_PLACE, ROOM, together)["GLB"].tensors)["S"] == 6 * 16
    ordinary = mapping(BASE)
    assert violations(IN_PLACE, ROOM, ordinary) == ()
    lacking = mapping(group(NESTS, "S S+P m n", *HELD[2:]))
    assert told("O must be a user of the buffer of S", IN_PLACE, ROOM, lacking)
    apart = mapping(ALONE["S"], group({"P": "m:2", "O": "m:2"}, "S P+O m", "V O", "O O m"))
    assert told("cannot overwrite S, which is written outside", IN_PLACE, ROOM, apart)


def test_barriers_row_and_online() -> None:
    def cascade(mode: str) -> Cascade:
        softmax = {"einsum": "P[m,n] = softmax(S[m,n])", "over": "n", "mode": mode}
        return Cascade(
            dict(ATTENTION.ranks), ["S[m,n] = Q[m,e] * K[n,e]", softmax, "O[m,f] = P[m,n] * V[n,f]"]
        )

    streamed, rows = (
        mapping(BASE),
        mapping(
            group({"S": "m:2", "P": "m:2", "O": "m:2"}, "S S+P m", "P P+O m", "Q S m", "K S", "V O", "O O m")
        ),
    )
    assert violations(cascade("row"), ROOM, rows) == ()
    found = violations(cascade("row"), ROOM, streamed)
    assert said("P and O share loop n, but P carries a row statistic", found)
    assert said("S and P share loop n", found)
    assert violations(cascade("online"), ROOM, streamed) == ()
    assert evaluate(cascade("online"), ROOM, streamed).groups[0].corrections == {"O": 2 * 32}
    assert evaluate(cascade("online"), ROOM, rows).groups[0].corrections == {}
    split = mapping(
        group({"S": "m:2 n:3", "P": "m:2 n:3"}, "S S+P m n", "P P m n", "Q S m", "K S"), ALONE["O"]
    )
    assert told("corrects O outside the group", cascade("online"), ROOM, split)


def test_spatial_factors_at_a_boundary() -> None:
    hardware = machine(10**6, spatial=(SpatialDim("cores", 4),))
    heads = {name: {"m": {"cores": 4}} for name in "SPO"}
    assert violations(ATTENTION, hardware, edit(spatial=heads)) == ()
    found = violations(ATTENTION, hardware, edit(spatial={**heads, "P": {"m": {"cores": 8}}}))
    assert said("spatial factors over cores multiply to 8, but cores has size 4", found)
    found = violations(ATTENTION, hardware, edit(spatial={**heads, "P": {}}))
    assert said("S and P share the buffer of S but spread m over the instances differently", found)
    found = violations(ATTENTION, hardware, edit(spatial={"S": {"e": {"cores": 2}}}))
    assert said("S spreads e over the instances", found)


def test_inner_boundaries() -> None:
    hardware = machine(10**6, between=(Level("L1", 10**6),))
    cascade = Cascade({"m": 8, "k": 8, "n": 8}, ["Z[m,n] = A[m,k] * B[k,n]"])
    outer = ("A Z m", "B Z", "Z Z m")
    inner = group({"Z": "k:2"}, "A Z k", "B Z k", "Z Z")
    legal = mapping(group({"Z": "m:4"}, *outer, inner={"Z": inner}))
    assert violations(cascade, hardware, legal) == ()
    assert set(fullest(cascade, hardware, legal)) == {"L1", "GLB"}
    small = replace(hardware, levels=(*hardware.levels[:2], replace(hardware.levels[2], capacity=8)))
    assert any(text.startswith("GLB: group Z needs 56 B") for text in violations(cascade, small, legal))
    shallow = mapping(group({"Z": "m:4"}, *outer))
    assert told("expected the loop nest between L1 and GLB", cascade, hardware, shallow)
    wide = mapping(group({"Z": "m:4"}, *outer, inner={"Z": replace(inner, nests={"Z": loops("m:5")})}))
    assert told("the tile of m is 5, expected 1 to 4", cascade, hardware, wide)
    other = mapping(group({"Z": "m:4"}, *outer, inner={"Z": group({"Y": ""})}))
    assert told("the loop nest below Z is one of Y", cascade, hardware, other)
    fused = mapping(group({"Z": "m:4"}, *outer, inner={"Z": group({"Z": "", "Y": ""})}))
    assert told("not supported yet", cascade, hardware, fused)


def test_what_is_not_covered_yet_is_said() -> None:
    window = Cascade({"p": 4, "r": 3}, ["O[p] = I[p+r] * W[r]"])
    chosen = mapping(group({"O": ""}, "I O", "W O", "O O"))
    assert told("I[p+r]: windows, shifts and constants", window, ROOM, chosen)
    twice = Cascade({"i": 4, "l": 4, "k": 3}, ["S[i,l] = X[i,k] * X[l,k]"])
    chosen = mapping(group({"S": ""}, "X S", "S S"))
    assert told("X is used through two index maps by S", twice, ROOM, chosen)
    single = replace(ROOM, levels=ROOM.levels[:1])
    assert told("has one level", ATTENTION, single, mapping(BASE))
    with pytest.raises(ValueError, match="between groups"):
        evaluate(ATTENTION, ROOM, replace(mapping(BASE), kept_between_groups=("S",)))
