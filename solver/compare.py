"""Several engines on the same problems: their verified answers, and whether these can all be true."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from exactile.formulation.consistency import problem_faults
from exactile.formulation.faults import Fault, InputError
from exactile.formulation.problem import Problem
from exactile.formulation.quantity_text import grouped
from exactile.solver.agreement import contradictions
from exactile.solver.engine import Control, Size, UnsupportedProblem
from exactile.solver.engines import ENGINES, count, named
from exactile.solver.optimize import DEFAULT_TIME_LIMIT, optimize
from exactile.solver.solution import Solution

SHORTEST = 1e-4
"""Seconds below which two searches are taken to last equally long."""


@dataclass(frozen=True)
class Answer:
    """What one engine said: a verified solution, or why it was not asked (`declined`), or how it failed.

    A failure is an answer that did not pass verification, or a crash: a bug of Exactile in any case.
    """

    engine: str
    solution: Solution | None = None
    declined: str | None = None
    failure: Exception | None = None

    @property
    def proved(self) -> bool:
        return self.solution is not None and self.solution.proved

    @property
    def reason(self) -> str:
        """Why there is no solution, on one line; empty if there is one."""
        if self.failure is not None:
            return f"{type(self.failure).__name__}: {' '.join(str(self.failure).split())}"
        return self.declined or ""

    @property
    def seconds(self) -> float | None:
        """Seconds of the search alone, or `None` without one."""
        return None if self.solution is None else max(SHORTEST, self.solution.seconds["search"])


@dataclass(frozen=True)
class Row:
    """One problem: the size of its space (`None` where it cannot be listed) and all answers."""

    problem: Problem
    size: Size | None
    answers: tuple[Answer, ...]

    @cached_property
    def solutions(self) -> list[Solution]:
        """The verified solutions."""
        return [answer.solution for answer in self.answers if answer.solution is not None]

    @cached_property
    def proved(self) -> list[Answer]:
        """The answers that leave nothing open."""
        return [answer for answer in self.answers if answer.proved]

    @cached_property
    def contradictions(self) -> list[str]:
        """A sentence for each claim that another engine's mapping refutes."""
        return contradictions(self.solutions)

    @property
    def best(self) -> Solution | None:
        """The solution with the least value, a proved one before others; without any, a proof of none."""
        found = [solution for solution in self.solutions if solution.value is not None]
        if found:
            return min(found, key=lambda solution: (solution.value, not solution.proved))
        return next((solution for solution in self.solutions if solution.proved), None)

    @property
    def fastest(self) -> Answer | None:
        """The proof that was found first."""
        return min(self.proved, key=lambda answer: answer.seconds or 0.0, default=None)

    def answer(self, engine: str) -> Answer | None:
        """What that engine said."""
        return next((answer for answer in self.answers if answer.engine == engine), None)


@dataclass(frozen=True)
class Comparison:
    """What `compare` returns: a row per problem, as far as it came."""

    rows: tuple[Row, ...]
    engines: tuple[str, ...]
    time_limit: float | None
    interrupted: bool = False

    @property
    def contradictions(self) -> list[str]:
        """All contradictions; empty unless Exactile has a bug."""
        return [sentence for row in self.rows for sentence in row.contradictions]

    @property
    def failures(self) -> list[tuple[Problem, Answer]]:
        """All answers that did not pass verification, and crashes."""
        return [(row.problem, a) for row in self.rows for a in row.answers if a.failure is not None]

    @property
    def compared(self) -> int:
        """Number of proofs that could be held against another proof of the same problem."""
        return sum(len(row.proved) for row in self.rows if len(row.proved) > 1)

    @property
    def agree(self) -> bool | None:
        """Whether all proofs agree and no bound contradicts a mapping; `None` if no two could be compared."""
        if self.contradictions:
            return False
        return True if self.compared else None


class Watcher:
    """Told what `compare` is doing; this one does not care."""

    def starting(self, problem: Problem, engine: str) -> None:
        """An engine is about to search."""

    def answered(self, problem: Problem, size: Size | None, answer: Answer) -> None:
        """An engine has answered, or was not asked."""

    def compared(self, row: Row) -> None:
        """All engines have been asked about a problem, or as many as there was time for."""


def compare(
    problems: Sequence[Problem],
    engines: Sequence[str] | None = None,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    *,
    max_pairs: Mapping[str, int] | None = None,
    interrupted: threading.Event | None = None,
    watcher: Watcher | None = None,
) -> Comparison:
    """Each engine (all registered ones by default) on each problem, every answer verified.

    `time_limit` is in seconds for each search. `max_pairs` spares an engine what is larger. Structures are
    counted, and so in memory, before the first engine starts. `interrupted`, once set, ends the comparison
    with the answers so far.

    Raises `InputError` for an unknown engine or a problem whose parts contradict each other. An answer that
    turns out wrong is part of the result: see `Comparison.contradictions` and `failures`.
    """
    names = tuple(dict.fromkeys(engines if engines is not None else ENGINES))
    faults = [Fault((p.name, *f.path), f.message) for p in problems for f in problem_faults(p)]
    if faults:
        raise InputError(faults)
    for name in names:
        named(name)
    stop = interrupted or threading.Event()
    watcher = watcher or Watcher()
    rows = []
    for problem in problems:
        if stop.is_set():
            break
        size = count(problem)
        answers = []
        for answer in _answers(problem, size, names, time_limit, max_pairs or {}, stop, watcher):
            answers.append(answer)
            watcher.answered(problem, size, answer)
        rows.append(Row(problem, size, tuple(answers)))
        watcher.compared(rows[-1])
    return Comparison(tuple(rows), names, time_limit, stop.is_set())


def _answers(
    problem: Problem,
    size: Size | None,
    engines: Sequence[str],
    time_limit: float | None,
    max_pairs: Mapping[str, int],
    stop: threading.Event,
    watcher: Watcher,
) -> Iterator[Answer]:
    for name in engines:
        if stop.is_set():
            return
        most = max_pairs.get(name)
        if most is not None and (size is None or not size.exact or size.pairs > most):
            more = size is None or size.pairs > most
            known = "more than" if more else "groups too large to list, not known to have at most"
            yield Answer(name, declined=f"not asked: {known} {grouped(most)} pairs")
            continue
        if problem.objective.minimize not in ENGINES[name].objectives:
            yield Answer(name, declined="not supported: the objective")
            continue
        watcher.starting(problem, name)
        yield _answer(problem, name, Control(time_limit, interrupted=stop))


def _answer(problem: Problem, engine: str, control: Control) -> Answer:
    try:
        return Answer(engine, optimize(problem, engine, control=control))
    except UnsupportedProblem as error:
        return Answer(engine, declined=f"not supported: {error}")
    except Exception as error:  # a wrong or crashing engine must not cost the answers of the others
        return Answer(engine, failure=error)
