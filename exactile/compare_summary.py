"""What a comparison says to a reader who reads nothing else: sentences, the verdict first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from exactile.compare_text import listed, times
from exactile.formulation.quantity_text import grouped
from exactile.solver.compare import Comparison
from exactile.solver.compare_statistics import Crossover, Ratio, crossovers, ratios, wins


def summary(comparison: Comparison) -> list[str]:
    """Sentences for a reader who reads nothing else, the verdict first."""
    return [
        *_alarms(comparison),
        _verdict(comparison),
        *_fastest(comparison),
        *map(_ratio, ratios(comparison)),
        *map(_crossover, crossovers(comparison)),
        *_declined(comparison),
    ]


def alarms(comparison: Comparison) -> list[str]:
    """Every contradiction and every failure, in a sentence each; empty unless Exactile has a bug."""
    failed = [
        f"{problem.name}: {answer.engine} failed: {answer.reason}" for problem, answer in comparison.failures
    ]
    return [*comparison.contradictions, *failed]


def _alarms(comparison: Comparison) -> Iterator[str]:
    wrong = alarms(comparison)
    if wrong:
        yield (
            f"WRONG ANSWERS: {_count(len(wrong), 'claim')} of an engine cannot be true. This is a bug of "
            "Exactile; please report it with this text."
        )


def _verdict(comparison: Comparison) -> str:
    rows = comparison.rows
    asked = f"{_count(len(rows), 'problem')}, {_count(len(comparison.engines), 'engine')}"
    if comparison.interrupted:
        asked += " (interrupted, what is here is what came before)"
    proved = sum(bool(row.proved) for row in rows)
    twice = sum(len(row.proved) > 1 for row in rows)
    solved = f"{asked}: the best mapping is proved for {grouped(proved)}"
    if comparison.agree is False:
        return f"{solved}, but the engines contradict each other."
    if not twice:
        return f"{solved}, for none by two engines, so there is nothing to compare."
    return f"{solved}, for {grouped(twice)} by two or more engines, and these agree everywhere."


def _fastest(comparison: Comparison) -> Iterator[str]:
    won = {engine: number for engine, number in wins(comparison).items() if number}
    if won and len(comparison.engines) > 1:
        parts = [f"{engine} on {_count(number, 'problem')}" for engine, number in won.items()]
        yield f"The fastest proof came from {listed(parts)}."


def _ratio(ratio: Ratio) -> str:
    over = f"geometric mean over {_count(ratio.problems, 'problem')} that both proved"
    factor = times(ratio.factor)
    if factor == "1.0":
        return f"{ratio.slower} and {ratio.faster} took equally long ({over})."
    return f"{ratio.slower} took {factor} times as long as {ratio.faster} ({over})."


def _crossover(crossover: Crossover) -> str:
    enumeration, solver = crossover.enumeration, crossover.solver
    rule = f"true of {crossover.kept} of {_count(crossover.problems, 'problem')}"
    if crossover.above is None:
        return f"{enumeration} enumerates faster than {solver} solves, up to the largest space here ({rule})."
    if crossover.below is None:
        return f"{solver} solves faster than {enumeration} enumerates, from the smallest space here ({rule})."
    return (
        f"{solver} overtakes {enumeration} between {grouped(crossover.below)} and {grouped(crossover.above)} "
        f"pairs ({rule})."
    )


def _declined(comparison: Comparison) -> Iterator[str]:
    declined = [a.engine for row in comparison.rows for a in row.answers if a.declined is not None]
    for engine, group in groupby(sorted(declined)):
        number = _count(len(list(group)), "problem")
        yield f"{engine} was not asked or cannot search {number}; the table says why."


def _count(number: int, noun: str) -> str:
    return f"{grouped(number)} {noun}{'' if number == 1 else 's'}"
