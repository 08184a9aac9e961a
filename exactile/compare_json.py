"""A comparison as plain data; see docs/json.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from exactile.compare_summary import summary
from exactile.json_output import number, solution_json
from exactile.solver.compare import Comparison, Row
from exactile.solver.compare_statistics import crossovers, ratios
from exactile.version import __version__


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Every answer in the form of `solve`, whether they agree, and how their times compare."""
    return {
        "version": __version__,
        "engines": list(comparison.engines),
        "time_limit": comparison.time_limit,
        "interrupted": comparison.interrupted,
        "agree": comparison.agree,
        "compared": comparison.compared,
        "summary": summary(comparison),
        "contradictions": comparison.contradictions,
        "failures": [
            {"problem": p.name, "engine": a.engine, "reason": a.reason} for p, a in comparison.failures
        ],
        "ratios": [asdict(ratio) for ratio in ratios(comparison)],
        "crossovers": [asdict(crossover) for crossover in crossovers(comparison)],
        "problems": [_problem(row) for row in comparison.rows],
        "results": [solution_json(s) for row in comparison.rows for s in row.solutions],
    }


def _problem(row: Row) -> dict[str, Any]:
    best = row.best
    size = row.size
    return {
        "problem": row.problem.name,
        "objective": row.problem.objective.minimize,
        "tile_sizes": row.problem.mapspace.tile_sizes,
        "structures": None if size is None else size.structures,
        "tilings": None if size is None else size.tilings,
        "pairs": None if size is None else size.pairs,
        "pairs_exact": None if size is None else size.exact,
        "groups_unlisted": None if size is None else size.unlisted,
        "best": None if best is None or best.value is None else number(best.value),
        "proved_by": [answer.engine for answer in row.proved],
        "fastest": None if row.fastest is None else row.fastest.engine,
        "declined": {a.engine: a.declined for a in row.answers if a.declined is not None},
    }
