"""The registry of engines: what each can do, as data, and which one `auto` takes.

An engine is imported only when it is used: the solver libraries are heavy.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from exactile.formulation.faults import Fault, InputError, nearest
from exactile.formulation.problem import OBJECTIVES, Problem
from exactile.solver.engine import Engine, Size, UnsupportedProblem

AUTO = "auto"

MOST_PAIRS = 10**9
"""What `auto` enumerates at most: some ten seconds for traffic or energy, at 10⁸ pairs a second."""
_MOST_IN_WORDS = "10^9"


class Counter(Protocol):
    """Counts the space of a problem without searching it. May raise `UnsupportedProblem`.

    More than `most` pairs need not be counted to the end.
    """

    def __call__(self, problem: Problem, most: int | None = None) -> Size: ...


class Writer(Protocol):
    """Writes the model of a problem, in the format of the file's suffix. May raise `UnsupportedProblem`."""

    def __call__(self, problem: Problem, path: Path) -> None: ...


@dataclass(frozen=True)
class EngineFacts:
    """What an engine is and can do.

    `entry`, `counter` and `writer` are `module:attribute`: the engine, how it counts its space if it
    enumerates (an engine without one solves), how it writes its model in the `formats` (suffixes) it knows.
    `second` names another search of the same engine, with its entry, whose proof is a second one where no
    other engine can give it. `objectives` are the quantities it can minimise. `tolerance` is the relative
    error that its bounds may have, above zero for solvers in floating point. `method` is one line for people.
    """

    name: str
    entry: str
    method: str
    objectives: frozenset[str] = frozenset(OBJECTIVES)
    counter: str | None = None
    writer: str | None = None
    formats: frozenset[str] = frozenset()
    tolerance: float = 0.0
    second: tuple[str, str] | None = None

    def load(self) -> Engine:
        """Import the engine."""
        engine: Engine = _imported(self.entry)
        return engine

    def load_counter(self) -> Counter | None:
        """What counts the space that the engine enumerates."""
        counter: Counter | None = None if self.counter is None else _imported(self.counter)
        return counter

    def load_writer(self) -> Writer | None:
        """What writes the model of the engine."""
        writer: Writer | None = None if self.writer is None else _imported(self.writer)
        return writer


ENGINES: dict[str, EngineFacts] = {
    facts.name: facts
    for facts in (
        EngineFacts(
            "mmee",
            "exactile.solver.mmee:mmee",
            "matrix-encoded enumeration of structures × tilings, for every group small enough to list",
            counter="exactile.solver.mmee.size:space_size",
        ),
        EngineFacts(
            "cpsat",
            "exactile.solver.cpsat:cpsat",
            "constraint programming (OR-tools CP-SAT) on one model of a whole cascade",
            writer="exactile.solver.cpsat.write:write",
            formats=frozenset({".pb", ".pbtxt"}),
            second=("cpsat without presolve", "exactile.solver.cpsat.engine:without_presolve"),
        ),
        EngineFacts(
            "milp",
            "exactile.solver.milp:milp",
            "mixed-integer linear programming (PuLP and HiGHS) on one model of a whole cascade",
            writer="exactile.solver.milp.write:write",
            formats=frozenset({".lp", ".mps"}),
            tolerance=1e-6,
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
        return self.facts.load()


def choose(problem: Problem, name: str = AUTO) -> Choice:
    """The engine of that name; `auto` enumerates what is counted as small, and solves the rest.

    Raises `InputError` for an unknown name.
    """
    if name != AUTO:
        return Choice(named(name, (AUTO, *ENGINES)), "as asked")
    objective = problem.objective.minimize
    able = [facts for facts in ENGINES.values() if objective in facts.objectives]
    return _automatic(problem, able)


def named(name: str, known: Sequence[str] | None = None) -> EngineFacts:
    """The engine of that name. Raises `InputError` with the nearest of the `known` names."""
    if name in ENGINES:
        return ENGINES[name]
    known = known or tuple(ENGINES)
    message = f"unknown engine '{name}'{nearest(name, known)} (known: {', '.join(known)})"
    raise InputError([Fault(("engine",), message)])


def count(problem: Problem, most: int | None = None) -> Size | None:
    """Size of the space, by the first engine that can count it; `None` if none can list it."""
    for facts in ENGINES.values():
        counter = facts.load_counter()
        if counter is not None:
            try:
                return counter(problem, most)
            except UnsupportedProblem:
                continue
    return None


def _automatic(problem: Problem, able: Sequence[EngineFacts]) -> Choice:
    solving = [facts for facts in able if facts.counter is None]
    reasons = []
    for facts in able:
        counter = facts.load_counter()
        if counter is None:
            continue
        try:
            size = counter(problem, MOST_PAIRS)
        except UnsupportedProblem as error:
            reasons.append(str(error))
            continue
        if size.exact and size.pairs <= MOST_PAIRS:
            return Choice(facts, f"auto: {size}, few enough to enumerate (at most {_MOST_IN_WORDS})")
        if not solving:
            return Choice(facts, f"auto: {size}, and no engine is there that solves")
        if size.pairs > MOST_PAIRS:
            reasons.append(f"{size}, too many to enumerate (more than {_MOST_IN_WORDS})")
        else:
            reasons.append(f"{size}, so enumeration would prove little")
    return Choice((solving or able)[0], f"auto: {'; '.join(reasons) or 'nothing here enumerates'}")


def _imported(entry: str) -> Any:
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)
