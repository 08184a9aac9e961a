"""The answer to a problem: a verified mapping, its exact cost, and what is proved about it."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from fractions import Fraction

from exactile.formulation.cost import Cost
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.solver.engine import Space, Status, TracePoint


@dataclass(frozen=True, slots=True)
class Verified:
    """Which independent checks the answer passed. `replayed` is false if the replay was not run."""

    legal: bool = False
    rescored: bool = False
    replayed: bool = False


@dataclass(frozen=True)
class Solution:
    """What `optimize` returns.

    `value` and `bound` are exact, in the base unit of the objective. `proof` names who proved the
    bound. `reason` explains an infeasible problem in a sentence, `choice` why this engine was taken,
    `certificate` what came of a second proof, if one was asked for.
    """

    problem: Problem
    engine: str
    status: Status
    mapping: Mapping | None = None
    cost: Cost | None = None
    bound: Fraction | None = None
    proof: str = "none"
    reason: str | None = None
    interrupted: bool = False
    seconds: Map[str, float] = field(default_factory=dict)
    trace: tuple[TracePoint, ...] = ()
    space: Space = field(default_factory=Space)
    verified: Verified = field(default_factory=Verified)
    choice: str = "as asked"
    certificate: str | None = None

    @property
    def value(self) -> Fraction | None:
        """The objective of the mapping, or `None` without one."""
        return None if self.cost is None else self.cost.quantity(self.problem.objective.minimize)

    @property
    def proved(self) -> bool:
        """Whether nothing is left open: the optimum, or that there is no mapping."""
        return self.status in ("optimal", "infeasible")

    @property
    def gap(self) -> float | None:
        """`(value − bound) / value`, or `None` without a bound or a value."""
        if self.value is None or self.bound is None:
            return None
        return 0.0 if self.value == 0 else float((self.value - self.bound) / self.value)

    def render(self) -> str:
        """The loop trees with trip counts, tile shapes and sizes; empty without a mapping."""
        if self.mapping is None:
            return ""
        from exactile.formulation.mapping_text import draw, plain

        return plain(draw(self.mapping, self.problem.cascade, self.problem.hardware))
