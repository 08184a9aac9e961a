"""What a good start is worth to CP-SAT, and two steps to the energy: seconds to the proof.

    python bench/cpsat_starts.py [--time-limit 120] [--seeds 3]

First table: least DRAM traffic of a block of twelve Einsums, without a start, with mappings of up to three
times the optimum (as `solver/exact/engine.py` allows), with better ones only, and with the optimum as a hint.
Second: least energy in one solve, or after a proof of what crosses the boundary above the buffer. Medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from cascades import Rung, attention, block
from ortools.sat.python import cp_model

import exactile as ex
from exactile.formulation.families.build import build
from exactile.solver.cpsat import session
from exactile.solver.cpsat.session import CpSatSession
from exactile.solver.engine import Control
from exactile.solver.exact.session import Answer


@dataclass(frozen=True)
class Start:
    """`room`: the multiple of the optimum that is allowed, 0 for any, 1 for less; `hint`: begin at it."""

    room: int = 0
    hint: bool = False


STARTS: Mapping[str, Start] = {
    "no start": Start(),
    "up to 3 times": Start(room=3),
    "better only": Start(room=1),
    "optimum as hint": Start(hint=True),
}


def fresh(problem: ex.Problem) -> CpSatSession:
    names = [einsum.name for einsum in problem.cascade.einsums]
    return CpSatSession(build(problem, names, problem.objective.measured))


def timed(
    solver: CpSatSession, key: str, limits: Mapping[str, int], time_limit: float
) -> tuple[float, Answer]:
    start = time.perf_counter()
    answer = solver.minimize(key, limits, Control(time_limit), lambda value, bound: None)
    return time.perf_counter() - start, answer


def with_seed(seed: int) -> None:
    """All solves from now on use this random seed."""

    def configure(solver: cp_model.CpSolver, control: Control, *, presolve: bool) -> None:
        usual(solver, control, presolve=presolve)
        solver.parameters.random_seed = seed

    session.configure = configure


usual = session.configure


def row(name: str, times: Mapping[str, list[float]], time_limit: float) -> None:
    cells = [statistics.median(found) for found in times.values()]
    shown = " | ".join(f"> {limit:.0f}" if (limit := time_limit) <= cell else f"{cell:.1f}" for cell in cells)
    print(f"| {name} | {shown} |", flush=True)


def starts(rung: Rung, seeds: int, time_limit: float) -> None:
    problem, key = rung.problem(), rung.objective
    times: dict[str, list[float]] = {name: [] for name in STARTS}
    for seed in range(seeds):
        with_seed(seed)
        first = fresh(problem)
        seconds, answer = timed(first, key, {}, time_limit)
        times["no start"].append(seconds)
        if answer.status != "optimal" or answer.bound is None:
            continue
        for name, start in list(STARTS.items())[1:]:
            solver = fresh(problem)
            if start.hint:
                solver._solution = first._solution  # the models are the same
            limits = {key: answer.bound * start.room - (start.room == 1)} if start.room else {}
            times[name].append(timed(solver, key, limits, time_limit)[0])
    row(rung.name, times, time_limit)


def steps(rung: Rung, seeds: int, time_limit: float) -> None:
    problem = rung.problem()
    times: dict[str, list[float]] = {"one step": [], "two steps": []}
    few = session.FEW_EINSUMS
    for seed in range(seeds):
        with_seed(seed)
        for name, most in (("one step", len(problem.cascade.einsums)), ("two steps", 0)):
            session.FEW_EINSUMS = most
            times[name].append(timed(fresh(problem), rung.objective, {}, time_limit)[0])
    session.FEW_EINSUMS = few
    row(rung.name, times, time_limit)


def main() -> None:
    parser = argparse.ArgumentParser(description="Starts and steps of CP-SAT on whole blocks.")
    parser.add_argument("--time-limit", type=float, default=120.0)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    whole = block("block 1k")
    print("| problem |", " | ".join(STARTS), "|\n|---|" + "--:|" * len(STARTS))
    for buffer in ("256 KiB", "1 MiB"):
        starts(Rung(whole, "dram_traffic", buffer), given.seeds, given.time_limit)
    print("\n| problem | one step | two steps |\n|---|--:|--:|")
    for cascade, buffer in ((attention("online"), "256 KiB"), (whole, "1 MiB"), (whole, "4 MiB")):
        steps(Rung(cascade, "energy", buffer), given.seeds, given.time_limit)


if __name__ == "__main__":
    main()
