"""What a comparison says about speed: how much faster, and from which size on a solver overtakes."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log
from statistics import fmean

from exactile.solver.compare import Comparison, Row
from exactile.solver.engines import ENGINES


@dataclass(frozen=True)
class Ratio:
    """`slower` took `factor` times as long as `faster`: geometric mean over `problems` that both proved."""

    slower: str
    faster: str
    factor: float
    problems: int


@dataclass(frozen=True)
class Crossover:
    """Where `solver` overtakes `enumeration`, by pairs.

    `below` is the largest space that still belongs to the enumeration, `above` the least one of the solver;
    `None` if one of them is faster everywhere. Of `problems` compared, `kept` follow this rule.
    """

    enumeration: str
    solver: str
    below: int | None
    above: int | None
    problems: int
    kept: int


def wins(comparison: Comparison) -> dict[str, int]:
    """For every engine the number of problems that it proved before the others."""
    fastest = [row.fastest.engine for row in comparison.rows if row.fastest is not None]
    return {engine: fastest.count(engine) for engine in comparison.engines}


def ratios(comparison: Comparison) -> list[Ratio]:
    """How the search times of every two engines compare where both found a proof."""
    found = []
    for position, one in enumerate(comparison.engines):
        for other in comparison.engines[position + 1 :]:
            times = [(_proof_time(row, one), _proof_time(row, other)) for row in comparison.rows]
            logs = [log(b / a) for a, b in times if a < inf and b < inf]
            if logs:
                mean = fmean(logs)
                slower, faster = (other, one) if mean >= 0 else (one, other)
                found.append(Ratio(slower, faster, exp(abs(mean)), len(logs)))
    return found


def crossovers(comparison: Comparison) -> list[Crossover]:
    """For every engine that enumerates and every one that solves, where the second overtakes the first."""
    enumerating = [name for name in comparison.engines if ENGINES[name].counter is not None]
    solving = [name for name in comparison.engines if ENGINES[name].counter is None]
    found = [_crossover(comparison, a, b) for a in enumerating for b in solving]
    return [crossover for crossover in found if crossover is not None]


def _crossover(comparison: Comparison, enumeration: str, solver: str) -> Crossover | None:
    """The size that separates best: enumeration faster up to it, the solver beyond."""
    races = []
    for row in comparison.rows:
        a, b = _proof_time(row, enumeration), _proof_time(row, solver)
        if row.size is not None and row.size.exact and a != b and _both_asked(row, enumeration, solver):
            races.append((row.size.pairs, b < a))
    if not races:
        return None
    sizes = sorted({pairs for pairs, _ in races})
    cuts: list[int | None] = [None, *sizes]
    kept = [sum((cut is None or pairs > cut) == overtaken for pairs, overtaken in races) for cut in cuts]
    best = max(range(len(cuts)), key=lambda position: kept[position])
    above = sizes[best] if best < len(sizes) else None
    return Crossover(enumeration, solver, cuts[best], above, len(races), kept[best])


def _both_asked(row: Row, *engines: str) -> bool:
    """Both searched: an engine that ran out of time has lost, one that was not asked has not."""
    answers = [row.answer(engine) for engine in engines]
    return all(answer is not None and answer.solution is not None for answer in answers)


def _proof_time(row: Row, engine: str) -> float:
    """Seconds until the proof; infinite without one."""
    answer = row.answer(engine)
    if answer is None or not answer.proved or answer.seconds is None:
        return inf
    return answer.seconds
