"""Restrictions of the mapspace: a mapping that breaks one is told so, each with its sentence."""

from __future__ import annotations

import pytest
from core_tools import ALONE, ATTENTION, BASE, RECOMPUTING, ROOM, group, mapping, nests, said, told

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import violations
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Mapspace

SHARED = Cascade({"m": 8, "k": 4, "n": 6}, ["A[m,n] = X[m,k] * V[k,n]", "B[m,n] = A[m,n] + X[m,k]"])
SHARING = mapping(group({"A": "m:2", "B": "m:2"}, "A A+B m", "X A+B m", "V A", "B B m"))

RESTRICTED: dict[str, tuple[Cascade, Mapping, Mapspace, str]] = {
    "recomputation": (
        ATTENTION, RECOMPUTING, Mapspace(recomputation=False),
        "forbids recomputation, but loop f executes P again",
    ),
    "shared inputs": (SHARED, SHARING, Mapspace(shared_inputs=False), "forbids shared inputs, but A, B"),
    "fusion": (ATTENTION, mapping(BASE), Mapspace(fusion="none"), "forbids fusion, but S, P, O are"),
    "groups": (
        ATTENTION, mapping(BASE), Mapspace(fusion=(("S", "P"), ("O",))), "asks for the groups S, P | O, but",
    ),
    "orders": (
        ATTENTION, mapping(BASE), Mapspace(orders={"S": ("n", "m", "e")}), "loops of S to n m e, got m n e",
    ),
    "residency": (
        ATTENTION, mapping(BASE), Mapspace(residency={"K": frozenset("m")}),
        "pins the loops outside the buffer of K to m, got e, m, n",
    ),
    "tiles": (ATTENTION, mapping(BASE), Mapspace(tiles={"m": 4}), "pins the tile of m to 4, S uses 2"),
    "divisors": (
        ATTENTION, nests(S="m:2 n:3 e:3"), Mapspace(), "S tiles e below DRAM by 3, which does not divide 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("restriction", RESTRICTED)
def test_each_restriction_has_its_sentence(restriction: str) -> None:
    cascade, chosen, mapspace, sentence = RESTRICTED[restriction]
    loose = Mapspace(tile_sizes="all")
    assert violations(cascade, ROOM, chosen, loose) == ()
    found = violations(cascade, ROOM, chosen, mapspace)
    assert said(sentence, found), found


def test_restrictions_that_a_mapping_keeps() -> None:
    pins = Mapspace(
        orders={"S": ("m", "f", "n", "e")},
        residency={"O": frozenset("m"), "S": frozenset("mn")},
        tiles={"m": 2, "e": 2},
        fusion=(("O", "P", "S"),),
        order="given",
        recomputation=False,
    )
    assert violations(ATTENTION, ROOM, mapping(BASE), pins) == ()
    inward = group({"O": "m:2 f:2"}, "P O m f", "V O m f", "O O m f")
    pins = Mapspace(residency={"P": frozenset("m")})
    assert violations(ATTENTION, ROOM, mapping(ALONE["S"], ALONE["P"], inward), pins) == ()


def test_fused_outputs_and_given_order() -> None:
    cascade = Cascade(
        {"m": 4, "k": 2, "n": 3},
        ["Y[m,n] = X[m,k] * W[k,n]", "Z[m,n] = exp(Y[m,n])", "U[m] = Y[m,n]"],
    )
    rest = group({"U": ""}, "Y U", "U U")
    first = group({"Y": "", "Z": ""}, "Y Y+Z", "X Y", "W Y", "Z Z")
    assert violations(cascade, ROOM, mapping(first, rest)) == ()
    strict = Mapspace(fused_outputs=False)
    assert told("forbids fusing Y", cascade, ROOM, mapping(first, rest), strict)
    given_order = Mapspace(order="given")
    alone = [group({"Y": ""}, "X Y", "W Y", "Y Y"), rest, group({"Z": ""}, "Y Z", "Z Z")]
    assert violations(cascade, ROOM, mapping(*alone)) == ()
    found = violations(cascade, ROOM, mapping(*alone), given_order)
    assert found == ("the problem asks for the written order Y, Z, U, got Y, U, Z",)
