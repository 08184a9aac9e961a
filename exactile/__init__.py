"""Exactile: proved-optimal dataflow for cascades of Einsums on accelerators.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from exactile.version import __version__

if TYPE_CHECKING:
    from exactile.drawing import picture
    from exactile.fate import Fate, fates
    from exactile.faults import LoadError
    from exactile.formulation.cascade import Cascade
    from exactile.formulation.core import evaluate, violations
    from exactile.formulation.cost import Cost
    from exactile.formulation.faults import InputError
    from exactile.formulation.fingerprint import problem_hash
    from exactile.formulation.hardware import Hardware
    from exactile.formulation.mapping import Mapping
    from exactile.formulation.problem import Mapspace, Objective, Problem
    from exactile.load import load_hardware as hardware
    from exactile.load import load_problem, load_problems
    from exactile.load import load_workload as workload
    from exactile.mapping_file import dump_mapping, load_mapping
    from exactile.solver.compare import Comparison, compare
    from exactile.solver.optimize import optimize
    from exactile.solver.solution import Solution
    from exactile.workloads.builders import attention, ffn, mlp, random_cascade, transformer_block

# public name: (module, name there)
_PUBLIC = {
    "Cascade": ("formulation.cascade", "Cascade"),
    "Comparison": ("solver.compare", "Comparison"),
    "Cost": ("formulation.cost", "Cost"),
    "Fate": ("fate", "Fate"),
    "Hardware": ("formulation.hardware", "Hardware"),
    "InputError": ("formulation.faults", "InputError"),
    "LoadError": ("faults", "LoadError"),
    "Mapping": ("formulation.mapping", "Mapping"),
    "Mapspace": ("formulation.problem", "Mapspace"),
    "Objective": ("formulation.problem", "Objective"),
    "Problem": ("formulation.problem", "Problem"),
    "Solution": ("solver.solution", "Solution"),
    "attention": ("workloads.builders", "attention"),
    "compare": ("solver.compare", "compare"),
    "dump_mapping": ("mapping_file", "dump_mapping"),
    "evaluate": ("formulation.core", "evaluate"),
    "fates": ("fate", "fates"),
    "ffn": ("workloads.builders", "ffn"),
    "hardware": ("load", "load_hardware"),
    "load_mapping": ("mapping_file", "load_mapping"),
    "load_problem": ("load", "load_problem"),
    "load_problems": ("load", "load_problems"),
    "mlp": ("workloads.builders", "mlp"),
    "optimize": ("solver.optimize", "optimize"),
    "picture": ("drawing", "picture"),
    "problem_hash": ("formulation.fingerprint", "problem_hash"),
    "random_cascade": ("workloads.builders", "random_cascade"),
    "transformer_block": ("workloads.builders", "transformer_block"),
    "violations": ("formulation.core", "violations"),
    "workload": ("load", "load_workload"),
}

__all__ = [
    "Cascade",
    "Comparison",
    "Cost",
    "Fate",
    "Hardware",
    "InputError",
    "LoadError",
    "Mapping",
    "Mapspace",
    "Objective",
    "Problem",
    "Solution",
    "__version__",
    "attention",
    "compare",
    "dump_mapping",
    "evaluate",
    "fates",
    "ffn",
    "hardware",
    "load_mapping",
    "load_problem",
    "load_problems",
    "mlp",
    "optimize",
    "picture",
    "problem_hash",
    "random_cascade",
    "transformer_block",
    "violations",
    "workload",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'exactile' has no attribute '{name}'")
    module, attribute = _PUBLIC[name]
    value = getattr(import_module(f"exactile.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
