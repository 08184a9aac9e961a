"""The registry of engines: what each can do, as data, and which one `auto` takes.

An engine is imported only when it is used: the solver libraries are heavy.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from exactile.formulation.faults import Fault, InputError, nearest
from exactile.formulation.problem import OBJECTIVES, Problem
from exactile.solver.engine import Engine

AUTO = "auto"


@dataclass(frozen=True)
class EngineFacts:
    """What an engine is and can do.

    `entry` is `module:attribute` of the engine. `objectives` are the quantities it can minimise.
    `method` is one line for people.
    """

    name: str
    entry: str
    method: str
    objectives: frozenset[str] = frozenset(OBJECTIVES)


ENGINES: dict[str, EngineFacts] = {
    facts.name: facts
    for facts in (
        EngineFacts(
            "mmee",
            "exactile.solver.mmee:mmee",
            "matrix-encoded enumeration of structures × tilings; cascades of up to four Einsums",
        ),
    )
}


@dataclass(frozen=True)
class Choice:
    """An engine with the reason for which it was chosen."""

    facts: EngineFacts
    why: str

    def load(self) -> Engine:
        """Import the engine."""
        module, _, attribute = self.facts.entry.partition(":")
        engine: Engine = getattr(importlib.import_module(module), attribute)
        return engine


def choose(problem: Problem, name: str = AUTO) -> Choice:
    """The engine of that name; `auto` decides. Raises `InputError` for an unknown name."""
    if name in ENGINES:
        return Choice(ENGINES[name], "as asked")
    if name != AUTO:
        known = (AUTO, *ENGINES)
        message = f"unknown engine '{name}'{nearest(name, known)} (known: {', '.join(known)})"
        raise InputError([Fault(("engine",), message)])
    objective = problem.objective.minimize
    able = [facts for facts in ENGINES.values() if objective in facts.objectives]
    which = "only" if len(able) == 1 else "first"
    return Choice(able[0], f"auto: the {which} engine that minimises {objective.replace('_', ' ')}")
