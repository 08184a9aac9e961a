"""Writing the model that a solver would get, for people and for other solvers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from exactile.formulation.faults import Fault, InputError
from exactile.formulation.problem import Problem
from exactile.solver.engines import AUTO, ENGINES, EngineFacts, named


def model_writer(path: Path, engine: str = AUTO) -> EngineFacts:
    """The engine that writes the format of the file's suffix: the named one, or the first that knows it.

    Raises `InputError` naming the formats there are.
    """
    able = [facts for facts in ENGINES.values() if facts.writer is not None]
    asked = able if engine == AUTO else [facts for facts in (named(engine),) if facts.writer is not None]
    for facts in asked:
        if path.suffix.lower() in facts.formats:
            return facts
    wanted = f"a {path.suffix} file" if path.suffix else "a file without a suffix"
    if engine == AUTO:
        refusal = f"no engine writes {wanted}"
    else:
        refusal = f"{engine} does not write {wanted}" if asked else f"{engine} writes no model"
    raise InputError([Fault(("--write-model",), f"{refusal}; {_formats(able)}")])


def write_model(problem: Problem, path: Path, engine: str = AUTO) -> str:
    """Write the model of `problem` in the format of the file's suffix; returns the engine whose model it is.

    Raises `InputError` if no such engine writes the format, `UnsupportedProblem` if it cannot model this.
    """
    facts = model_writer(path, engine)
    writer = facts.load_writer()
    assert writer is not None
    writer(problem, path)
    return facts.name


def _formats(able: Iterable[EngineFacts]) -> str:
    known = [f"{facts.name} writes {', '.join(sorted(facts.formats))}" for facts in able]
    return "; ".join(known) or "no engine here writes models"
