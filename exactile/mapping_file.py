"""Mapping files: written so that a person can edit them, read back with every fault found.

problem: {name: bert-base-attention, hash: 1fd0bafaa6843c28}
groups:
- order: [S, P, O]
  nests:
    S: [{rank: h, tile: 1}, {rank: m, tile: 64}]
  buffers:
  - {tensor: S, users: [S, P, O], outside: [h, m]}
  inner:
    S: {unit: array, dataflow: weight_stationary}
kept_between_groups: []
"""

from __future__ import annotations

import os
from collections.abc import Mapping as Map
from typing import Any

from exactile.faults import LoadError
from exactile.formulation.fingerprint import problem_hash
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.problem import Problem
from exactile.kinds import expect
from exactile.yaml_source import read_file


def load_mapping(path: str | os.PathLike[str], problem: Problem) -> Mapping:
    """The mapping in a file. Raises `LoadError` with every fault.

    Names of Einsums, ranks, tensors and units must be those of `problem`, and its hash the one in the file,
    if the file has one. Whether the mapping is legal is not judged here.
    """
    from exactile.mapping_form import build_mapping

    mapping, faults = build_mapping(expect(read_file(path), "mapping"), problem)
    if mapping is None or faults:
        raise LoadError(faults)
    return mapping


def mapping_data(problem: Problem, mapping: Mapping) -> dict[str, Any]:
    """The mapping as dicts and lists, in the form of the file."""
    return {
        "problem": {"name": problem.name, "hash": problem_hash(problem)},
        "groups": [_group(group) for group in mapping.groups],
        "kept_between_groups": list(mapping.kept_between_groups),
    }


def dump_mapping(problem: Problem, mapping: Mapping) -> str:
    """The text of a mapping file."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Long lines, no aliases, and the leaves in flow style."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(
        _FlowMap,
        lambda dumper, value: dumper.represent_mapping(
            "tag:yaml.org,2002:map", value.items(), flow_style=True
        ),
    )
    Dumper.add_representer(
        _FlowList,
        lambda dumper, value: dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True),
    )
    data = mapping_data(problem, mapping)
    styled = {
        "problem": _FlowMap(data["problem"]),
        "groups": [_styled(group) for group in data["groups"]],
        "kept_between_groups": _FlowList(data["kept_between_groups"]),
    }
    text: str = yaml.dump(styled, Dumper=Dumper, sort_keys=False, default_flow_style=False, width=10_000)
    return text


class _FlowMap(dict[str, Any]):
    """Written on one line."""


class _FlowList(list[Any]):
    """Written on one line."""


def _styled(group: dict[str, Any]) -> dict[str, Any]:
    """Blocks for groups, one line for each nest, buffer and use of a unit."""
    styled: dict[str, Any] = {"order": _FlowList(group["order"])}
    if "spatial" in group:
        styled["spatial"] = {name: _FlowMap(factors) for name, factors in group["spatial"].items()}
    styled["nests"] = {name: _FlowList(nest) for name, nest in group["nests"].items()}
    styled["buffers"] = [_FlowMap(buffer) for buffer in group["buffers"]]
    styled["inner"] = {
        name: _FlowMap(inner) if "unit" in inner else _styled(inner) for name, inner in group["inner"].items()
    }
    return styled


def _group(group: Group) -> dict[str, Any]:
    data: dict[str, Any] = {"order": list(group.order)}
    if group.spatial:
        data["spatial"] = {name: _factors(factors) for name, factors in group.spatial.items()}
    data["nests"] = {name: [_loop(loop) for loop in nest] for name, nest in group.nests.items()}
    data["buffers"] = [_buffer(group, buffer) for buffer in group.buffers]
    data["inner"] = {
        name: _group(inner) if isinstance(inner, Group) else _unit(inner)
        for name, inner in group.inner.items()
    }
    return data


def _loop(loop: Loop) -> dict[str, Any]:
    return {"rank": loop.rank, "tile": int(loop.tile)}


def _buffer(group: Group, buffer: Buffer) -> dict[str, Any]:
    """`outside` in the order of the loops, as a person reads them."""
    nest = [loop.rank for user in buffer.users[:1] for loop in group.nests.get(user, ())]
    outside = sorted(buffer.outside, key=lambda rank: (nest.index(rank) if rank in nest else len(nest), rank))
    return {"tensor": buffer.tensor, "users": list(buffer.users), "outside": outside}


def _unit(unit: UnitMapping) -> dict[str, Any]:
    data: dict[str, Any] = {"unit": unit.unit}
    if unit.dataflow is not None:
        data["dataflow"] = unit.dataflow
    if unit.transposed:
        data["transposed"] = True
    if unit.spatial:
        data["spatial"] = _factors(unit.spatial)
    if unit.order:
        data["order"] = list(unit.order)
    return data


def _factors(spatial: Map[str, Map[str, int]]) -> dict[str, dict[str, int]]:
    return {rank: {dim: int(factor) for dim, factor in dims.items()} for rank, dims in spatial.items()}
