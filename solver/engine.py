"""What an engine is: a function from a problem to the best mapping it found and what it proved.

An engine returns data. It never verifies itself: `solver.run` rescores and replays its answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Protocol

from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.formulation.quantity_text import grouped

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True, slots=True)
class TracePoint:
    """Seconds since the start of the search, best value so far, proved bound so far."""

    seconds: float
    incumbent: Fraction | None
    bound: Fraction | None


@dataclass(frozen=True, slots=True)
class Space:
    """Size of the searched space: structures, tilings, and (structure, tiling) pairs scored.

    Of the `groups` that could be fused, `unlisted` were too large to list: only bounds stand for
    them.
    """

    structures: int = 0
    tilings: int = 0
    evaluated: int = 0
    groups: int = 0
    unlisted: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a mapspace, counted without searching it.

    `structures` of all groups together, `tilings` of the largest group, and `pairs`: structures × tilings
    group by group, summed. Not `complete`: counting ended early, the numbers are lower bounds. Of the
    `groups` that could be fused, the structures of `unlisted` were too many to list; for them lower bounds
    are counted.
    """

    structures: int
    tilings: int
    pairs: int
    complete: bool = True
    groups: int = 0
    unlisted: int = 0

    @property
    def exact(self) -> bool:
        """Whether the numbers are no lower bounds."""
        return self.complete and not self.unlisted

    @property
    def left_out(self) -> str:
        """How many groups were too large to list; empty if none was."""
        return f"{self.unlisted} of {self.groups} groups too large to list" if self.unlisted else ""

    def __str__(self) -> str:
        if not self.exact:
            left_out = f" ({self.left_out})" if self.left_out else ""
            return f"at least {magnitude(self.pairs)} pairs{left_out}"
        structures, tilings, pairs = map(grouped, (self.structures, self.tilings, self.pairs))
        if self.structures * self.tilings == self.pairs:
            return f"{structures} structures × {tilings} tilings = {pairs} pairs"
        return f"{structures} structures, each with up to {tilings} tilings: {pairs} pairs"


def magnitude(number: int) -> str:
    """A number in full up to nine digits, beyond that its first two digits, rounded down."""
    digits = str(number)
    return grouped(number) if len(digits) <= 9 else f"{digits[0]}.{digits[1]}e{len(digits) - 1}"


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """The search was asked to end inside a piece of work that has no result of its own yet."""


class Control:
    """A time limit and a stop button, shared by the caller and a running search.

    `stopped` turns true when the limit is over or `stop()` was called (Ctrl-C); a search looks at it
    between blocks of work and returns what it has. `progress`, if given, receives trace points. Searches
    that one press of the button shall end share one event `interrupted`.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        progress: Callable[[TracePoint], None] | None = None,
        interrupted: threading.Event | None = None,
    ) -> None:
        self.start = time.monotonic()
        self.deadline = None if time_limit is None else self.start + time_limit
        self.interrupted = interrupted or threading.Event()
        self.trace: list[TracePoint] = []
        self._progress = progress

    @property
    def seconds(self) -> float:
        """Seconds since the search started."""
        return time.monotonic() - self.start

    @property
    def stopped(self) -> bool:
        return self.interrupted.is_set() or (self.deadline is not None and time.monotonic() >= self.deadline)

    @property
    def left(self) -> float | None:
        """Seconds until the limit, never negative; `None` without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def rest(self) -> Control:
        """A control for one more search, in the time that is left and with the same stop button."""
        return Control(self.left, self._progress, self.interrupted)

    def share(self, parts: int) -> Control:
        """A control for preparations: a part of the time that is left, the same stop button, no progress."""
        return Control(None if self.left is None else self.left / parts, None, self.interrupted)

    def stop(self) -> None:
        """Ask the search to return its best answer soon. Safe to call from a signal handler."""
        self.interrupted.set()

    def checkpoint(self) -> None:
        """Raise `Stopped` if the search should end; called between pieces of long work."""
        if self.stopped:
            raise Stopped

    def report(self, incumbent: Fraction | None, bound: Fraction | None) -> None:
        """Record a new incumbent or bound."""
        point = TracePoint(self.seconds, incumbent, bound)
        self.trace.append(point)
        if self._progress is not None:
            self._progress(point)


@dataclass(frozen=True)
class Outcome:
    """What an engine claims. `bound` is a valid lower bound of the objective, `proof` whose it is."""

    status: Status
    mapping: Mapping | None = None
    bound: Fraction | None = None
    proof: str = "none"
    reason: str | None = None
    space: Space = field(default_factory=Space)


class Engine(Protocol):
    """A search. Raises `UnsupportedProblem` if the problem is outside what it can search."""

    name: str

    def __call__(self, problem: Problem, control: Control) -> Outcome: ...


class UnsupportedProblem(ValueError):  # noqa: N818 - a fact about the problem, not a failure
    """The engine cannot search this problem; the message says why and what can."""
