"""Nonsense as a mapping: it is told what is wrong, and never raises."""

from __future__ import annotations

from dataclasses import replace

from core_tools import ALONE, ATTENTION, BASE, IN_PLACE, ROOM, machine, mapping
from hypothesis import given, settings
from hypothesis import strategies as st

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.hardware import Hardware, Level, SpatialDim
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.problem import Mapspace

NAMES = st.sampled_from(["S", "P", "O", "Q", "K", "V", "", "nothing"])
RANKS = st.sampled_from(["m", "n", "e", "f", "z"])
TILE = st.integers(-1, 9)
FACTORS = st.dictionaries(
    RANKS, st.dictionaries(st.sampled_from(["instances", "cores", ""]), TILE, max_size=2), max_size=2
)
LOOPS = st.lists(st.builds(Loop, RANKS, TILE), max_size=3).map(tuple)
BUFFERS = st.builds(Buffer, NAMES, st.lists(NAMES, max_size=3).map(tuple), st.frozensets(RANKS, max_size=3))
UNITS = st.builds(
    UnitMapping,
    st.sampled_from(["pe", "array", ""]),
    st.sampled_from([None, "weight_stationary", "free"]),
    st.booleans(),
    FACTORS,
    st.lists(RANKS, max_size=3).map(tuple),
)


def groups(inner: st.SearchStrategy[UnitMapping | Group]) -> st.SearchStrategy[Group]:
    return st.builds(
        Group,
        st.lists(NAMES, max_size=4).map(tuple),
        st.dictionaries(NAMES, LOOPS, max_size=4),
        st.lists(BUFFERS, max_size=6).map(tuple),
        st.dictionaries(NAMES, inner, max_size=4),
        st.dictionaries(NAMES, FACTORS, max_size=2),
    )


ANY_GROUP = groups(st.one_of(UNITS, groups(UNITS)))
MUTATED = st.builds(
    lambda base, part, other: mapping(replace(base, **{part: getattr(other, part)})),
    st.sampled_from([BASE, *ALONE.values()]),
    st.sampled_from(["order", "nests", "buffers", "inner", "spatial"]),
    ANY_GROUP,
)
DEEP: Hardware = machine(64, between=(Level("L1", 100, spatial=(SpatialDim("cores", 2),)),))


@settings(max_examples=120, deadline=None)
@given(
    st.one_of(MUTATED, st.builds(Mapping, st.lists(ANY_GROUP, max_size=3).map(tuple), st.tuples(NAMES))),
    st.sampled_from([ROOM, DEEP]),
    st.sampled_from([None, Mapspace(), Mapspace(tiles={"m": 2, "z": 0}, residency={"K": frozenset("mz")})]),
    st.sampled_from([ATTENTION, IN_PLACE]),
)
def test_nonsense_is_told_and_never_raises(
    chosen: Mapping, hardware: Hardware, mapspace: Mapspace | None, cascade: Cascade
) -> None:
    found = violations(cascade, hardware, chosen, mapspace)
    assert all(isinstance(text, str) and text for text in found)
    if not found:
        evaluate(cascade, hardware, chosen)
