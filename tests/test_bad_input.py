"""Broken files: every fault is told at once, in the user's words, with file and line; never a traceback.

Each case changes a sound file and lists all faults that must be reported, no more and no fewer.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import exactile as ex

_DATA = yaml.safe_load((Path(__file__).parent / "broken_problems.yaml").read_text(encoding="utf-8"))
SOUND: str = _DATA["sound"]
CASES: dict[str, dict[str, list[Any]]] = {
    **_DATA["cases"],
    "huge extent": {
        "change": [["m: 8", "m: 1" + "0" * 150]],
        "faults": ["4: workload.ranks.m: expected an extent up to 2^40, got 100000000000… (151 digits)"],
    },
    "equation too long": {
        "change": [["P[h,m,n] * V", "-" * 600 + "P[h,m,n] * V"]],
        "faults": ["8: workload.einsums.2: expected one equation"],
    },
    "equation too deep": {
        "change": [["P[h,m,n] * V", "(" * 220 + "P[h,m,n] * V" + ")" * 220]],
        "faults": ["8: workload.einsums.2: expected one equation"],
    },
}


def faults_of(path: Path) -> list[str]:
    with pytest.raises(ex.InputError) as caught:
        ex.load_problem(path)
    return str(caught.value).splitlines()


def test_the_sound_file_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(SOUND)
    assert ex.load_problem(path).name == "small"


@pytest.mark.parametrize("case", CASES)
def test_every_fault_is_told(case: str, tmp_path: Path) -> None:
    changes, expected = CASES[case]["change"], CASES[case]["faults"]
    text = SOUND
    for old, new in changes:
        assert old in text, f"the case is stale: {old!r}"
        text = text.replace(old, new, 1)
    path = tmp_path / "problem.yaml"
    path.write_text(text)
    lines = faults_of(path)
    for words in expected:
        assert any(line.startswith(f"{path}:{words}") for line in lines), (words, lines)
    assert len(lines) == len(expected), lines


# eight anchors, each ten times the one before
BOMB = b"a: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + b"".join(
    b"b%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 9)
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"# only a comment\n", "is empty"),
        (b"\x7fELF\x00\x01", "is not text"),
        (b"\xff\xfe\x00", "is not text"),
        (b"- a\n- b\n", "expected a mapping (keys and values), got a list"),
        (b"just words", "expected a mapping (keys and values), got 'just words'"),
        (b"a: " + b"[" * 5000, "not valid YAML"),
        (b"a: " + b"[" * 60 + b"]" * 60, "nested more than"),
        (b"{" * 60 + b"}" * 60, "expected a name before ':'"),
        (b"x: y\n" * 300_000, "is larger than"),
        (BOMB, "more than"),
        (b"a: &a {b: *a}", "unknown anchor"),
        (b"? [a, b]\n: c", "expected a name before ':'"),
        (b"name: \x1b[31m", "not valid YAML"),
    ],
)
def test_what_is_no_problem_file_at_all(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "problem.yaml"
    path.write_bytes(content)
    (line,) = faults_of(path)
    assert line.startswith(str(path))
    assert words in line


def test_a_directory_and_a_missing_file(tmp_path: Path) -> None:
    assert faults_of(tmp_path) == [f"{tmp_path}: is a directory, expected a YAML file"]
    missing = tmp_path / "none.yaml"
    assert faults_of(missing) == [f"{missing}: no such file"]


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ex.InputError, match="did you mean 'bert-base-attention'"):
        ex.load_problem("bert-base-atention")
    with pytest.raises(ex.InputError, match="no built-in workload"):
        ex.workload("zzz")
    with pytest.raises(ex.InputError, match="did you mean 'tpu-like'"):
        ex.hardware("tpu-lik")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("levels: []\ncompute: []\n")
    path = tmp_path / "problem.yaml"
    path.write_text("workload: machine.yaml\nhardware: edge-npu\n")
    expected = "expected a workload file, this is a hardware file"
    assert faults_of(path) == [f"{path}:1: workload: {tmp_path}/machine.yaml: {expected}"]
    expected = "expected a problem file, this is a hardware file; name it in a problem file"
    assert faults_of(tmp_path / "machine.yaml") == [f"{tmp_path}/machine.yaml:1: {expected}"]
    with pytest.raises(ex.InputError, match="expected a mapping file, this is a problem file"):
        ex.load_mapping(path, ex.load_problem("bert-base-attention"))


def test_faults_in_a_workload_file_name_that_file(tmp_path: Path) -> None:
    (tmp_path / "work.yaml").write_text("ranks: {m: 4, k: 4}\neinsums:\n  - Y[m] = X[m,kk]\n")
    (tmp_path / "p.yaml").write_text("workload: work.yaml\nhardware: nvdla-like\nobjective: speed\n")
    lines = faults_of(tmp_path / "p.yaml")
    assert [line.split(": ")[0] for line in lines] == [f"{tmp_path}/p.yaml:3", f"{tmp_path}/work.yaml:3"]
    assert "unknown rank 'kk' in X[m,kk]; did you mean 'k'?" in lines[1]


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("{builder: atention, heads: 2}", ["workload.builder: unknown builder 'atention'"]),
        (
            "{builder: attention, heads: -2, head_dim: 4, token: 8}",
            [
                "workload.token: unknown argument of builder attention; did you mean 'tokens'?",
                "workload: missing key 'tokens' of builder attention",
                "workload.heads: expected a positive integer, got -2",
            ],
        ),
        (
            "{builder: attention, heads: 4, kv_heads: 3, head_dim: 4, tokens: 8}",
            ["workload.kv_heads: expected a divisor of heads (4), got 3"],
        ),
        (
            "{builder: attention, heads: 4, head_dim: 4, tokens: 8, softmax: soft}",
            ["workload.softmax: expected online or row or none or 3-pass or 2-pass or 1-pass, got 'soft'"],
        ),
        (
            "{builder: ffn, tokens: 4, d_model: 8, d_ff: 16, activation: 3, gated: maybe}",
            ["workload.activation: expected the name of an op", "workload.gated: expected true or false"],
        ),
        (
            "{builder: attention, heads: 4, head_dim: 4, tokens: 8, ranks: {k: 5}}",
            ["workload.ranks.k: builder attention makes no rank of this name; there are h, m, n, e, f"],
        ),
        (
            "{builder: attention, heads: 4, head_dim: 4, tokens: 8, ranks: {m: no}, tensors: {Z: {bits: 4}}}",
            ["workload.ranks.m: expected a positive integer", "workload.tensors.Z: no Einsum uses a tensor"],
        ),
    ],
)
def test_builder_arguments(workload: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"hardware: nvdla-like\nworkload: {workload}\n")
    lines = faults_of(path)
    for words in expected:
        assert any(line.startswith(f"{path}:2: {words}") for line in lines), (words, lines)
    assert len(lines) == len(expected), lines


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("workload.ranks.m", "expected KEY=VALUE"),
        ("=3", "expected KEY=VALUE"),
        ("workload.ranks.m=-3", "workload.ranks.m: expected a positive integer, got -3"),
        ("hardware.levels.GLBB.capacity=1 MiB", "hardware.levels has no 'GLBB'; did you mean 'GLB'?"),
        ("hardware.levels.GLB.capacity=[", "not valid YAML"),
        ("hardware.levels.GLB.capacity=5", "expected an amount of data"),
        ("hardware.clock.rate=5", "hardware.clock is '1 GHz', it has no parts to set"),
        ("mapspace.tile_size=all", "unknown key; did you mean 'tile_sizes'?"),
        ("workload=bert", "no built-in workload"),
    ],
)
def test_overrides_are_named_in_faults(override: str, words: str) -> None:
    with pytest.raises(ex.LoadError) as caught:
        ex.load_problem("crosscheck-h32-2048-16k", [override, "objective=joy"])
    lines = str(caught.value).splitlines()
    assert any(line.startswith("--set ") and words in line for line in lines), lines
    assert any(line.startswith("--set objective=joy: objective: expected dram_traffic") for line in lines), (
        lines
    )


MUTATIONS = [
    "",
    "~",
    "no",
    "[]",
    "{}",
    "-1",
    "1e999",
    "!!int 3",
    "*a",
    "'",
    "[[",
    "a: b",
    "9" * 60,
    "\x00",
    "é",
    "[h, [m]]",
]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_to_a_file_makes_a_traceback(data: st.DataObject, tmp_path: Path) -> None:
    """Pieces of the sound file are replaced at random: it loads, or it is an `InputError`."""
    text = SOUND
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        end = start + data.draw(st.integers(0, 12))
        text = (
            text[:start] + data.draw(st.one_of(st.sampled_from(MUTATIONS), st.text(max_size=3))) + text[end:]
        )
    path = tmp_path / "problem.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        ex.load_problem(path)
    except ex.InputError as error:
        assert error.faults
        assert all(str(fault).isprintable() for fault in error.faults)


VALUES = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        3,
        10**50,
        2.5,
        "",
        "no",
        "x y",
        "9 pJ",
        "1e9999",
        [],
        ["h"],
        [["S"], 3],
        {},
        {"h": [1]},
        [{}],
    ]
)


def paths(tree: Any) -> list[tuple[Any, ...]]:
    """The path of every value below `tree`."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path for key, value in items for path in [(key,), *((key, *below) for below in paths(value))]]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_wrong_value_makes_a_traceback(data: st.DataObject, tmp_path: Path) -> None:
    """Values anywhere in the file are replaced by values of other types."""
    tree = yaml.safe_load(SOUND.replace("  tile_sizes: divisors", PINS))
    for _ in range(data.draw(st.integers(1, 3))):
        *above, key = data.draw(st.sampled_from(paths(tree)))
        place = tree
        for step in above:
            place = place[step]
        place[key] = copy.deepcopy(data.draw(VALUES))
    path = tmp_path / "problem.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    try:
        ex.problem_hash(ex.load_problem(path))
    except ex.InputError as error:
        assert error.faults


PINS = """\
  fusion: [[S, P], [O]]
  orders: {S: [h, m, n, e]}
  residency: {Q: [h, m]}
  tiles: {m: 4}
  order: given
"""
