"""The golden optima as problems of this project: cascades, machines, restrictions, mappings and their scores.

`golden/optima.json` was made by an exhaustive search elsewhere. Its counts are in values and its
latencies in cycles times the DRAM bandwidth; here a value is 8 bits, so bytes equal values, and
latencies are cycles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping as Map
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.problem import Mapspace

OBJECTIVES = {"dram": "dram_traffic", "energy": "energy", "latency": "latency"}
NO_COSTS: Map[str, Any] = {
    "R": 32, "C": 32, "V": 32, "e_dr": 0, "e_dw": 0, "e_gr": 0, "e_gw": 0, "e_mac": 0, "e_ew": 0,
    "ew_cycles": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Instance:
    """One problem with its known optimum.

    `optimum`, `without_recomputation` and `unfused` are in base units (bytes, energy, cycles).
    `mapping` has the dataflows that are best for the objective, `energy_mapping` and
    `latency_mapping` those best for energy and for latency. `scores` are the raw values per group.
    """

    id: int
    name: str
    cascade: Cascade
    hardware: Hardware
    mapspace: Mapspace
    objective: str
    optimum: Fraction
    without_recomputation: Fraction
    unfused: Fraction
    energy_mapping: Mapping
    latency_mapping: Mapping
    scores: tuple[Map[str, Any], ...]
    bandwidth: int | None

    @property
    def mapping(self) -> Mapping:
        return self.latency_mapping if self.objective == "latency" else self.energy_mapping

    @property
    def operators(self) -> int:
        return len(self.cascade.einsums)

    def __str__(self) -> str:
        return f"{self.id} {self.name} {self.objective}"


@cache
def instances() -> tuple[Instance, ...]:
    """All golden problems, in the order of the file."""
    path = Path(__file__).parent / "golden" / "optima.json"
    return tuple(_instance(raw) for raw in json.loads(path.read_text())["instances"])


def _instance(raw: Map[str, Any]) -> Instance:
    bandwidth = raw["hw"]["bw"] if raw["hw"] else None
    unit = bandwidth if raw["objective"] == "latency" else 1
    hardware = _hardware(raw["hw"], raw["capacity_elements"])
    return Instance(
        raw["id"], raw["name"], _cascade(raw), hardware,
        Mapspace(tile_sizes="divisors" if raw["tiles"] == "divisors" else "all", fused_outputs=False),
        OBJECTIVES[raw["objective"]],
        Fraction(raw["optimum"], unit),
        Fraction(raw["optimum_no_recompute"], unit),
        Fraction(raw["unfused"], unit),
        _mapping(raw, 0),
        _mapping(raw, 1),
        tuple(raw["scores"]),
        bandwidth,
    )  # fmt: skip


def _cascade(raw: Map[str, Any]) -> Cascade:
    def access(tensor: str) -> str:
        return f"{tensor}[{','.join(raw['tensors'][tensor])}]"

    einsums = [
        {"einsum": f"{access(e['out'])} = {' * '.join(map(access, e['ins']))}", "op": e["op"]}
        for e in raw["einsums"]
    ]
    tensors: dict[str, dict[str, str]] = {}
    for tensor, rank in raw["softmax_detail"].get("row", {}).items():
        tensors[tensor] = {"row": rank}
    for tensor, (rank, corrected) in raw["softmax_detail"].get("online", {}).items():
        tensors[tensor] = {"online": rank, "corrects": corrected}
    return Cascade(raw["ranks"], einsums, name=raw["name"], tensors=tensors, bits=8)


def _hardware(given: Map[str, Any] | None, capacity: int) -> Hardware:
    """DRAM, one buffer, an R×C systolic array and a vector unit; without `given`, nothing costs anything."""
    hw = given or NO_COSTS
    bandwidth = Rate(Fraction(hw["bw"]), "value") if "bw" in hw else None
    dram = Level("DRAM", None, _rate(hw["e_dr"]), _rate(hw["e_dw"]), bandwidth, bandwidth)
    spatial = (SpatialDim("rows", hw["R"]), SpatialDim("cols", hw["C"]))
    buffer = Level("GLB", capacity * 8, _rate(hw["e_gr"]), _rate(hw["e_gw"]), spatial=spatial)
    flows = tuple(f"{mode}_stationary" for mode in hw.get("modes", ("weight", "output", "input")))
    array = ComputeUnit("array", "systolic", {"mac": OpCost(Fraction(hw["e_mac"]))}, flows)
    cost = OpCost(Fraction(hw["e_ew"]), Fraction(hw["ew_cycles"]))
    vector = ComputeUnit("vector", "vector", {"ew": cost}, lanes=hw["V"])
    return Hardware("golden", (dram, buffer), (array, vector), energy_unit="1")


def _rate(amount: int) -> Rate:
    return Rate(Fraction(amount), "value")


def _mapping(raw: Map[str, Any], choice: int) -> Mapping:
    """`choice` 0 takes the dataflows best for energy, 1 those best for latency."""
    output = {e["name"]: e["out"] for e in raw["einsums"]}
    on_array = {e["name"] for e in raw["einsums"] if e["op"] == "mac" and len(e["ins"]) == 2}
    groups = []
    for given, score in zip(raw["mappings"], raw["scores"], strict=True):
        buffers = tuple(
            Buffer(b["tensor"], tuple(output[e] for e in b["einsums"]), frozenset(b["outside_loops"]))
            for b in given["buffers"]
        )
        inner = {}
        for name in given["order"]:
            mode = score.get("modes", {}).get(name, ("weight", "weight"))[choice]
            array = UnitMapping("array", f"{mode}_stationary")
            inner[output[name]] = array if name in on_array else UnitMapping("vector")
        nests = {
            output[name]: tuple(Loop(rank, tile) for rank, _, tile in loops)
            for name, loops in given["nests"].items()
        }
        order = tuple(output[name] for name in given["order"])
        groups.append(Group(order, nests, buffers, inner))
    return Mapping(tuple(groups))
