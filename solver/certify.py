"""A second proof of an answer, by an engine that shares no search with the first.

Where no other engine can give it, the first may have another search of its own (`EngineFacts.second`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from exactile.solver.agreement import contradictions
from exactile.solver.engine import Control, UnsupportedProblem
from exactile.solver.engines import ENGINES, Choice, EngineFacts
from exactile.solver.run import run
from exactile.solver.solution import Solution
from exactile.solver.verify import VerificationError


def certified(first: Solution, control: Control, *, replay: bool = True) -> Solution:
    """`first` with what a second engine proves about it, in the time that `control` leaves.

    `proof` names both if the second proves the same; else the first alone stands, and `certificate` says why.
    Raises `VerificationError` if the second contradicts.
    """
    start = time.monotonic()
    proof, certificate = _second_proof(first, control, replay)
    spent = time.monotonic() - start
    seconds = {**first.seconds, "certify": spent}
    interrupted = control.interrupted.is_set()
    return replace(first, proof=proof, certificate=certificate, seconds=seconds, interrupted=interrupted)


def _second_proof(first: Solution, control: Control, replay: bool) -> tuple[str, str]:
    """Whose proofs there are now, and a sentence on the second."""
    if not first.proved:
        return first.proof, "not certified: there is no proof yet that could be confirmed"
    reasons = []
    for facts in _others(first):
        if control.stopped:
            return first.proof, f"not certified: no time was left for {facts.name}"
        try:
            second = run(first.problem, Choice(facts, "to certify"), control.rest(), replay=replay)
        except UnsupportedProblem as error:
            reasons.append(f"{facts.name}: {error}")
            continue
        if wrong := contradictions([first, second]):
            raise VerificationError("; ".join(wrong))
        if second.proved:
            seconds = second.seconds["search"]
            return f"{first.proof} + {second.proof}", f"confirmed by {facts.name} in {seconds:.2f} s"
        reasons.append(f"{facts.name} did not finish in the time that was left")
    return first.proof, "not certified: " + ("; ".join(reasons) or "no other engine is there")


def _others(first: Solution) -> Sequence[EngineFacts]:
    """Engines that can confirm, those that prove exactly before those in floating point, then the first
    engine's other search."""
    objective = first.problem.objective.minimize
    able = [f for f in ENGINES.values() if f.name != first.engine and objective in f.objectives]
    own = ENGINES[first.engine]
    again = [] if own.second is None else [replace(own, name=own.second[0], entry=own.second[1])]
    return [*sorted(able, key=lambda facts: facts.tolerance), *again]
