"""What AccelForge 1.0.467 found and counted, recorded, against our core and our search."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from proved import proved

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.load import load_hardware, load_problem

PEERS = Path(__file__).parent.parent / "bench" / "peers"
RECORDED = json.loads((Path(__file__).parent / "golden" / "accelforge.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PEERS))
    sys.modules.pop("accelforge", None)


def problem_of(entry: dict[str, Any]) -> Problem:
    """The recorded problem on the machine of the cross-checks, with its buffer and its array."""
    machine = load_hardware("unit-energy-32x32")
    dram, buffer = machine.levels
    spatial = tuple(replace(dim, size=entry["fanout"]) for dim in buffer.spatial)
    levels = (dram, replace(buffer, capacity=8 * entry["capacity"], spatial=spatial))
    space = Mapspace(recomputation=False, fusion=entry["fusion"])
    cascade = Cascade(entry["ranks"], entry["einsums"], name=entry["name"])
    return Problem(cascade, replace(machine, levels=levels), Objective(entry["minimize"], ()), space)


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: f"{entry['name']}, {entry['minimize']}")
def test_accelforge_counts_its_mapping_as_we_do(entry: dict[str, Any]) -> None:
    """Reads and writes of every tensor at every level, and the value of the objective."""
    from accelforge_mapping import dataflow

    problem = problem_of(entry)
    cost = evaluate(problem.cascade, problem.hardware, dataflow(entry["mapping"], problem))
    counts: Counter[str] = Counter()
    for group in cost.groups:
        for (level, _, tensor), traffic in group.traffic.items():
            counts[f"{level} {tensor} read"] += traffic.reads
            counts[f"{level} {tensor} write"] += traffic.writes
    assert +counts == entry["counts"]
    assert cost.quantity(entry["minimize"]) == Fraction(entry["least"])


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: f"{entry['name']}, {entry['minimize']}")
def test_our_optimum_is_not_above_what_we_can_express(entry: dict[str, Any]) -> None:
    """Except where AccelForge's mapping fits only with a second loop over a rank, which we do not search."""
    from accelforge_mapping import dataflow

    problem = problem_of(entry)
    mapping = dataflow(entry["mapping"], problem)
    broken = violations(problem.cascade, problem.hardware, mapping, problem.mapspace)
    assert all(sentence.startswith("GLB: ") for sentence in broken), broken
    if not broken:
        assert proved(problem).quantity(entry["minimize"]) <= Fraction(entry["least"])


def test_a_problem_is_handed_over_as_it_is() -> None:
    from accelforge_spec import task

    found = task(load_problem("crosscheck-h12-512"), 1)
    dram, buffer, array = found["nodes"]
    assert (dram["size"], dram["tensors"]["keep"]) == ("inf", "~Intermediates")
    assert (buffer["size"], buffer["tensors"]["keep"]) == (8 * 2**20, "All")
    assert {action["energy"] for action in dram["actions"]} == {200.0}
    assert {action["energy"] for action in buffer["actions"]} == {6.0}
    assert array["actions"][0]["energy"] == 1.0
    assert array["spatial"] == [{"name": "rows", "fanout": 32}, {"name": "cols", "fanout": 32}]
    assert found["workload"]["rank_sizes"] == {"H": 12, "M": 512, "N": 512, "E": 64, "F": 64}
    scores = found["workload"]["einsums"][0]["tensor_accesses"][-1]
    assert scores == {"name": "S", "projection": ["h", "m", "n"], "output": True}


def test_traffic_is_the_energy_of_a_machine_where_only_dram_costs() -> None:
    from accelforge_spec import task

    problem = replace(load_problem("crosscheck-h12-512"), objective=Objective("dram_traffic"))
    costs = [{action["energy"] for action in node["actions"]} for node in task(problem, 1)["nodes"]]
    assert costs == [{1.0}, {0.0}, {0.0}]


@pytest.mark.parametrize(
    ("name", "changes", "word"),
    [
        ("bert-base-attention", {}, "recompute"),
        ("bert-base-attention", {"mapspace": Mapspace(recomputation=False)}, "softmax"),
        ("crosscheck-h12-512", {"objective": Objective("latency")}, "latency"),
        ("crosscheck-h12-512", {"mapspace": Mapspace("all", recomputation=False)}, "ragged"),
        ("crosscheck-h12-512", {"hardware": load_hardware("edge-npu")}, "several compute units"),
    ],
)
def test_what_would_not_be_the_same_is_refused(name: str, changes: dict[str, Any], word: str) -> None:
    from accelforge_spec import NotComparable, task

    with pytest.raises(NotComparable, match=word):
        task(replace(load_problem(name), **changes), 1)


def test_a_report_is_written_between_the_marks(tmp_path: Path) -> None:
    from accelforge import MARKS, write

    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}old\n{MARKS[1]}after\n", encoding="utf-8")
    write("new\n", page)
    write("newer\n", page)
    assert page.read_text(encoding="utf-8") == f"before\n{MARKS[0]}\nnewer\n\n{MARKS[1]}after\n"
