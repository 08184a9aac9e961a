"""A CP-SAT model that is solved again and again with other objectives and limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from math import floor

from ortools.sat.python import cp_model

from exactile.formulation.families.build import Formulation
from exactile.formulation.families.model import Lit
from exactile.solver.cpsat.translate import Translation
from exactile.solver.engine import Control
from exactile.solver.exact.session import Answer, Incumbent

PORTFOLIO = ("no_lp", "quick_restart_no_lp", "core_or_no_lp", "objective_lb_search_no_lp")
"""Searches that run first where there are few cores: products of small integers relax badly, so learning
clauses beats linear programs (`bench/cpsat_parameters.py`)."""

_POLL_SECONDS = 0.02


FEW_EINSUMS = 4
"""Up to so many, one solve is as fast as two (`bench/cpsat_starts.py`)."""


class CpSatSession:
    """`limits` and objective of the last solve are taken back before the next.

    The energy of a large cascade is minimised in two steps. What the boundary above the buffer costs at
    least is proved first, without all that happens below. As a lower bound of that part it leaves the units
    little room, and recomputation only where it pays.
    """

    proof = "cpsat"
    tolerance = 0.0

    def __init__(self, formulation: Formulation, *, presolve: bool = True) -> None:
        self.formulation, self.presolve = formulation, presolve
        self._translations: dict[frozenset[str], Translation] = {}
        self._solution: list[int] | None = None
        self._led: set[str] = set()

    def minimize(self, key: str, limits: Mapping[str, int], control: Control, incumbent: Incumbent) -> Answer:
        """The least value of a quantity; see `Session`."""
        if len(self.formulation.decisions.layout.einsums) > FEW_EINSUMS:
            self._lead(key, control)
        if control.stopped:
            return Answer("unknown")  # loading a large model takes seconds
        translation = self._translation(frozenset({key, *limits}), limits)
        if not translation.limit(limits):
            return Answer("infeasible")
        answer = self._solved(translation, key, control, incumbent)
        return _honest(answer, key, limits, translation.beyond)

    def _lead(self, key: str, control: Control) -> None:
        """A lower bound of the part of a quantity that stands for itself, for all later solves."""
        part = self.formulation.costs.parts.get(key)
        if part is None or key in self._led:
            return
        self._led.add(key)
        translation = Translation(self.formulation.model, {key: part})
        answer = self._solved(translation, key, control.share(2), lambda value, bound: None)
        bound = _honest(answer, key, {}, translation.beyond).bound
        if bound is not None:
            self.formulation.costs.raise_part(key, bound)

    def _solved(self, translation: Translation, key: str, control: Control, incumbent: Incumbent) -> Answer:
        translation.target.minimize(translation.quantities[key])
        translation.hint(self._solution)
        solver = cp_model.CpSolver()
        configure(solver, control, presolve=self.presolve)
        status = _solve(solver, translation.target, _Watch(incumbent), control)
        return self._answer(solver, status, translation)

    def _translation(self, keys: frozenset[str], limits: Mapping[str, int]) -> Translation:
        """The model with what these quantities need (others would only slow it down) within the limits."""
        known = self._translations.get(keys)
        if known is None or any(limits.get(key, most + 1) > most for key, most in known.limits.items()):
            quantities = {key: self.formulation.costs.quantities[key] for key in sorted(keys)}
            known = self._translations[keys] = Translation(self.formulation.model, quantities, limits)
        return known

    def _answer(
        self, solver: cp_model.CpSolver, status: cp_model.CpSolverStatus, translation: Translation
    ) -> Answer:
        if status == cp_model.INFEASIBLE:
            return Answer("infeasible")
        if status == cp_model.MODEL_INVALID:
            raise AssertionError("CP-SAT calls the model invalid: " + translation.target.validate())
        # the objective is one variable: its bound in whole numbers, exact beyond 2^53 too
        bound = solver.response_proto.inner_objective_lower_bound
        if status == cp_model.UNKNOWN:
            return Answer("unknown", bound)
        values = [solver.value(variable) for variable in translation.variables]
        self._solution = values

        def holds(literal: Lit) -> bool:
            return bool(values[literal]) if literal > 0 else not values[-literal]

        return Answer("optimal" if status == cp_model.OPTIMAL else "feasible", bound, holds)


def _honest(answer: Answer, key: str, limits: Mapping[str, int], beyond: int | None) -> Answer:
    """What an answer proves if solutions with a quantity of `beyond` or more were not all looked at."""
    if beyond is None or all(limits.get(name, beyond) < beyond for name in {key, *limits}):
        return answer
    if any(most >= beyond for name, most in limits.items() if name != key):
        return replace(answer, status="unknown" if answer.holds is None else "feasible", bound=None)
    if answer.status == "infeasible":
        return Answer("unknown", beyond)
    bound = None if answer.bound is None else min(answer.bound, beyond)
    return replace(answer, status=answer.status if bound == answer.bound else "feasible", bound=bound)


def configure(solver: cp_model.CpSolver, control: Control, *, presolve: bool) -> None:
    """Parameters of every solve.

    `presolve_inclusion_work_limit = 0` switches off the presolve step that certifies wrong optima in
    OR-tools 9.15 (google/or-tools #5293).
    """
    parameters = solver.parameters
    parameters.presolve_inclusion_work_limit = 0
    parameters.catch_sigint_signal = False
    parameters.cp_model_presolve = presolve
    # what presolve finds by probing, symmetries and further rounds costs more time than it saves
    parameters.cp_model_probing_level = 0
    parameters.symmetry_level = 0
    parameters.max_presolve_iterations = 1
    parameters.num_workers = max(2, os.cpu_count() or 1)
    if parameters.num_workers < len(PORTFOLIO):
        parameters.subsolvers.extend(PORTFOLIO)
    if control.deadline is not None:
        parameters.max_time_in_seconds = max(0.01, control.deadline - (control.start + control.seconds))


class _Watch(cp_model.CpSolverSolutionCallback):
    def __init__(self, incumbent: Incumbent) -> None:
        super().__init__()
        self._incumbent = incumbent

    def on_solution_callback(self) -> None:
        # floats: rounded down, by more than they can be off
        bound = floor(self.best_objective_bound * (1 - 1e-12) - 1e-6)
        self._incumbent(round(self.objective_value), bound)


def _solve(
    solver: cp_model.CpSolver, model: cp_model.CpModel, watch: _Watch, control: Control
) -> cp_model.CpSolverStatus:
    """Solve while another thread waits for the stop button."""
    done = threading.Event()

    def stop_when_asked() -> None:
        while not done.wait(_POLL_SECONDS):
            if control.interrupted.is_set():
                solver.stop_search()

    guard = threading.Thread(target=stop_when_asked, daemon=True)
    guard.start()
    try:
        return solver.solve(model, watch)
    finally:
        done.set()
        guard.join()
