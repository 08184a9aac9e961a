"""Writing the CP-SAT model of a problem as a protocol buffer (`.pb`) or as its text (`.pbtxt`)."""

from __future__ import annotations

from pathlib import Path

from exactile.formulation.problem import Problem
from exactile.solver.cpsat.translate import Translation
from exactile.solver.engine import UnsupportedProblem
from exactile.solver.exact.engine import formulations
from exactile.solver.support import require_searchable


def write(problem: Problem, path: Path) -> None:
    """Write the model for the first execution order, its objective in base units.

    Raises `UnsupportedProblem` for energy × latency, which is solved by several models, for a limit that is
    plainly out of reach, and for quantities beyond 64 bits; `OSError` if the file cannot be written.
    """
    require_searchable(problem, "cpsat")
    key, limits = problem.objective.minimize, problem.objective.subject_to
    if "edp" in (key, *limits):
        raise UnsupportedProblem("energy × latency is not linear, so no one model minimises or limits it")
    formulation = next(formulations(problem))
    costs = formulation.costs
    quantities = {name: costs.quantities[name] for name in dict.fromkeys((key, *limits))}
    translation = Translation(formulation.model, quantities)
    if translation.beyond is not None:
        raise UnsupportedProblem("some quantities have more than 64 bits, which the format cannot hold")
    if not translation.limit({name: int(most * costs.space.scale(name)) for name, most in limits.items()}):
        raise UnsupportedProblem("a limit of the objective is out of reach whatever the mapping")
    target = translation.target
    target.minimize(translation.quantities[key])
    target.proto.objective.scaling_factor = 1 / costs.space.scale(key)
    if path.suffix.lower() == ".pbtxt":
        path.write_text(str(target.proto), encoding="utf-8")
    elif not target.export_to_file(str(path)):
        raise OSError(f"{path} cannot be written")
