"""The CP-SAT model as a file, and CP-SAT's second proof of its own."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from google.protobuf import text_format
from ortools.sat import cp_model_pb2
from ortools.sat.python import cp_model
from two_operator_problems import problem as random_problem

from exactile.formulation.problem import Objective, Problem
from exactile.solver.engine import Control, UnsupportedProblem
from exactile.solver.engines import ENGINES
from exactile.solver.mmee import mmee
from exactile.solver.optimize import optimize
from exactile.solver.write_model import write_model

CHAIN = random_problem(17)
"""Two operators, so one execution order: the model holds every mapping."""


def asked(minimize: str, **limits: Fraction) -> Problem:
    return replace(CHAIN, objective=Objective(minimize, (), limits))


def solved(path: Path) -> float:
    """The optimum of a model in a file, read and solved without Exactile."""
    text = path.read_bytes()
    if path.suffix == ".pb":
        message = cp_model_pb2.CpModelProto()
        message.ParseFromString(text)
        text = text_format.MessageToString(message).encode()
    model = cp_model.CpModel()
    assert model.proto.parse_text_format(text.decode())
    solver = cp_model.CpSolver()
    solver.parameters.presolve_inclusion_work_limit = 0
    assert solver.solve(model) == cp_model.OPTIMAL
    return solver.objective_value


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
@pytest.mark.parametrize("minimize", ["dram_traffic", "energy", "latency"])
def test_the_written_model_has_the_optimum_of_the_problem(minimize: str, suffix: str, tmp_path: Path) -> None:
    one, path = asked(minimize), tmp_path / f"model{suffix}"
    best = mmee(one, Control())
    assert write_model(one, path, "cpsat") == "cpsat"
    assert best.status == "optimal" and best.bound is not None
    assert solved(path) == pytest.approx(float(best.bound), rel=1e-9)


def test_limits_are_in_the_model(tmp_path: Path) -> None:
    """The fastest mapping is no longer allowed, what remains costs more cycles."""
    fastest = mmee(asked("latency"), Control())
    least = mmee(asked("energy"), Control()).bound
    assert least is not None and fastest.bound is not None
    one, path = asked("latency", energy=least), tmp_path / "model.pb"
    best = mmee(one, Control()).bound
    assert best is not None and best > fastest.bound
    write_model(one, path)
    assert solved(path) == pytest.approx(float(best), rel=1e-9)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (asked("edp"), "energy × latency is not linear"),
        (asked("energy", edp=Fraction(1)), "energy × latency is not linear"),
        (asked("energy", energy=Fraction(0)), "out of reach"),
    ],
)
def test_what_no_model_can_say_is_refused(one: Problem, words: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedProblem, match=words):
        write_model(one, tmp_path / "model.pb")
    assert not list(tmp_path.iterdir())


def test_the_second_proof_is_without_presolve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no other engine is there; with one, that is asked first."""
    assert optimize(CHAIN, "cpsat", 60, certify=True).proof == "cpsat + mmee"
    for name in ENGINES.keys() - {"cpsat"}:
        monkeypatch.delitem(ENGINES, name)
    solution = optimize(CHAIN, "cpsat", 60, certify=True)
    assert solution.status == "optimal" and solution.proof == "cpsat + cpsat without presolve"
    assert solution.certificate is not None
    assert solution.certificate.startswith("confirmed by cpsat without presolve in ")


def test_without_presolve_nothing_is_presolved(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    solve = cp_model.CpSolver.solve

    def spied(solver: cp_model.CpSolver, *arguments: object) -> object:
        seen.append(solver.parameters.cp_model_presolve)
        return solve(solver, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cp_model.CpSolver, "solve", spied)
    from exactile.solver.cpsat.engine import cpsat, without_presolve

    assert without_presolve(CHAIN, Control()).proof == "cpsat without presolve"
    assert seen and not any(seen)
    seen.clear()
    assert cpsat(CHAIN, Control()).proof == "cpsat" and all(seen)
