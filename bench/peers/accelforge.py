"""The same attention problems in AccelForge and in Exactile, side by side, as Markdown.

AccelForge 1.0.467 lives in an environment of its own, with Python 3.12 and the program `dot` of graphviz:

    python3.12 -m venv .venv-accelforge
    .venv-accelforge/bin/pip install accelforge==1.0.467

Then `python bench/peers/accelforge.py [--python PATH] [--engines mmee,cpsat] [--markdown FILE]`, or all of it
with `make peers`.

Each tool searches each problem in a fresh process, one worker, several times: the first search and the
median of the others. What is compared, and what is not, is explained in docs/peers.md. The exit status is 1
if AccelForge finds something better than one of our engines, or if the two tools cost a mapping differently.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from accelforge_mapping import NotExpressible, dataflow
from accelforge_spec import task

from exactile.formulation.core import evaluate, violations
from exactile.formulation.problem import Objective, Problem
from exactile.load import load_problem
from exactile.solver.engines import ENGINES
from exactile.solver.optimize import optimize
from exactile.version import __version__

WORKER = Path(__file__).with_name("accelforge_worker.py")
LAYERS = (("BERT-base attention", "crosscheck-h12-512"), ("GPT-3 6.7B attention", "crosscheck-h32-2048"))
CAPACITIES = {"1 MiB": 1024, "16 KiB": 16}
OBJECTIVES = ("energy", "dram_traffic")
# a file that has these two lines keeps what is around them when the report is written to it
MARKS = ("<!-- the report begins -->\n", "<!-- the report ends -->\n")
# our searches go on until they took this many seconds together, or there are that many
LONG, MOST = 2.0, 21
# AccelForge computes in single precision
PRECISION = Fraction(1, 10**6)
HEADER = (
    "| problem | minimised | engine | optimum | / AccelForge's | first search | again "
    "| first / first | first / again | again / again |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|"
)


@dataclass(frozen=True)
class Answer:
    """What one engine found: its value of the objective, and the seconds of each search.

    `rescored` is the value that Exactile's core computes for the mapping, `None` if it cannot be
    expressed; `remark` says why, or what else is to be said.
    """

    engine: str
    value: Fraction
    seconds: tuple[float, ...]
    rescored: Fraction | None
    remark: str = ""

    @property
    def first(self) -> float:
        return self.seconds[0]

    @property
    def again(self) -> float:
        return median(self.seconds[1:])


@dataclass(frozen=True)
class Comparison:
    """One problem, AccelForge's answer and ours."""

    problem: Problem
    peer: Answer
    ours: tuple[Answer, ...]

    @property
    def faults(self) -> Iterator[str]:
        """What must not happen, in sentences."""
        if self.peer.rescored is not None and not _near(self.peer.value, self.peer.rescored):
            yield (
                f"{self.problem.name}: AccelForge costs its mapping {float(self.peer.value):.10g}, "
                f"Exactile {float(self.peer.rescored):.10g}"
            )
        for answer in self.ours:
            if answer.value > self.peer.value * (1 + PRECISION):
                yield f"{self.problem.name}: {answer.engine} is worse than AccelForge"


def _near(one: Fraction, other: Fraction) -> bool:
    return abs(one - other) <= PRECISION * max(abs(one), abs(other))


def problems() -> Iterator[Problem]:
    """The problems on machines with different buffers; ties are not broken, the peer does not either."""
    for title, name in LAYERS:
        problem = load_problem(name)
        dram, buffer = problem.hardware.levels
        for size, kibi in CAPACITIES.items():
            levels = (dram, replace(buffer, capacity=kibi * 1024 * 8))
            machine = replace(problem.hardware, levels=levels)
            for objective in OBJECTIVES:
                yield replace(
                    problem,
                    name=f"{title}, {size}",
                    hardware=machine,
                    objective=Objective(objective, ()),
                )


def peer(python: Path, problem: Problem, searches: int) -> tuple[Answer, dict[str, str]]:
    """AccelForge's answer, and the versions it ran with. It runs in a folder of its own: it writes there."""
    with tempfile.TemporaryDirectory(prefix="peer_") as folder:
        question, answer = Path(folder, "task.json"), Path(folder, "answer.json")
        question.write_text(json.dumps(task(problem, searches)), encoding="utf-8")
        command = [str(part) for part in (python, "-I", WORKER, question, answer)]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"AccelForge failed on {problem.name}:\n{run.stderr}")
        found = json.loads(answer.read_text(encoding="utf-8"))
    value = sum((Fraction(row[-1]) for row in found["energy"]), Fraction(0))
    if problem.objective.minimize == "dram_traffic":
        value /= 8
    rescored, remark = None, ""
    try:
        rescored = cost(problem, found["tree"])
    except NotExpressible as reason:
        remark = f"not costed by Exactile: {reason}"
    seconds = tuple(found["seconds"]["search"])
    return Answer("AccelForge", value, seconds, rescored, remark), found["versions"]


def cost(problem: Problem, tree: dict[str, object]) -> Fraction:
    """What Exactile's core says that AccelForge's mapping costs."""
    mapping = dataflow(tree, problem)
    broken = violations(problem.cascade, problem.hardware, mapping, problem.mapspace)
    if broken:
        raise NotExpressible(f"breaks rules: {'; '.join(broken)}")
    found = evaluate(problem.cascade, problem.hardware, mapping)
    return found.quantity(problem.objective.minimize)


def search(problem: Problem, engine: str, searches: int) -> Answer:
    """Our answer; runs in a fresh process. Short searches are repeated more often, for a steady median."""
    seconds: list[float] = []
    while len(seconds) < searches or (sum(seconds) < LONG and len(seconds) < MOST):
        solution = optimize(problem, engine, replay=False)
        seconds.append(solution.seconds["search"])
    if solution.value is None:
        raise SystemExit(f"{engine} finds nothing for {problem.name}: {solution.reason}")
    remark = "" if solution.status == "optimal" else f"{solution.status}, not proved"
    return Answer(engine, solution.value, tuple(seconds), solution.value, remark)


def ours(problem: Problem, engine: str, searches: int) -> Answer:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(search, problem, engine, searches).result()


def factors(peer: Answer, mine: Answer) -> tuple[float, float, float]:
    """AccelForge's time in ours: both first, its first and ours again, both again."""
    return peer.first / mine.first, peer.first / mine.again, peer.again / mine.again


def rows(comparison: Comparison) -> Iterator[str]:
    """The lines of one problem: AccelForge, then our engines."""
    problem, base = comparison.problem, comparison.peer
    objective = problem.objective.minimize.replace("_", " ")
    unit = " B" if problem.objective.minimize == "dram_traffic" else ""
    for answer in (base, *comparison.ours):
        cells = [problem.name, objective, answer.engine + (f" ({answer.remark})" if answer.remark else "")]
        cells += [f"{float(answer.value):,.0f}".replace(",", " ") + unit]
        cells += ["" if answer is base else f"{float(answer.value / base.value):.6g}"]
        cells += [f"{answer.first:.3f} s", f"{answer.again:.3f} s"]
        cells += ["", "", ""] if answer is base else [f"{factor:.0f} ×" for factor in factors(base, answer)]
        yield f"| {' | '.join(cells)} |"


def summary(comparisons: Sequence[Comparison], engines: Iterable[str]) -> Iterator[str]:
    """What holds for all problems, per engine and for the two costs of one mapping."""
    for place, engine in enumerate(engines):
        pairs = [(each.peer, each.ours[place]) for each in comparisons]
        least = [min(column) for column in zip(*(factors(*pair) for pair in pairs), strict=True)]
        worst = max(float(mine.value / base.value) for base, mine in pairs)
        yield (
            f"- {engine}: at most {worst:.6g} of AccelForge's optimum; AccelForge takes at least "
            f"{least[0]:.0f} × as long (first search each), {least[1]:.0f} × (its first search, ours "
            f"again), {least[2]:.0f} × (both again)."
        )
    checked = sum(each.peer.rescored is not None for each in comparisons)
    equal = sum(
        each.peer.rescored is not None and _near(each.peer.value, each.peer.rescored) for each in comparisons
    )
    yield (
        f"- AccelForge's mappings costed by Exactile's core: {checked} of {len(comparisons)} expressible, "
        f"{equal} with the same value."
    )


def report(
    comparisons: Sequence[Comparison], engines: Sequence[str], versions: dict[str, str], load: float
) -> str:
    where = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} before the run"
    title = (
        f"{date.today():%-d %B %Y}: AccelForge {versions['accelforge']} (Python {versions['python']}, one "
        f"worker) and Exactile {__version__} (Python {platform.python_version()}) on {where}."
    )
    lines = [line for each in comparisons for line in rows(each)]
    return "\n".join([title, "", HEADER, *lines, "", *summary(comparisons, engines)]) + "\n"


def write(text: str, file: Path) -> None:
    """Write the report: between the two marks if the file has them, as the whole file otherwise."""
    if file.is_file():
        old = file.read_text(encoding="utf-8")
        begin, end = MARKS
        if begin in old and end in old:
            text = old[: old.index(begin)] + begin + "\n" + text + "\n" + old[old.index(end) :]
    file.write_text(text, encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="AccelForge and Exactile on the same problems.")
    default = Path(".venv-accelforge/bin/python")
    parser.add_argument("--python", type=Path, default=default, help=f"the peer's Python (default {default})")
    parser.add_argument("--engines", default="mmee", help="our engines, separated by commas (default mmee)")
    parser.add_argument("--searches", type=int, default=4, help="searches per problem and tool, at least 2")
    parser.add_argument("--markdown", type=Path, help="write the report to this file as well")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    engines = options.engines.split(",")
    if unknown := [engine for engine in engines if engine not in ENGINES]:
        raise SystemExit(f"unknown engine {', '.join(unknown)} (known: {', '.join(ENGINES)})")
    if not options.python.is_file():
        raise SystemExit(f"no Python at {options.python}\n{__doc__}")
    load = os.getloadavg()[0]
    comparisons: list[Comparison] = []
    versions: dict[str, str] = {}
    for problem in problems():
        answer, versions = peer(options.python.absolute(), problem, options.searches)
        mine = tuple(ours(problem, engine, options.searches) for engine in engines)
        comparisons.append(Comparison(problem, answer, mine))
        print("\n".join(rows(comparisons[-1])), file=sys.stderr, flush=True)
    text = report(comparisons, engines, versions, load)
    print(text, end="")
    if options.markdown:
        write(text, options.markdown)
    faults = [fault for each in comparisons for fault in each.faults]
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
