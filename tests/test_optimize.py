"""Choosing an engine, and not believing it."""

from __future__ import annotations

import threading
from dataclasses import replace
from fractions import Fraction

import pytest

from exactile.formulation.core import evaluate
from exactile.formulation.cost import Traffic
from exactile.formulation.faults import InputError
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Objective
from exactile.formulation.quantity_text import grouped
from exactile.solver import engines
from exactile.solver import verify as verify_module
from exactile.solver.engine import Control, UnsupportedProblem
from exactile.solver.engines import ENGINES, choose
from exactile.solver.mmee.size import space_size
from exactile.solver.optimize import optimize
from exactile.solver.replay import replay
from exactile.solver.verify import VerificationError, verify
from hand_made import attention, fused, machine, problem, unfused

pytestmark = pytest.mark.usefixtures("fakes")


def test_a_right_answer_is_verified_and_returned() -> None:
    solution = optimize(problem(), "honest")
    assert solution.status == "optimal" and solution.mapping == fused()
    assert solution.cost == evaluate(attention(), machine(), fused())
    assert solution.value == solution.bound and solution.gap == 0.0
    assert (solution.verified.legal, solution.verified.rescored, solution.verified.replayed) == (
        True,
        True,
        True,
    )
    assert solution.proof == "fake" and len(solution.trace) == 1
    assert set(solution.seconds) == {"total", "load", "search", "verify"}


def test_the_replay_can_be_left_out() -> None:
    assert not optimize(problem(), "honest", replay=False).verified.replayed


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("too_optimistic", "energy: too_optimistic claims the optimum"),
        ("too_pessimistic", "energy: too_pessimistic claims the bound"),
        ("boundless", "claims the optimum None"),
        ("illegal", "the mapping found is not legal"),
        ("empty_handed", "reports optimal but returns no mapping"),
        ("speechless", "reports infeasible without a reason"),
    ],
)
def test_a_wrong_answer_is_a_bug(engine: str, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        optimize(problem(), engine)


def test_an_upper_bound_that_the_answer_breaks_is_a_bug() -> None:
    limited = replace(problem(), objective=Objective("energy", subject_to={"latency": Fraction(1)}))
    with pytest.raises(VerificationError, match="latency: the mapping found has 156660, the limit is 1"):
        optimize(limited, "honest")


def test_infeasible_comes_with_its_reason() -> None:
    solution = optimize(problem(), "infeasible")
    assert solution.status == "infeasible" and solution.mapping is None and solution.value is None
    assert solution.reason is not None and solution.reason.startswith("GLB")


def test_what_an_engine_cannot_search_is_said() -> None:
    with pytest.raises(UnsupportedProblem, match="three contractions"):
        optimize(problem(), "unsupported")


def test_the_time_limit_returns_the_best_so_far_with_its_gap() -> None:
    solution = optimize(problem(), "patient", time_limit=0.05)
    assert solution.status == "feasible" and solution.gap == 0.5 and not solution.interrupted


def test_stopping_returns_the_best_so_far() -> None:
    control = Control()
    threading.Timer(0.05, control.stop).start()
    solution = optimize(problem(), "patient", control=control)
    assert solution.status == "feasible" and solution.interrupted


def test_unknown_engines_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown engine 'mmme'; did you mean 'mmee'"):
        choose(problem(), "mmme")


def test_auto_enumerates_what_it_counts_as_small() -> None:
    choice = choose(problem("dram_traffic"))
    assert choice.facts.name == "mmee"
    assert choice.why.startswith("auto: ") and "pairs, few enough to enumerate (at most 10^9)" in choice.why
    assert choose(problem(), "mmee").why == "as asked"


def test_auto_solves_what_is_too_large_to_enumerate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is moved instead of the problem: the choice must follow the count, and tell it."""
    pairs = space_size(problem()).pairs
    monkeypatch.setattr(engines, "MOST_PAIRS", pairs)
    assert choose(problem()).facts.name == "mmee"
    monkeypatch.setattr(engines, "MOST_PAIRS", pairs - 1)
    choice = choose(problem())
    assert choice.facts.name == "honest" and grouped(pairs) in choice.why and "too many" in choice.why


def test_auto_solves_what_cannot_be_enumerated() -> None:
    between = replace(problem(), mapspace=replace(problem().mapspace, between_groups=True))
    choice = choose(between)
    assert choice.facts.name == "honest" and "does not keep tensors on chip between groups" in choice.why


def test_auto_enumerates_if_nothing_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name, facts in ENGINES.items() if facts.counter is None]:
        monkeypatch.delitem(ENGINES, name)
    monkeypatch.setattr(engines, "MOST_PAIRS", 1)
    choice = choose(problem())
    assert choice.facts.name == "mmee" and "no engine is there that solves" in choice.why


@pytest.mark.parametrize("mapping", [fused(), unfused()])
def test_a_right_mapping_passes(mapping: Mapping) -> None:
    cost, verified = verify(problem(), mapping)
    assert cost == evaluate(attention(), machine(), mapping) and verified.replayed


@pytest.mark.parametrize("field", ["traffic", "peak", "executions", "cycles"])
def test_every_count_is_compared(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that observes one count differently stops the answer, and the message names the count."""

    def off_by_one(*args: object, **kwargs: object) -> object:
        observed = replay(*args, **kwargs)  # type: ignore[arg-type]
        first, *rest = observed.groups
        counts = dict(getattr(first, field))
        key = next(iter(counts))
        counts[key] = counts[key] + (Traffic(0, 1) if field == "traffic" else 1)
        return replace(observed, groups=(replace(first, **{field: counts}), *rest))

    monkeypatch.setattr(verify_module, "run", off_by_one)
    with pytest.raises(VerificationError, match=r"in group 1 .*: the core counts \d+.*, the replay \d+"):
        verify(problem(), fused())
