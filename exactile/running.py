"""Running a search so that Ctrl-C stops it gently and a terminal shows its progress.

Solver libraries block the thread they run in, and a Python signal handler runs only in the main
thread. So the search runs in a worker, and the main thread waits.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Map
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from exactile.formulation.problem import Problem
from exactile.formulation.quantity_text import grouped
from exactile.solver.compare import Comparison, Watcher
from exactile.solver.compare import compare as run_comparison
from exactile.solver.engine import Control, TracePoint

if TYPE_CHECKING:
    from rich.status import Status

    from exactile.solver.solution import Solution

Result = TypeVar("Result")

_POLL_SECONDS = 0.1
_SHOW_CURSOR = "\x1b[?25h"


def solve(problem: Problem, engine: str, time_limit: float | None, *, certify: bool = False) -> Solution:
    """`optimize`, stopped by the first Ctrl-C (the best mapping so far comes back), killed by the second."""
    from exactile.solver.optimize import optimize

    with _progress(problem) as progress:
        control = Control(time_limit, progress)
        return _in_worker(lambda: optimize(problem, engine, certify=certify, control=control), control.stop)


def compare(
    problems: Sequence[Problem],
    engines: Sequence[str] | None,
    time_limit: float,
    *,
    max_pairs: Map[str, int] | None = None,
    watcher: Watcher | None = None,
) -> Comparison:
    """`solver.compare`, ended by the first Ctrl-C with the answers so far, killed by the second.

    Without a `watcher` of the caller's a terminal shows where it is.
    """
    interrupted = threading.Event()
    with _watching(len(problems)) if watcher is None else nullcontext(watcher) as told:
        return _in_worker(
            lambda: run_comparison(
                problems, engines, time_limit, max_pairs=max_pairs, interrupted=interrupted, watcher=told
            ),
            interrupted.set,
        )


def _in_worker(work: Callable[[], Result], stop: Callable[[], None]) -> Result:
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    def interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if sys.stderr.isatty():
            sys.stderr.write(_SHOW_CURSOR)  # the progress display hides it, and a second Ctrl-C kills at once
            sys.stderr.flush()
        stop()

    thread = threading.Thread(target=run, name="search", daemon=True)
    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
    finally:
        signal.signal(signal.SIGINT, previous)
    if errors:
        raise errors[0]
    return results[0]


@contextmanager
def _progress(problem: Problem) -> Iterator[Callable[[TracePoint], None] | None]:
    """A line on standard error with the best value and bound so far, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    name = problem.objective.minimize
    with Console(stderr=True).status(f"searching for the least {name} …") as status:

        def show(point: TracePoint) -> None:
            best = "none" if point.incumbent is None else grouped(point.incumbent)
            bound = "none" if point.bound is None else grouped(point.bound)
            status.update(f"{name}: best {best}, bound {bound}, {point.seconds:.1f} s (Ctrl-C stops)")

        yield show


@contextmanager
def _watching(problems: int) -> Iterator[Watcher | None]:
    """A line on standard error that says which engine is searching what, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("comparing …") as status:
        yield _Shown(problems, status)


class _Shown(Watcher):
    """Shows where a comparison is."""

    def __init__(self, problems: int, status: Status) -> None:
        self.problems, self.status = problems, status
        self.seen: list[Problem] = []

    def starting(self, problem: Problem, engine: str) -> None:
        if not self.seen or self.seen[-1] is not problem:
            self.seen.append(problem)
        place = f"{len(self.seen)} of {self.problems}"
        self.status.update(f"{place}: {engine} on {problem.name} (Ctrl-C ends with what is there)")
