"""A session: one model in a solver, asked to minimise one of its quantities, again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from exactile.formulation.families.build import Formulation
from exactile.formulation.families.model import Lit
from exactile.solver.engine import Control

Incumbent = Callable[[int, int | None], None]
"""Called with the value and bound of every better solution, in scaled units."""


@dataclass(frozen=True)
class Answer:
    """What a solve proved: `bound` (scaled) is valid whatever the status, `holds` reads the solution."""

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    bound: int | None = None
    holds: Callable[[Lit], bool] | None = None


class Session(Protocol):
    """A loaded model. `tolerance` is the relative error that its optima may have."""

    formulation: Formulation
    tolerance: float

    def minimize(self, key: str, limits: Mapping[str, int], control: Control, incumbent: Incumbent) -> Answer:
        """The least value of quantity `key` under upper limits (scaled); starts from the last solution."""
        ...


class Loader(Protocol):
    """Makes sessions whose proofs are called `proof`: a class of sessions."""

    proof: str

    def __call__(self, formulation: Formulation) -> Session: ...
