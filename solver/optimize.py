"""From a problem to a verified solution: choose an engine, run it, ask for a second proof if wanted."""

from __future__ import annotations

import time
from dataclasses import replace

from exactile.formulation.consistency import problem_faults
from exactile.formulation.faults import InputError
from exactile.formulation.problem import Problem
from exactile.solver.certify import certified
from exactile.solver.engine import Control
from exactile.solver.engines import AUTO, choose
from exactile.solver.run import run
from exactile.solver.solution import Solution

DEFAULT_TIME_LIMIT = 120.0


def optimize(
    problem: Problem,
    engine: str = AUTO,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    *,
    certify: bool = False,
    control: Control | None = None,
    replay: bool = True,
) -> Solution:
    """The best mapping of `problem`, verified.

    `time_limit` is in seconds, `None` for none; a `control` made by the caller brings its own limit.
    The answer is checked for legality, costed anew in exact arithmetic and, unless `replay` is false,
    replayed loop by loop. `certify` asks another engine for a second proof in the time that is left.

    Raises `InputError` for an unknown engine or a problem whose parts contradict each other,
    `UnsupportedProblem` if the engine cannot search this problem, `VerificationError` if the engine's answer
    is wrong or a second engine contradicts it (a bug of Exactile).
    """
    start = time.monotonic()
    if faults := problem_faults(problem):
        raise InputError(faults)
    choice = choose(problem, engine)
    chosen = time.monotonic() - start
    control = control or Control(time_limit)
    solution = run(problem, choice, control, replay=replay)
    if certify:
        solution = certified(solution, control, replay=replay)
    seconds = dict(solution.seconds)
    seconds |= {"total": time.monotonic() - start, "load": chosen + seconds["load"]}
    return replace(solution, seconds=seconds)
