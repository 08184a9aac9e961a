"""HiGHS through PuLP: warm start, stop button, incumbents as they come, and the bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import highspy
import pulp  # type: ignore[import-untyped]

from exactile.solver.engine import Control

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Improved = Callable[[float, float], None]
"""Called with the value and the bound of a better solution, in units of the objective."""

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Solved:
    """`values` of the variables asked for (`None` without a solution), `bound` in units of the objective."""

    status: Status
    value: float | None = None
    bound: float | None = None
    values: Sequence[float] | None = None


def solve(
    problem: Any,
    variables: Sequence[Any],
    start: Sequence[float] | None,
    control: Control,
    improved: Improved,
) -> Solved:
    """Solve a PuLP problem from the values `start`, within the time and until the button of `control`."""
    problem.solve(_Highs(variables, start, control, improved))
    solver = problem.solverModel
    info = solver.getInfo()
    bound = info.mip_dual_bound if isfinite(info.mip_dual_bound) else None
    if problem.sol_status == pulp.LpSolutionInfeasible:
        return Solved("infeasible")
    if info.primal_solution_status != _FEASIBLE or not isfinite(info.objective_function_value):
        return Solved("unknown", None, bound)
    values = [variable.varValue or 0.0 for variable in variables]
    proved = problem.sol_status == pulp.LpSolutionOptimal
    return Solved("optimal" if proved else "feasible", info.objective_function_value, bound, values)


_FEASIBLE = 2
"""HiGHS: a feasible point is known."""


class _Silent(highspy.Highs):
    """HiGHS prints a banner as soon as callbacks are enabled, before any option can be set otherwise."""

    def enableCallbacks(self) -> None:  # noqa: N802 - HiGHS's name
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]


class _Highs(pulp.HiGHS):  # type: ignore[misc]
    def __init__(
        self, variables: Sequence[Any], start: Sequence[float] | None, control: Control, improved: Improved
    ) -> None:
        super().__init__()
        self._variables, self._start, self._control, self._improved = variables, start, control, improved

    def createAndConfigureSolver(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
        lp.solverModel = solver = _Silent()  # type: ignore[no-untyped-call]
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("mip_rel_gap", 0.0)
        for tolerance in ("mip_abs_gap", "mip_feasibility_tolerance", "primal_feasibility_tolerance"):
            solver.setOptionValue(tolerance, TOLERANCE)
        if self._control.left is not None:
            solver.setOptionValue("time_limit", max(0.01, self._control.left))

    def callSolver(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
        """What PuLP calls when the model is loaded."""
        solver = lp.solverModel
        if self._start is not None:
            known = {id(variable) for variable in lp.variables()}
            pairs = [
                (variable.index, value)
                for variable, value in zip(self._variables, self._start, strict=True)
                if id(variable) in known
            ]
            solver.setSolution(len(pairs), [i for i, _ in pairs], [value for _, value in pairs])
        for event in (solver.cbMipInterrupt, solver.cbSimplexInterrupt):
            event.subscribe(self._stop)
        solver.cbMipImprovingSolution.subscribe(self._better)
        solver.run()

    def _stop(self, event: Any) -> None:
        if self._control.interrupted.is_set():
            event.interrupt()

    def _better(self, event: Any) -> None:
        self._improved(event.data_out.objective_function_value, event.data_out.mip_dual_bound)
