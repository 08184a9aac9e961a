"""The JSON of `solve` and `check`. Integers stay exact; see docs/json.md."""

from __future__ import annotations

import json
from collections.abc import Mapping as Map
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from exactile.fate import Fate, fates
from exactile.formulation.cost import Cost, Traffic
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.report import level_traffic
from exactile.solver.solution import Solution
from exactile.version import __version__

Number = int | float


def number(value: Fraction | int) -> Number:
    """An integer where the value is one, else the nearest float."""
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else float(exact)


def unit(problem: Problem, name: str) -> str:
    """The unit of an objective: bytes, cycles, the machine's energy unit, or their product."""
    energy = problem.hardware.energy_unit
    return {
        "dram_traffic": "B",
        "energy": energy,
        "latency": "cycle",
        "edp": "cycle" if energy == "1" else f"{energy} cycle",
        "operations": "1",
    }[name]


def solution_json(solution: Solution) -> dict[str, Any]:
    """A solution as plain data, with every key also where there is no mapping (then null)."""
    problem = solution.problem
    value = solution.value
    return {
        "version": __version__,
        "problem": problem.name,
        "engine": solution.engine,
        "choice": solution.choice,
        "status": solution.status,
        "interrupted": solution.interrupted,
        "objective": {
            "name": problem.objective.minimize,
            "value": _optional(value),
            "exact": None if value is None else str(value),
            "unit": unit(problem, problem.objective.minimize),
        },
        "bound": _optional(solution.bound),
        "gap": solution.gap,
        "proof": solution.proof,
        "certificate": solution.certificate,
        "reason": solution.reason,
        "seconds": {name: round(seconds, 6) for name, seconds in solution.seconds.items()},
        "trace": [[round(p.seconds, 6), _optional(p.incumbent), _optional(p.bound)] for p in solution.trace],
        "space": asdict(solution.space),
        "cost": None if solution.cost is None else cost_json(problem, solution.cost),
        "fates": fates_json(problem, solution.mapping, solution.cost),
        "verified": {
            "legal": solution.verified.legal,
            "rescored": solution.verified.rescored,
            "replayed": solution.verified.replayed,
        },
        "mapping": None if solution.mapping is None else mapping_json(problem, solution.mapping),
    }


def cost_json(problem: Problem, cost: Cost) -> dict[str, Any]:
    """A cost as plain data; energies in the machine's unit, traffic in values."""
    traffic = {level.name: level_traffic(cost, level.name) for level in problem.hardware.levels}
    return {
        "energy": number(cost.energy),
        "cycles": number(cost.cycles),
        "edp": number(cost.edp),
        "dram_values": cost.dram_values,
        "dram_bytes": number(cost.dram_bytes),
        "operations": number(cost.operations),
        "macs": cost.macs,
        "peak_bytes": {level: number(Fraction(bits, 8)) for level, bits in cost.peak.items()},
        "by_level": {
            name: {
                "energy": number(energy),
                **_traffic(sum(traffic.get(name, {}).values(), Traffic()), name in traffic),
            }
            for name, energy in cost.energy_by_level.items()
        },
        "by_tensor": {
            name: {
                "energy": number(energy),
                "levels": {level: _traffic(moved[name]) for level, moved in traffic.items() if name in moved},
            }
            for name, energy in cost.energy_by_tensor.items()
        },
        "by_einsum": {
            name: {
                "energy": number(energy),
                "executions": sum(group.executions.get(name, 0) for group in cost.groups),
                "corrections": sum(group.corrections.get(name, 0) for group in cost.groups),
            }
            for name, energy in cost.energy_by_einsum.items()
        },
        "by_group": [_numbers(resources) for resources in cost.latency_by_group],
    }


def fates_json(problem: Problem, mapping: Mapping | None, cost: Cost | None) -> list[dict[str, Any]] | None:
    """The fate of every tensor as plain data; `None` without a mapping and its cost."""
    if mapping is None or cost is None:
        return None
    return [_fate(fate) for fate in fates(problem, mapping, cost)]


def mapping_json(problem: Problem, mapping: Mapping) -> Any:
    """The mapping in the form of the mapping file."""
    from exactile.load import mapping_data

    return mapping_data(problem, mapping)


def dumps(data: Any) -> str:
    """JSON text that a person can read."""
    return json.dumps(data, indent=2, ensure_ascii=False)


def _fate(fate: Fate) -> dict[str, Any]:
    return {
        "tensor": fate.tensor,
        "fate": fate.kind,
        "written_in": fate.written_in,
        "fused": list(fate.fused),
        "read_in": list(fate.read_in),
        "shared": [{"group": fetch.group, "readers": list(fetch.readers)} for fetch in fate.shared],
        "overwrites": fate.overwrites,
        "dram": _traffic(fate.moved),
        "dram_bytes": number(fate.dram_bytes),
        "saved_bytes": number(fate.saved_bytes),
        "saved_energy": number(fate.saved_energy),
        "extra_operations": number(fate.extra_operations),
    }


def _optional(value: Fraction | None) -> Number | None:
    return None if value is None else number(value)


def _traffic(traffic: Traffic, moves: bool = True) -> dict[str, int]:
    return {"reads": traffic.reads, "writes": traffic.writes} if moves else {}


def _numbers(values: Map[str, Fraction]) -> dict[str, Number]:
    return {name: number(value) for name, value in values.items()}
