"""Whether answers of several engines to one problem can all be true.

Each answer has been verified: its mapping is legal and costs what it says. What remains open is what an
engine claims about *other* mappings: that none is below its bound, or that there is none at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from exactile.formulation.quantity_text import grouped
from exactile.solver.engines import ENGINES
from exactile.solver.solution import Solution


def contradictions(solutions: Sequence[Solution]) -> list[str]:
    """A sentence for each claim that a verified mapping of another engine refutes; a bug of Exactile.

    Two proved optima that differ are such a case: the greater one is a bound above the other's mapping.
    Bounds of an engine in floating point may be off by its `tolerance`.
    """
    found = []
    for claimant in solutions:
        for witness in solutions:
            if witness.value is None or witness is claimant:
                continue
            have = f"{witness.engine} has a verified mapping with {_spoken(witness)} {grouped(witness.value)}"
            name = claimant.problem.name
            if claimant.status == "infeasible":
                found.append(f"{name}: {claimant.engine} proves that there is no mapping, but {have}")
            elif claimant.bound is not None and claimant.bound > witness.value * _room(claimant.engine):
                bound = f"{_spoken(claimant)} is below {grouped(claimant.bound)}"
                found.append(f"{name}: {claimant.engine} proves that no {bound}, but {have}")
    return found


def _room(engine: str) -> Fraction:
    facts = ENGINES.get(engine)
    return Fraction(1) + (Fraction(facts.tolerance) if facts is not None else 0)


def _spoken(solution: Solution) -> str:
    return solution.problem.objective.minimize.replace("_", " ")
