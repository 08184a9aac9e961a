"""Several engines on one problem: what counts as agreement, as a contradiction, as nothing to compare."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from fractions import Fraction

import pytest

from exactile import load_problem
from exactile.compare_summary import summary
from exactile.formulation.faults import InputError
from exactile.formulation.problem import Objective, Problem
from exactile.solver.compare import Answer, Comparison, Row, Watcher, compare
from exactile.solver.compare_statistics import crossovers, ratios, wins
from exactile.solver.engine import Size
from exactile.solver.engines import ENGINES
from exactile.solver.mmee.size import space_size
from exactile.solver.optimize import optimize
from exactile.solver.solution import Solution
from exactile.solver.verify import VerificationError
from hand_made import problem

pytestmark = pytest.mark.usefixtures("fakes")


def asked(*engines: str, limit: float = 0.05) -> Comparison:
    return compare([problem()], engines, limit)


def test_two_proofs_of_the_same_optimum_agree() -> None:
    found = asked("honest", "second")
    assert found.agree is True and found.compared == 2 and not found.contradictions
    assert found.rows[0].best is not None and found.rows[0].best.proof in ("fake", "second")
    assert found.rows[0].size == space_size(problem())


def test_one_proof_agrees_with_nobody() -> None:
    found = asked("honest", "patient", "unsupported")
    assert found.agree is None and found.compared == 0
    assert [answer.proved for answer in found.rows[0].answers] == [True, False, False]


def test_an_unfinished_engine_is_compared_by_its_bound_only() -> None:
    """`patient` has half the optimum as its bound and the optimal mapping, which contradicts nobody."""
    assert asked("honest", "second", "patient").agree is True


@pytest.mark.parametrize(
    ("engine", "sentence"),
    [
        ("slack", "slack proves that no energy is below .* but honest has a verified mapping with energy"),
        ("infeasible", "infeasible proves that there is no mapping, but honest has a verified mapping"),
    ],
)
def test_a_claim_that_another_mapping_refutes_is_a_contradiction(engine: str, sentence: str) -> None:
    found = asked("honest", engine)
    assert found.agree is False and len(found.contradictions) == 1
    assert re.search(sentence, found.contradictions[0])
    assert summary(found)[0].startswith("WRONG ANSWERS: 1 claim")


def test_bounds_in_floating_point_may_be_off_by_their_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    worse, best = (optimize(problem(), name).value for name in ("slack", "honest"))
    assert worse is not None and best is not None
    for room, contradicted in ((float(worse / best), False), (1 + float(worse / best - 1) / 2, True)):
        monkeypatch.setitem(ENGINES, "slack", replace(ENGINES["slack"], tolerance=room - 1))
        assert bool(asked("honest", "slack").contradictions) is contradicted


@pytest.mark.parametrize(
    ("engine", "error"), [("broken", ZeroDivisionError), ("too_optimistic", VerificationError)]
)
def test_a_failing_engine_does_not_cost_the_other_answers(engine: str, error: type[Exception]) -> None:
    found = asked(engine, "honest")
    (_, answer), *rest = found.failures
    assert not rest and answer.engine == engine and isinstance(answer.failure, error)
    assert found.rows[0].best is not None


def test_what_an_engine_cannot_search_is_a_row() -> None:
    (answer,) = asked("unsupported").rows[0].answers
    assert answer.declined == "not supported: the engine fake cannot search chains of three contractions"


def test_an_engine_is_spared_what_is_too_large_for_it() -> None:
    pairs = space_size(problem()).pairs
    for most, spared in ((pairs, False), (pairs - 1, True)):
        found = compare([problem()], ["honest", "second"], max_pairs={"second": most})
        answer = found.rows[0].answer("second")
        assert answer is not None and (answer.declined is not None) is spared


def test_without_a_choice_all_registered_engines_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "honest", "second")
    assert compare([problem()]).engines == ("honest", "second")


def test_unknown_engines_and_problems_with_faults_are_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="did you mean 'honest'"):
        compare([problem()], ["broken", "honst"])
    with pytest.raises(InputError, match="attention"):
        compare([problem(), replace(problem(), objective=Objective("fame"))], ["broken"])


def test_stopping_keeps_the_answers_so_far() -> None:
    stop = threading.Event()

    class Impatient(Watcher):
        def answered(self, problem: Problem, size: Size | None, answer: Answer) -> None:
            stop.set()

    found = compare([problem(), problem()], ["honest", "second"], interrupted=stop, watcher=Impatient())
    assert found.interrupted and len(found.rows) == 1
    assert [answer.engine for answer in found.rows[0].answers] == ["honest"]


def test_the_real_engine_agrees_with_itself() -> None:
    found = compare([load_problem("crosscheck-h12-512")], ["mmee", "real"], 60)
    assert found.agree is True and found.rows[0].best is not None
    assert found.rows[0].best.value == 1_611_399_168


# speed


def searched(engine: str, seconds: float, *, proved: bool = True) -> Answer:
    status = "optimal" if proved else "unknown"
    return Answer(engine, Solution(problem(), engine, status, seconds={"search": seconds}))


def raced(*races: tuple[int, float | None, float | None]) -> Comparison:
    """Rows of `(pairs, seconds of mmee, seconds of honest)`; `None` is a search that ran out of time."""
    rows = []
    for pairs, one, other in races:
        answers = [
            searched(name, 60.0 if time is None else time, proved=time is not None)
            for name, time in (("mmee", one), ("honest", other))
        ]
        rows.append(Row(problem(), Size(1, pairs, pairs), tuple(answers)))
    return Comparison(tuple(rows), ("mmee", "honest"), 60.0)


def test_ratios_are_geometric_means_over_what_both_proved() -> None:
    (ratio,) = ratios(raced((10, 1.0, 2.0), (20, 1.0, 8.0), (30, None, 1.0)))
    assert (ratio.slower, ratio.faster, ratio.problems) == ("honest", "mmee", 2)
    assert ratio.factor == pytest.approx(4.0)
    assert not ratios(raced((10, None, 2.0)))


def test_the_first_proof_wins() -> None:
    assert wins(raced((10, 1.0, 2.0), (20, None, 8.0), (30, None, None))) == {"mmee": 1, "honest": 1}


@pytest.mark.parametrize(
    ("races", "below", "above", "kept"),
    [
        (((10, 1.0, 2.0), (20, 1.0, 2.0), (30, 3.0, 2.0), (40, None, 2.0)), 20, 30, 4),
        (((10, 1.0, 2.0), (20, 1.0, None)), 20, None, 2),
        (((10, 2.0, 1.0), (20, 2.0, 1.0)), None, 10, 2),
        (((10, 1.0, 2.0), (20, 2.0, 1.0), (30, 1.0, 2.0), (35, 1.0, 2.0), (40, 3.0, 1.0)), 35, 40, 4),
        (((10, None, None), (20, 1.0, 2.0)), 20, None, 1),
    ],
)
def test_where_the_solver_overtakes(
    races: tuple[tuple[int, float | None, float | None], ...], below: int | None, above: int | None, kept: int
) -> None:
    (found,) = crossovers(raced(*races))
    assert (found.enumeration, found.solver) == ("mmee", "honest")
    assert (found.below, found.above, found.kept) == (below, above, kept)


# a second proof


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """The registry holds these engines and no other."""
    kept = {name: ENGINES[name] for name in names}
    for name in list(ENGINES):
        monkeypatch.delitem(ENGINES, name)
    for name, facts in kept.items():
        monkeypatch.setitem(ENGINES, name, facts)


def certified(monkeypatch: pytest.MonkeyPatch, *engines: str) -> Solution:
    """The answer of the first engine, certified by what else is registered."""
    only(monkeypatch, *engines)
    return optimize(problem(), engines[0], 0.2, certify=True)


def test_a_second_proof_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    solution = certified(monkeypatch, "honest", "unsupported", "second")
    assert solution.proof == "fake + second" and solution.status == "optimal"
    assert solution.certificate is not None and solution.certificate.startswith("confirmed by second in ")
    assert solution.seconds["total"] >= solution.seconds["certify"] > 0


def test_exact_engines_confirm_before_those_in_floating_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "slack", replace(ENGINES["slack"], tolerance=1e-6))
    assert certified(monkeypatch, "honest", "slack", "second").proof == "fake + second"


def test_a_second_engine_that_contradicts_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VerificationError, match="infeasible proves that there is no mapping, but honest"):
        certified(monkeypatch, "honest", "infeasible")


def test_without_time_for_a_second_proof_the_first_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    solution = certified(monkeypatch, "honest", "patient")
    assert solution.proof == "fake" and solution.status == "optimal"
    assert solution.certificate == "not certified: patient did not finish in the time that was left"


@pytest.mark.parametrize(
    ("engines", "why"),
    [
        (("honest",), "no other engine is there"),
        (("honest", "unsupported"), "unsupported: the engine fake cannot search chains of three"),
        (("patient", "honest"), "there is no proof yet"),
    ],
)
def test_what_cannot_be_certified_says_why(
    monkeypatch: pytest.MonkeyPatch, engines: tuple[str, ...], why: str
) -> None:
    solution = certified(monkeypatch, *engines)
    assert solution.certificate is not None and f"not certified: {why}" in solution.certificate
    assert "+" not in solution.proof


def test_certificates_are_not_asked_for_by_themselves() -> None:
    solution = optimize(problem(), "honest")
    assert solution.certificate is None and "certify" not in solution.seconds
    assert solution.value == Fraction(solution.bound or 0)
