"""The speed table of the README: medians of measurements on this machine, as Markdown.

`python bench/speed.py [--repeat N]`. Searches run in this process with their structures in memory; whole
processes, imports and cold starts run in fresh ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from exactile.formulation.cascade import Cascade
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.load import load_hardware, load_problem
from exactile.solver.engine import Control, Outcome
from exactile.solver.engines import ENGINES
from exactile.solver.mmee import mmee

COLD_START = """
import time
from exactile.formulation.encoding.shape import group_specs
from exactile.formulation.encoding.structures import structures
from exactile.load import load_problem
problem = load_problem({problem!r})
names = [einsum.name for einsum in problem.cascade.einsums]
specs = list(group_specs(problem.cascade, names, problem.mapspace))
start = time.perf_counter()
for spec in specs:
    structures(spec.shape)
print(time.perf_counter() - start)
"""
IMPORT = "import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"


@dataclass(frozen=True)
class Row:
    """One line of the table: what, the measured value in words, the target in words."""

    what: str
    value: str
    target: str


def seconds(run: Callable[[], object], repeat: int) -> float:
    """Median wall time of `run`, after one run that warms the caches."""
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)


def fresh(code: str, repeat: int) -> float:
    """Median of the number that `code` prints in a fresh interpreter."""
    command = [sys.executable, "-c", code]
    found = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeat)
    ]
    return median(found)


def search(problem: Problem, repeat: int) -> tuple[float, Outcome]:
    """Median search time with the structures cached, and what was found."""
    outcome = mmee(problem, Control())
    assert outcome.status == "optimal", (problem.name, outcome.status)
    return seconds(lambda: mmee(problem, Control()), repeat), outcome


def head(objective: str, capacity: int) -> Problem:
    """One attention head of 2048 tokens and head size 128 with every tile size; bytes of buffer."""
    ranks = {"m": 2048, "n": 2048, "e": 128, "f": 128}
    cascade = Cascade(ranks, ["S[m,n] = Q[m,e] * K[n,e]", "O[m,f] = S[m,n] * V[n,f]"], name="head")
    machine = load_hardware("nvdla-like")
    outer, inner = machine.levels
    machine = replace(machine, levels=(outer, replace(inner, capacity=8 * capacity)))
    return Problem(cascade, machine, Objective(objective), Mapspace("all"))


def searches(repeat: int) -> Iterator[Row]:
    for name, target in (("bert-base-attention", "0.1 s"), ("gpt3-6.7b-attention", "0.1 s")):
        spent, _ = search(load_problem(name), repeat)
        yield Row(f"{name}, energy, structures cached", f"{spent:.3f} s", f"≤ {target}")
        every = load_problem(name)
        every = replace(every, mapspace=replace(every.mapspace, tile_sizes="all"))
        spent, _ = search(every, max(1, repeat // 3))
        yield Row(f"{name}, energy, every tile size", f"{spent:.2f} s", "")
    for objective, rate in (("energy", "5·10⁷"), ("dram_traffic", "10⁸")):
        for kibi, note in ((256, "256 KiB"), (1024, "1 MiB, where it fits whole")):
            spent, outcome = search(head(objective, kibi << 10), max(1, repeat // 2))
            space = outcome.space
            what = f"one head 2048²×128², {objective}, every tile size, {note}"
            pairs = f"{space.evaluated / spent:.3g} pairs/s of {space.evaluated:.3g}"
            yield Row(what, f"{spent:.2f} s, {pairs}", f"≤ 10 s, ≥ {rate} pairs/s")


SOLVED = (
    ("bert-base-attention", "energy", "cpsat", "≤ 5 s"),
    ("bert-base-attention", "dram_traffic", "cpsat", "≤ 1 s"),
    ("bert-base-attention", "dram_traffic", "milp", "≤ 20 s"),
    ("gpt3-6.7b-attention", "energy", "cpsat", "≤ 5 s"),
    ("gpt3-6.7b-attention", "dram_traffic", "cpsat", "≤ 1 s"),
    ("crosscheck-h12-512", "energy", "cpsat", "≤ 5 s"),
    ("crosscheck-h12-512", "dram_traffic", "milp", "≤ 20 s"),
    ("crosscheck-h32-2048", "energy", "cpsat", "≤ 5 s"),
)
"""Problem, objective, engine, target."""


def long_head() -> Problem:
    """One attention head of 16 384 tokens and head size 128, every tile size, 256 KiB."""
    wide = head("dram_traffic", 256 << 10)
    ranks = {**wide.cascade.ranks, "m": 16384, "n": 16384}
    return replace(wide, cascade=Cascade(ranks, wide.cascade.einsums, name="head"))


def proofs(repeat: int) -> Iterator[Row]:
    """Engines that solve a model, beside the enumeration on the same problem in the same run."""
    named = [
        (replace(load_problem(name), objective=Objective(key)), name, key, engine, target)
        for name, key, engine, target in SOLVED
    ]
    long = (long_head(), "one head 16384²×128², every tile size, 256 KiB", "dram_traffic", "cpsat", "≤ 30 s")
    for problem, name, key, engine, target in (*named, long):
        run = ENGINES[engine].load()
        mmee(problem, Control())
        times: dict[str, list[float]] = {"mmee": [], engine: []}
        for _ in range(max(1, repeat // 2)):
            for who, solve in (("mmee", mmee), (engine, run)):
                start = time.perf_counter()
                outcome = solve(problem, Control())
                times[who].append(time.perf_counter() - start)
                assert outcome.status == "optimal", (name, who, outcome.status)
        spent, enumerated = median(times[engine]), median(times["mmee"])
        value = f"{spent:.2f} s (mmee {enumerated:.3f} s: {spent / enumerated:.2g} times)"
        yield Row(f"{name}, {key}, proof by {engine}", value, target)


def processes(repeat: int) -> Iterator[Row]:
    for name in ("bert-base-attention", "gpt3-6.7b-attention"):
        command = [sys.executable, "-m", "exactile", "solve", name]

        def whole(command: list[str] = command) -> None:
            subprocess.run(command, check=True, capture_output=True)

        yield Row(f"`exactile solve {name}`, whole process", f"{seconds(whole, repeat):.2f} s", "≤ 1.5 s")
    ours = fresh(IMPORT.format(module="exactile"), repeat)
    numpy = fresh(IMPORT.format(module="numpy"), repeat)
    more = f"{ours - numpy:+.3f} s ({ours:.3f} s against {numpy:.3f} s)"
    yield Row("importing exactile, more than importing numpy", more, "≤ 0.3 s")
    for name in ("gpt3-6.7b-attention", "llama3-8b-attention"):
        cold = fresh(COLD_START.format(problem=name), max(1, repeat // 2))
        yield Row(f"structures of {name}, cold start", f"{cold:.2f} s", "≤ 2 s")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the speed of Exactile on this machine.")
    parser.add_argument("--repeat", type=int, default=5, help="measurements per number (default 5)")
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EXACTILE_CACHE"] = folder  # measured alone, and nothing of the user's is touched
        print("| what | median | target |\n|---|---|---|")
        for rows in (searches(repeat), proofs(repeat), processes(repeat)):
            for row in rows:
                print(f"| {row.what} | {row.value} | {row.target} |", flush=True)


if __name__ == "__main__":
    main()
