"""Writing the linear program of a problem as an LP or MPS file."""

from __future__ import annotations

from pathlib import Path

from exactile.formulation.problem import Problem
from exactile.solver.engine import UnsupportedProblem
from exactile.solver.exact.engine import formulations
from exactile.solver.milp.linear_program import LinearProgram
from exactile.solver.milp.translate import translate
from exactile.solver.support import require_searchable


def write(problem: Problem, path: Path) -> None:
    """Write the program for the first execution order, its objective in base units.

    Raises `UnsupportedProblem` for energy × latency, which is solved by several programs.
    """
    require_searchable(problem, "milp")
    key, limits = problem.objective.minimize, problem.objective.subject_to
    if "edp" in (key, *limits):
        raise UnsupportedProblem("energy × latency is not linear, so no one program minimises or limits it")
    formulation = next(iter(formulations(problem)))
    costs = formulation.costs
    quantities = {name: costs.quantities[name] for name in dict.fromkeys((key, *limits))}
    target = LinearProgram(problem.name, translate(formulation.model, quantities.values()), quantities)
    scaled = {name: int(most * costs.space.scale(name) // 1) for name, most in limits.items()}
    if not target.aim(key, scaled):
        raise UnsupportedProblem("a limit of the objective is out of reach whatever the mapping")
    target.price(key, costs.space.scale(key))
    if path.suffix.lower() == ".mps":
        target.problem.writeMPS(str(path))
    else:
        target.problem.writeLP(str(path))
