"""Problems, workloads and machines from files and from Python: the same thing either way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import exactile as ex
from exactile import catalogue
from exactile.formulation.consistency import problem_faults
from exactile.formulation.hardware import OpCost, Rate, SpatialDim

ROOT = Path(__file__).parent.parent

ATTENTION = """\
name: bert-base-attention
ranks: {h: 12, m: 512, n: 512, e: 64, f: 64}
einsums:
  - S[h,m,n] = Q[h,m,e] * K[h,n,e]
  - {einsum: "P[h,m,n] = softmax(S[h,m,n])", over: n, mode: online, in_place: true,
     cost: {max: 1, sub: 1, exp: 1, add: 1}}
  - O[h,m,f] = P[h,m,n] * V[h,n,f]
"""


@pytest.mark.parametrize("entry", catalogue.entries("problem"), ids=lambda entry: entry.name)
def test_every_built_in_problem_loads(entry: catalogue.Entry) -> None:
    problem = ex.load_problem(entry.name)
    assert problem.name == entry.name
    assert ex.problem_hash(problem) == ex.problem_hash(ex.load_problem(entry.path))
    assert len(entry.description) > 20


@pytest.mark.parametrize("entry", catalogue.entries("hardware"), ids=lambda entry: entry.name)
def test_every_built_in_machine_loads_and_says_where_its_numbers_are_from(entry: catalogue.Entry) -> None:
    machine = ex.hardware(entry.name)
    assert machine.name == entry.name
    assert machine.sources
    assert entry.description


def test_the_machines_ask_for() -> None:
    names = {entry.name for entry in catalogue.entries("hardware")}
    assert {"nvdla-like", "tpu-like", "flat-edge", "flat-cloud", "edge-npu", "unit-energy-32x32"} <= names


def test_reported_machines() -> None:
    for name, mebibytes, gigabytes in (("nvdla-like", 1, 60), ("tpu-like", 4, 128)):
        machine = ex.hardware(name)
        dram, glb = machine.levels
        assert machine.clock == 10**9
        assert glb.capacity == mebibytes * 2**23
        assert dram.read_bandwidth == Rate(Fraction(gigabytes * 8))
        assert machine.unit("array").instances.size == 4
        assert machine.unit("array").kind == "systolic"
        assert machine.unit("vector").kind == "vector"
        assert {"max", "sub", "exp", "add", "div", "mul", "ew"} <= set(machine.unit("vector").ops)


def test_the_cross_check_machine() -> None:
    machine = ex.hardware("unit-energy-32x32")
    dram, glb = machine.levels
    assert machine.energy_unit == "1"
    assert dram.read_energy == dram.write_energy == Rate(Fraction(200), "value")
    assert dram.read_bandwidth == Rate(Fraction(64), "value")
    assert dram.shared_port
    assert glb.read_energy == glb.write_energy == Rate(Fraction(6), "value")
    assert glb.read_bandwidth is glb.write_bandwidth is None
    assert glb.capacity == 2**23
    assert glb.spatial == (SpatialDim("rows", 32), SpatialDim("cols", 32))
    (array,) = machine.compute
    assert (array.kind, array.registers, array.ops) == ("free", (), {"mac": OpCost(Fraction(1))})


def test_file_and_python_agree(tmp_path: Path) -> None:
    (tmp_path / "attention.yaml").write_text(ATTENTION)
    (tmp_path / "problem.yaml").write_text(
        "workload: attention.yaml\nhardware: nvdla-like\nobjective: latency\n"
    )
    (tmp_path / "inline.yaml").write_text(
        "hardware: nvdla-like\nworkload:\n" + "".join(f"  {line}\n" for line in ATTENTION.splitlines())
    )
    cascade = ex.Cascade(
        {"h": 12, "m": 512, "n": 512, "e": 64, "f": 64},
        [
            "S[h,m,n] = Q[h,m,e] * K[h,n,e]",
            {
                "einsum": "P[h,m,n] = softmax(S[h,m,n])",
                "over": "n",
                "mode": "online",
                "in_place": True,
                "cost": {"max": 1, "sub": 1, "exp": 1, "add": 1},
            },
            "O[h,m,f] = P[h,m,n] * V[h,n,f]",
        ],
    )
    problems = [
        ex.load_problem(tmp_path / "problem.yaml"),
        ex.load_problem(str(tmp_path / "inline.yaml")),
        ex.load_problem("bert-base-attention"),
        ex.Problem(cascade, ex.hardware("nvdla-like"), objective="energy"),
        ex.Problem(ex.attention(12, 64, 512), ex.hardware("nvdla_like")),
    ]
    assert len({ex.problem_hash(problem) for problem in problems}) == 1
    assert problems[0].objective == ex.Objective("latency")
    assert problems[3].objective == ex.Objective("energy")


def test_the_hash_tells_problems_apart_and_nothing_else() -> None:
    base = ex.problem_hash(ex.load_problem("bert-base-attention"))
    for change in (
        "workload.ranks.m=256",
        "hardware.levels.GLB.capacity=2 MiB",
        "mapspace.tile_sizes=all",
        "workload.tensors.S.bits=16",
        "hardware.compute.array.instances=2",
    ):
        assert ex.problem_hash(ex.load_problem("bert-base-attention", [change])) != base, change
    for change in (
        "name=other",
        "hardware.name=other",
        "workload.name=other",
        "objective=edp",
        "hardware.sources.x=y",
    ):
        assert ex.problem_hash(ex.load_problem("bert-base-attention", [change])) == base, change


def test_the_hash_is_the_same_in_every_process() -> None:
    code = "import exactile as ex; print(ex.problem_hash(ex.load_problem('palm-62b-attention')))"
    found = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        found.add(
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout
        )
    assert found == {ex.problem_hash(ex.load_problem("palm-62b-attention")) + "\n"}


def test_overrides_reach_everything() -> None:
    problem = ex.load_problem(
        "bert-base-attention",
        [
            "workload.ranks.m=1024",
            "workload.heads=16",
            'hardware.levels.GLB.capacity="2 MiB"',
            "hardware.levels.0.bandwidth=120 GB/s",
            "hardware.compute.vector.lanes=64",
            "objective.then=[latency]",
            "objective.subject_to.energy=5 mJ",
            "mapspace.tile_sizes=all",
            "mapspace.tiles={m: 64}",
            "name=mine",
        ],
    )
    assert problem.name == "mine"
    assert problem.cascade.ranks == {"h": 16, "m": 1024, "n": 512, "e": 64, "f": 64}
    assert problem.hardware.levels[1].capacity == 2**24
    assert problem.hardware.levels[0].read_bandwidth == Rate(Fraction(960))
    assert problem.hardware.unit("vector").lanes == 64
    assert problem.objective == ex.Objective("energy", ("latency",), {"energy": Fraction(5 * 10**9)})
    assert problem.mapspace == ex.Mapspace(tile_sizes="all", tiles={"m": 64})


def test_an_override_may_exchange_a_part_and_change_it_in_any_order() -> None:
    changes = ["workload.tokens=64", "workload=gpt3-6.7b-ffn", "hardware=edge-npu", "hardware.clock=1 GHz"]
    problem = ex.load_problem("bert-base-attention", changes)
    assert problem.cascade.ranks == {"m": 64, "k": 4096, "l": 16384, "j": 4096}
    assert problem.hardware.name == "edge-npu"
    assert problem.hardware.levels[0].read_bandwidth == Rate(Fraction(64))


def test_an_override_reaches_into_an_equation(tmp_path: Path) -> None:
    (tmp_path / "attention.yaml").write_text(ATTENTION)
    (tmp_path / "p.yaml").write_text("workload: attention.yaml\nhardware: nvdla-like\n")
    changes = [
        "workload.einsums.P.mode=row",
        "workload.einsums.S.unit=vector",
        "hardware.compute.vector.ops.mac=1 pJ",
    ]
    cascade = ex.load_problem(tmp_path / "p.yaml", changes).cascade
    assert cascade.by_name["P"].mode == "row"
    assert cascade.by_name["S"].unit == "vector"


MACHINE = """\
name: everything
clock: 2 GHz
overlap: none
launch: 1 us
common: &sram {energy: 0.1 pJ/bit}
levels:
  - {name: DRAM, energy: 8 pJ/bit, bandwidth: 16 GB/s, spatial: {cores: {size: 2, multicast: false}}}
  - {<<: *sram, name: L1, capacity: 64 KiB, holds: [weight, S], double_buffer: on,
     bandwidth: {read: 64 B/cycle, write: 4 value/cycle}}
  - {<<: *sram, name: L0, capacity: 1 KiB, bandwidth: 8 B/cycle,
     spatial: {rows: 4, cols: {size: 4, reduce: false}}}
compute:
  - {name: array, instances: {size: 2, reduce: false}, ops: {mac: 0.05 pJ},
     dataflows: [free], registers: [output]}
  - {name: vector, lanes: 4, ops: {ew: {energy: 1 pJ, cycles: 3}}}
"""


def test_everything_a_machine_can_say(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(MACHINE.replace("common: &sram", "sources: &sram"))
    machine = ex.hardware(path)
    dram, outer, inner = machine.levels
    assert (machine.overlap, machine.launch, machine.energy_unit) == ("none", 2000, "pJ")
    assert dram.spatial == (SpatialDim("cores", 2, multicast=False),)
    assert dram.holds is None
    assert outer.holds == {"weight", "S"}
    assert outer.double_buffer
    assert (outer.shared_port, inner.shared_port) == (False, True)
    assert (outer.read_bandwidth, outer.write_bandwidth) == (Rate(Fraction(512)), Rate(Fraction(4), "value"))
    assert outer.read_energy == inner.write_energy == Rate(Fraction(1, 10))
    assert inner.spatial == (SpatialDim("rows", 4), SpatialDim("cols", 4, reduce=False))
    array, vector = machine.compute
    assert (array.kind, array.registers, array.dataflows) == ("free", ("output",), ())
    assert array.instances == SpatialDim("instances", 2, reduce=False)
    assert array.ops == {"mac": OpCost(Fraction(1, 20))}
    assert vector.ops == {"ew": OpCost(Fraction(1), Fraction(3))}


def test_paths_are_relative_to_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "study" / "machines"
    folder.mkdir(parents=True)
    (folder / "m.yaml").write_text(catalogue.find("hardware", "edge-npu").path.read_text())  # type: ignore[union-attr]
    (tmp_path / "study" / "p.yaml").write_text("workload: vit-b16-attention\nhardware: machines/m.yaml\n")
    monkeypatch.chdir(tmp_path)
    assert ex.load_problem("study/p.yaml").hardware.name == "edge-npu"


def test_names_do_not_mind_capitals_dashes_and_dots() -> None:
    assert ex.workload("GPT3_6.7B-attention").name == "gpt3-6.7b-attention"
    assert ex.load_problem("bert_base_attention").name == "bert-base-attention"


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, exactile;"
        "heavy = {'pint', 'pydantic', 'ortools', 'pulp', 'typer', 'rich', 'networkx', 'numpy'};"
        "print(sorted(heavy & set(sys.modules))); exactile.Cascade; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


def test_every_public_name_is_there() -> None:
    assert set(ex.__all__) <= set(dir(ex))
    for name in (
        "Cascade",
        "Problem",
        "Objective",
        "Mapspace",
        "Hardware",
        "Mapping",
        "InputError",
        "load_problem",
    ):
        assert getattr(ex, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'solve'"):
        _ = ex.solve


def test_problems_built_in_python_are_judged_alike() -> None:
    problem = ex.Problem(
        ex.attention(2, 4, 8, softmax="row"),
        ex.hardware("unit-energy-32x32"),
        objective=ex.Objective("enrgy", then=("time",)),
        mapspace=ex.Mapspace(tile_sizes="primes", tiles={"z": 3}),  # type: ignore[arg-type]
    )
    assert [str(fault) for fault in problem_faults(problem)] == [
        "objective.minimize: unknown objective 'enrgy'; did you mean 'energy'?",
        "objective.then: unknown quantity 'time'; there are dram_traffic, energy, latency, edp, operations",
        "mapspace.tile_sizes: unknown value 'primes'; there are divisors, all",
        "workload.einsums.1: no compute unit of unit-energy-32x32 can run op max, add, exp, div of P",
        "mapspace.tiles.z: unknown rank 'z'; there are h, m, n, e, f",
    ]


EXAMPLES = re.findall(r"```yaml\n# (\w+).*?\n(.*?)```", (ROOT / "docs" / "files.md").read_text(), re.DOTALL)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES, ids=[kind for kind, _ in EXAMPLES])
def test_the_examples_of_the_guide_load(kind: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(text)
    if kind == "mapping":
        problem = ex.load_problem("bert-base-attention")
        mapping = ex.load_mapping(path, problem)
        assert not ex.violations(problem.cascade, problem.hardware, mapping, problem.mapspace)
    else:
        load = {"workload": ex.workload, "hardware": ex.hardware, "problem": ex.load_problem}[kind]
        assert load(path)


def test_the_guide_has_an_example_of_each_kind() -> None:
    assert {kind for kind, _ in EXAMPLES} == {"workload", "hardware", "problem", "mapping"}
