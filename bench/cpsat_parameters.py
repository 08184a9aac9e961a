"""CP-SAT's parameters on real layers: the portfolio and the probing of the presolve.

    python bench/cpsat_parameters.py [--time-limit 60] [--repeat 3]

One row per problem, one column per choice, seconds to the proof (median). The first column is what
`solver/cpsat/session.py` uses.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ortools.sat.python import cp_model

import exactile as ex
from exactile.solver.cpsat import session
from exactile.solver.cpsat.session import CpSatSession
from exactile.solver.engine import Control
from exactile.solver.exact.engine import formulations

CHOICES: Mapping[str, Mapping[str, Any]] = {
    "as used": {},
    "probing": {"cp_model_probing_level": 2},
    "CP-SAT's portfolio": {"subsolvers": ()},
    "both": {"subsolvers": (), "cp_model_probing_level": 2},
    "core search": {"subsolvers": ("no_lp", "core_or_no_lp")},
    "bound search": {"subsolvers": ("no_lp", "objective_lb_search_no_lp")},
    "linear programs": {"subsolvers": ("default_lp", "max_lp")},
    "one worker": {"subsolvers": (), "num_workers": 1, "linearization_level": 0},
}
PROBLEMS = (
    "crosscheck-h12-512",
    "crosscheck-h32-2048",
    "crosscheck-h32-2048-16k",
    "crosscheck-h12-512-latency",
    "gpt3-6.7b-attention",
    "gpt3-6.7b-ffn",
    "llama3-8b-attention",
)


def seconds(problem: ex.Problem, choice: Mapping[str, Any], time_limit: float) -> float:
    """Time of one solve of the leading objective; the limit if that ends it."""
    formulation = next(iter(formulations(problem)))
    usual = session.configure

    def configure(solver: cp_model.CpSolver, control: Control, *, presolve: bool) -> None:
        usual(solver, control, presolve=presolve)
        for name, value in choice.items():
            if name == "subsolvers":
                solver.parameters.subsolvers.clear()
                solver.parameters.subsolvers.extend(value)
            else:
                setattr(solver.parameters, name, value)

    session.configure = configure
    try:
        start = time.perf_counter()
        CpSatSession(formulation).minimize(
            problem.objective.minimize, {}, Control(time_limit), lambda value, bound: None
        )
        return time.perf_counter() - start
    finally:
        session.configure = usual


def main() -> None:
    parser = argparse.ArgumentParser(description="CP-SAT's parameters on real layers.")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    print("| problem |", " | ".join(CHOICES), "|")
    print("|---|" + "--:|" * len(CHOICES))
    wide = ex.load_problem("crosscheck-h12-512")
    every = replace(
        wide, mapspace=replace(wide.mapspace, tile_sizes="all"), name="crosscheck-h12-512, all tiles"
    )
    for problem in (*map(ex.load_problem, PROBLEMS), every):
        times = [
            statistics.median(seconds(problem, choice, given.time_limit) for _ in range(given.repeat))
            for choice in CHOICES.values()
        ]
        print(f"| {problem.name} |", " | ".join(f"{value:.2f}" for value in times), "|", flush=True)


if __name__ == "__main__":
    main()
