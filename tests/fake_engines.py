"""Engines that do not search: each returns a hand-made answer, right or wrong, for the hand-made problem."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from exactile.formulation.core import evaluate
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control, Outcome, Space, UnsupportedProblem
from exactile.solver.engines import EngineFacts
from hand_made import buffer, fused, unfused


def value(problem: Problem, mapping: Mapping) -> Fraction:
    """What the core says the mapping costs."""
    return evaluate(problem.cascade, problem.hardware, mapping).quantity(problem.objective.minimize)


def honest(problem: Problem, control: Control) -> Outcome:
    best = value(problem, fused())
    control.report(best, best)
    return Outcome("optimal", fused(), best, "fake", space=Space(1, 1, 1))


def second(problem: Problem, control: Control) -> Outcome:
    """Proves the same as `honest`."""
    return replace(honest(problem, control), proof="second")


def slack(problem: Problem, control: Control) -> Outcome:
    """Has a worse mapping, and a bound that holds for it but not for the mapping of `honest`."""
    worse = value(problem, unfused())
    return Outcome("feasible", unfused(), worse - 1, "none")


def too_optimistic(problem: Problem, control: Control) -> Outcome:
    """Claims a lower optimum than its mapping costs."""
    return Outcome("optimal", fused(), value(problem, fused()) - 1, "fake")


def too_pessimistic(problem: Problem, control: Control) -> Outcome:
    """Claims a bound above its own mapping."""
    return Outcome("feasible", fused(), value(problem, fused()) + 1, "fake")


def boundless(problem: Problem, control: Control) -> Outcome:
    """Claims an optimum without a bound."""
    return Outcome("optimal", fused(), None, "fake")


def illegal(problem: Problem, control: Control) -> Outcome:
    """Returns a mapping that keeps too much on chip."""
    group = fused().groups[0]
    buffers = tuple(buffer("K", "S", "") if b.tensor == "K" else b for b in group.buffers)
    return Outcome("feasible", Mapping((replace(group, buffers=buffers[:-1]),)), None, "none")


def empty_handed(problem: Problem, control: Control) -> Outcome:
    return Outcome("optimal", None, Fraction(1), "fake")


def speechless(problem: Problem, control: Control) -> Outcome:
    return Outcome("infeasible", proof="fake")


def infeasible(problem: Problem, control: Control) -> Outcome:
    return Outcome(
        "infeasible", proof="fake", reason="GLB: the smallest legal tiles need 3 B, capacity is 2 B"
    )


def unsupported(problem: Problem, control: Control) -> Outcome:
    raise UnsupportedProblem("the engine fake cannot search chains of three contractions")


def broken(problem: Problem, control: Control) -> Outcome:
    raise ZeroDivisionError("division by zero")


def say(word: str) -> None:
    """For a test that waits until the search is under way."""
    print(word, file=sys.stderr, flush=True)


def patient(problem: Problem, control: Control) -> Outcome:
    """Has a mapping at once and no proof until it is stopped."""
    say("searching")
    best = value(problem, fused())
    control.report(best, best / 2)
    while not control.stopped:
        time.sleep(0.01)
    return Outcome("feasible", fused(), best / 2, "none")


def fruitless(problem: Problem, control: Control) -> Outcome:
    """Finds nothing until it is stopped."""
    say("searching")
    while not control.stopped:
        time.sleep(0.01)
    return Outcome("unknown")


def deaf(problem: Problem, control: Control) -> Outcome:
    """Sees the stop button and does not care."""
    say("searching")
    control.interrupted.wait()
    say("so what")
    while True:
        time.sleep(0.01)


def real(problem: Problem, control: Control) -> Outcome:
    """The real engine, announced."""
    from exactile.solver.mmee import mmee

    say("searching")
    return mmee(problem, control)


def write(problem: Problem, path: Path) -> None:
    """Writes a model of one line."""
    path.write_text(f"minimize {problem.objective.minimize}\n", encoding="utf-8")


ENGINES = {
    engine.__name__: EngineFacts(engine.__name__, f"fake_engines:{engine.__name__}", "a fake")
    for engine in (
        honest,
        second,
        slack,
        too_optimistic,
        too_pessimistic,
        boundless,
        illegal,
        empty_handed,
        speechless,
        infeasible,
        unsupported,
        broken,
        patient,
        fruitless,
        deaf,
        real,
    )
}
ENGINES["second"] = replace(
    ENGINES["second"], writer="fake_engines:write", formats=frozenset({".lp", ".mps"})
)
