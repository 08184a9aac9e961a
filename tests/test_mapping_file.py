"""Mapping files: dump then load is identity, a person can read them, and slips are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import exactile as ex
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping

PROBLEM = ex.load_problem("bert-base-attention")
THREE_LEVELS = ex.load_problem(
    "bert-base-attention",
    [
        "hardware.levels=[{name: DRAM, spatial: {cores: 2}}, {name: L1, spatial: {rows: 4}}, "
        "{name: L0, spatial: {cols: 4}}]"
    ],
)
RANKS = list(PROBLEM.cascade.ranks)
FLOWS = ["weight_stationary", "output_stationary", "input_stationary", None]

EXAMPLE = """\
problem: {name: bert-base-attention, hash: HASH}
groups:
- order: [S, P, O]
  nests:
    S: [{rank: h, tile: 1}, {rank: m, tile: 64}, {rank: n, tile: 128}]
    P: [{rank: h, tile: 1}, {rank: m, tile: 64}, {rank: n, tile: 128}]
    O: [{rank: h, tile: 1}, {rank: m, tile: 64}, {rank: n, tile: 128}, {rank: f, tile: 32}]
  buffers:
  - {tensor: S, users: [S, P, O], outside: [h, m, n]}
  - {tensor: Q, users: [S], outside: [h, m]}
  - {tensor: O, users: [O], outside: []}
  inner:
    S: {unit: array, dataflow: weight_stationary, transposed: true, spatial: {h: {instances: 4}}}
    P: {unit: vector}
    O: {unit: array, dataflow: output_stationary}
kept_between_groups: []
""".replace("HASH", ex.problem_hash(PROBLEM))


def loops(*pairs: tuple[str, int]) -> tuple[Loop, ...]:
    return tuple(Loop(rank, tile) for rank, tile in pairs)


def read(tmp_path: Path, text: str, problem: ex.Problem = PROBLEM) -> Mapping:
    path = tmp_path / "mapping.yaml"
    path.write_text(text)
    return ex.load_mapping(path, problem)


def test_the_example_reads_and_writes_as_it_stands(tmp_path: Path) -> None:
    mapping = read(tmp_path, EXAMPLE)
    (group,) = mapping.groups
    shared = (("h", 1), ("m", 64), ("n", 128))
    assert group.nests == {"S": loops(*shared), "P": loops(*shared), "O": loops(*shared, ("f", 32))}
    assert group.buffers[0] == Buffer("S", ("S", "P", "O"), frozenset("hmn"))
    assert group.inner["S"] == UnitMapping("array", "weight_stationary", True, {"h": {"instances": 4}})
    assert ex.dump_mapping(PROBLEM, mapping) == EXAMPLE


names = st.sampled_from(RANKS)
by_dim = st.dictionaries(st.sampled_from(["instances", "rows", "cols"]), st.integers(1, 9), min_size=1)
factors = st.dictionaries(names, by_dim, max_size=2)
units = st.one_of(
    st.builds(
        UnitMapping, st.just("vector"), spatial=st.just({}), order=st.lists(names, unique=True).map(tuple)
    ),
    st.builds(
        UnitMapping,
        st.just("array"),
        st.sampled_from(FLOWS),
        st.booleans(),
        factors,
        st.lists(names, unique=True).map(tuple),
    ),
)
nests = st.lists(st.builds(Loop, names, st.integers(1, 512)), max_size=5).map(tuple)


@st.composite
def groups(
    draw: st.DrawFn, members: tuple[str, ...], spatial: str | None, inner: st.SearchStrategy[object]
) -> Group:
    tensors = st.sampled_from(sorted(PROBLEM.cascade.tensors))
    users = st.lists(st.sampled_from(members), min_size=1, unique=True).map(tuple)
    split = {name: {"m": {spatial: 2}} for name in members if spatial and draw(st.booleans())}
    return Group(
        members,
        {name: draw(nests) for name in members},
        tuple(draw(st.lists(st.builds(Buffer, tensors, users, st.frozensets(names)), max_size=4))),
        {name: draw(inner) for name in members},  # type: ignore[misc]
        split,
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_dump_then_load_is_identity(data: st.DataObject, tmp_path: Path) -> None:
    parts = data.draw(st.sampled_from([(("S", "P", "O"),), (("S",), ("P", "O")), (("S",), ("P",), ("O",))]))
    kept = data.draw(st.sampled_from([(), ("S",), ("K", "S")]))
    mapping = Mapping(tuple(data.draw(groups(part, None, units)) for part in parts), kept)
    assert read(tmp_path, ex.dump_mapping(PROBLEM, mapping)) == mapping


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_dump_then_load_is_identity_with_three_levels(data: st.DataObject, tmp_path: Path) -> None:
    plain = st.just(UnitMapping("array", "weight_stationary"))
    outer = Group(
        ("S", "P", "O"),
        {name: data.draw(nests) for name in ("S", "P", "O")},
        (),
        {name: data.draw(groups((name,), "rows", plain)) for name in ("S", "P", "O")},
        {"S": {"m": {"cores": 2}}},
    )
    mapping = Mapping((outer,))
    assert read(tmp_path, ex.dump_mapping(THREE_LEVELS, mapping), THREE_LEVELS) == mapping


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("rank: f,", "rank: q,", ["7: groups.0.nests.O: unknown rank 'q'; there are h, m, n, e, f"]),
        (
            "unit: vector",
            "unit: vectr",
            ["14: groups.0.inner.P.unit: unknown unit 'vectr'; did you mean 'vector'?"],
        ),
        (
            "tensor: Q",
            "tensor: Qu",
            ["10: groups.0.buffers.1.tensor: unknown tensor 'Qu'; did you mean 'Q'?"],
        ),
        ("users: [S]", "users: [T]", ["10: groups.0.buffers.1.users: unknown user 'T'; there are S, P, O"]),
        ("outside: [h, m]", "outside: [h, z]", ["10: groups.0.buffers.1.outside: unknown rank 'z'"]),
        ("tile: 32", "tile: 0", ["7: groups.0.nests.O.3.tile: expected a positive integer, got 0"]),
        (
            "tile: 32",
            "til: 32",
            [
                "7: groups.0.nests.O.3: missing key 'tile'",
                "7: groups.0.nests.O.3.til: unknown key; did you mean 'tile'?",
            ],
        ),
        ("    P: {unit: vector}\n", "", ["12: groups.0.inner: missing key 'P', an Einsum of the group"]),
        ("{unit: vector}", "{dataflow: weight_stationary}", ["14: groups.0.inner.P: missing key 'unit'"]),
        (
            "{unit: vector}",
            "{unit: vector, dataflow: weight_stationary}",
            ["14: groups.0.inner.P.dataflow: unknown dataflow of vector"],
        ),
        (
            "{instances: 4}",
            "{instanses: 4}",
            ["13: groups.0.inner.S.spatial.h: unknown spatial dimension 'instanses'"],
        ),
        (
            "order: [S, P, O]",
            "order: [S, P, X]",
            ["3: groups.0.order: unknown Einsum 'X'; there are S, P, O"],
        ),
        ("between_groups: []", "between_groups: [SS]", ["16: kept_between_groups: unknown tensor 'SS'"]),
        ("groups:", "grups:", ["1: missing key 'groups'", "2: grups: unknown key; did you mean 'groups'?"]),
        ("kept_between_groups: []", "kept_between_groups: [", ["17: not valid YAML"]),
        (
            "hash: " + ex.problem_hash(PROBLEM),
            "hash: 0123456789abcdef",
            ["1: problem.hash: this mapping is for another problem, 'bert-base-attention'"],
        ),
    ],
)
def test_slips_are_told_with_their_line(old: str, new: str, expected: list[str], tmp_path: Path) -> None:
    assert old in EXAMPLE
    with pytest.raises(ex.LoadError) as caught:
        read(tmp_path, EXAMPLE.replace(old, new, 1))
    lines = str(caught.value).splitlines()
    for words in expected:
        assert any(line.startswith(f"{tmp_path}/mapping.yaml:{words}") for line in lines), (words, lines)
    assert len(lines) == len(expected), lines


def test_a_mapping_of_another_problem_and_without_a_mark(tmp_path: Path) -> None:
    other = ex.load_problem("bert-base-attention", ["workload.ranks.m=256"])
    with pytest.raises(ex.InputError, match="this mapping is for another problem"):
        read(tmp_path, EXAMPLE, other)
    unmarked = EXAMPLE.split("\n", 1)[1]
    assert read(tmp_path, unmarked, other) == read(tmp_path, EXAMPLE)


def test_levels_and_boundaries_must_agree(tmp_path: Path) -> None:
    unmarked = EXAMPLE.split("\n", 1)[1]
    with pytest.raises(ex.InputError) as caught:
        read(tmp_path, unmarked, THREE_LEVELS)
    assert (
        str(caught.value).count(
            "expected order, nests, buffers and inner for the level L0, got a compute unit"
        )
        == 3
    )
