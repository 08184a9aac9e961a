"""The ladder of problems covers what it promises, and runs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from exactile import Problem
from exactile.formulation.consistency import problem_faults
from exactile.solver.mmee.size import space_size

BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture(scope="module")
def rungs() -> list[Problem]:
    spec = importlib.util.spec_from_file_location("rungs", BENCH / "rungs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[Problem] = module.ladder()
    return found


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "ladder.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_every_rung_is_a_sound_problem_with_a_name_of_its_own(rungs: list[Problem]) -> None:
    assert len({rung.name for rung in rungs}) == len(rungs) >= 40
    assert [problem_faults(rung) for rung in rungs] == [[]] * len(rungs)


def test_the_ladder_covers_what_it_promises(rungs: list[Problem]) -> None:
    assert {rung.objective.minimize for rung in rungs} == {"dram_traffic", "energy", "latency", "edp"}
    assert {rung.mapspace.tile_sizes for rung in rungs} == {"divisors", "all"}
    ranks = {sum(extent > 1 for extent in rung.cascade.ranks.values()) for rung in rungs}
    assert ranks == {2, 3, 4, 5, 6}
    tokens = {rung.cascade.ranks.get("m") for rung in rungs}
    assert {128, 512, 2048, 8192, 131072} <= tokens
    assert {len(rung.cascade.einsums) for rung in rungs} == {1, 2, 3, 4}


def test_fifteen_single_heads_are_small_enough_for_every_engine(rungs: list[Problem]) -> None:
    heads = [
        rung
        for rung in rungs
        if rung.name.startswith("head-") and rung.mapspace.tile_sizes == "divisors"
        if rung.objective.minimize in ("dram_traffic", "energy")
    ]
    assert len(heads) >= 15
    assert max(space_size(head).pairs for head in heads) <= 10**7


def test_one_rung_runs_and_is_written(tmp_path: Path) -> None:
    report, data = tmp_path / "ladder.md", tmp_path / "ladder.json"
    files = ("--report", str(report), "--json", str(data))
    done = run("--only", "head-512x64-traffic-divisors-16k", "--engines", "mmee", *files)
    assert done.returncode == 0, done.stderr
    assert "head-512x64-traffic-divisors-16k: mmee: optimal in" in done.stderr
    (answer,) = json.loads(data.read_text(encoding="utf-8"))["results"]
    assert answer["status"] == "optimal"
    row = next(line for line in report.read_text(encoding="utf-8").splitlines() if "| mmee |" in line)
    assert row in done.stdout.splitlines()


def test_an_engine_can_be_spared() -> None:
    done = run("--only", "gpt3-ffn-one-token*", "--engines", "mmee", "--max-pairs", "mmee=1e3")
    assert done.returncode == 0 and "not asked: more than 1 000 pairs" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "nothing"), "no problem matches 'nothing'"),
        (("--engines", "mme", "--only", "one-token"), "did you mean 'mmee'"),
        (("--report", "x.txt"), "expected a file that ends in .md or .html"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
