"""What a solver of linear programs is to a session: a function, chosen by what is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from exactile.solver.engine import Control


@dataclass(frozen=True)
class Solved:
    """`values` of the variables asked for (`None` without a solution), `bound` in units of the objective."""

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    value: float | None = None
    bound: float | None = None
    values: Sequence[float] | None = None


@dataclass(frozen=True)
class Watch:
    """Time and stop button of a running solve; `improved(values, bound)` hears of every better solution."""

    control: Control
    improved: Callable[[Sequence[float], float], None]


class SolveProgram(Protocol):
    """Solves a PuLP problem, from the values in `start`, within the time and until the button of the watch.

    `variables` are those whose values are wanted, `tolerance` is how far a solution may miss a row or a
    whole number.
    """

    def __call__(
        self,
        problem: Any,
        variables: Sequence[Any],
        start: Mapping[Any, float],
        tolerance: float,
        watch: Watch,
    ) -> Solved: ...


def installed() -> SolveProgram:
    """HiGHS, or without it CBC, which PuLP ships."""
    name = "highs" if importlib.util.find_spec("highspy") else "cbc"
    return cast(SolveProgram, importlib.import_module(f"exactile.solver.milp.{name}").solve)
