"""HiGHS through PuLP: warm start, stop button, incumbents as they come, and the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import highspy
import pulp  # type: ignore[import-untyped]

from exactile.solver.milp.solved import Solved, Watch


def solve(
    problem: Any, variables: Sequence[Any], start: Mapping[Any, float], tolerance: float, watch: Watch
) -> Solved:
    """See `SolveProgram`."""
    problem.solve(_Highs(variables, start, tolerance, watch))
    info = problem.solverModel.getInfo()
    bound = info.mip_dual_bound if isfinite(info.mip_dual_bound) else None
    if problem.sol_status == pulp.LpSolutionInfeasible:
        return Solved("infeasible")
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if not feasible or not isfinite(info.objective_function_value):
        return Solved("unknown", None, bound)
    values = [variable.varValue or 0.0 for variable in variables]
    proved = problem.sol_status == pulp.LpSolutionOptimal
    return Solved("optimal" if proved else "feasible", info.objective_function_value, bound, values)


SMALLEST = 1e-12
"""The least coefficient that HiGHS does not take for zero."""


class _Silent(highspy.Highs):
    """HiGHS prints a banner when its constructor enables callbacks, before any option can be set."""

    def enableCallbacks(self) -> None:  # noqa: N802 - HiGHS's name
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]


class _Highs(pulp.HiGHS):  # type: ignore[misc]
    def __init__(
        self, variables: Sequence[Any], start: Mapping[Any, float], tolerance: float, watch: Watch
    ) -> None:
        super().__init__()
        self._variables, self._start, self._tolerance, self._watch = variables, start, tolerance, watch
        self._columns: list[int | None] = []

    def createAndConfigureSolver(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
        lp.solverModel = solver = _Silent()  # type: ignore[no-untyped-call]
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("small_matrix_value", SMALLEST)
        for option in ("mip_abs_gap", "mip_feasibility_tolerance", "primal_feasibility_tolerance"):
            solver.setOptionValue(option, self._tolerance)
        left = self._watch.control.left
        if left is not None:
            solver.setOptionValue("time_limit", max(0.01, left))

    def callSolver(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
        """What PuLP calls when the model is loaded."""
        solver = lp.solverModel
        # variables in no row are no columns
        self._columns = [getattr(variable, "index", None) for variable in self._variables]
        if self._start:
            indices = [variable.index for variable in self._start]
            solver.setSolution(len(indices), indices, list(self._start.values()))
        for event in (solver.cbMipInterrupt, solver.cbSimplexInterrupt):
            event.subscribe(self._stop)
        solver.cbMipImprovingSolution.subscribe(self._better)
        solver.run()

    def _stop(self, event: Any) -> None:
        if self._watch.control.interrupted.is_set():
            event.interrupt()

    def _better(self, event: Any) -> None:
        found = event.data_out.mip_solution
        values = [0.0 if column is None else float(found[column]) for column in self._columns]
        self._watch.improved(values, event.data_out.mip_dual_bound)
