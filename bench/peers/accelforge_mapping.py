"""A mapping that AccelForge found, in Exactile's terms, so that Exactile's core can cost it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exactile.formulation.cascade import Cascade
from exactile.formulation.einsum import Einsum
from exactile.formulation.mapping import Buffer, Group, Loop, UnitMapping
from exactile.formulation.mapping import Mapping as Dataflow
from exactile.formulation.problem import Problem

Node = Mapping[str, Any]
LOOPS = ("Temporal", "Spatial")


class NotExpressible(ValueError):  # noqa: N818 - a fact about the mapping, not a failure
    """The mapping has no counterpart; the message says why."""


def dataflow(tree: Node, problem: Problem) -> Dataflow:
    """The mapping of two-level machines with one compute unit: `tree` is what `accelforge_worker` wrote.

    Loops above the last place where a tensor of an Einsum is stored on chip are its nest, the rest is its
    use of the array. An intermediate that is never stored in DRAM fuses its users.

    AccelForge may have a second loop over a rank in a nest, Exactile may not: there it is left out, so that
    the buffers below it hold the tile of the first loop. That is never more traffic, but it is more space.

    Raises `NotExpressible`.
    """
    if len(problem.hardware.levels) != 2:
        raise NotExpressible("only machines with DRAM and one level on chip")
    by_name = {path[-1]["einsum"]: path for path in paths(tree, ())}
    branches = [Branch.of(problem, einsum, by_name[einsum.name]) for einsum in problem.cascade.einsums]
    return Dataflow(tuple(group(members, problem) for members in fused(branches, problem.cascade)))


def paths(node: Node, above: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """From the root to every compute node, without the nodes that only hold others together."""
    if node["kind"] == "Compute":
        yield (*above, node)
    elif node["kind"] in ("Sequential", "Pipeline"):
        for child in node["nodes"]:
            yield from paths(child, above)
    elif "nodes" in node:
        yield from along(node["nodes"], above)


def along(nodes: Sequence[Node], above: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Nodes in a chain: each is above the ones that follow; only the last one holds others."""
    for node in nodes:
        if "nodes" in node or node["kind"] == "Compute":
            yield from paths(node, above)
        elif node["kind"] in (*LOOPS, "Storage"):
            above = (*above, node)
        elif node["kind"] != "Reservation":
            raise NotExpressible(f"a node {node['kind']} in the mapping")


@dataclass(frozen=True)
class Branch:
    """One Einsum's part: its nest, the loops outside each of its buffers, its use of the array."""

    einsum: Einsum
    nest: tuple[Loop, ...]
    outside: Mapping[str, frozenset[str]]
    in_dram: frozenset[str]
    unit: UnitMapping

    @classmethod
    def of(cls, problem: Problem, einsum: Einsum, path: Sequence[Node]) -> Branch:
        dram, chip = (level.name for level in problem.hardware.levels)
        used = {access.tensor for access in (einsum.output, *einsum.inputs)}
        loops: list[str] = []
        outside: dict[str, frozenset[str]] = {}
        in_dram: set[str] = set()
        last = 0
        for place, node in enumerate(path):
            if node["kind"] in LOOPS:
                loops.append(node["rank"])
            for tensor in used.intersection(node.get("tensors", ())):
                if node["level"] == dram:
                    in_dram.add(tensor)
                elif node["level"] == chip:
                    outside[tensor] = frozenset(loops)
                    last = place
        if missing := used - outside.keys():
            raise NotExpressible(f"{', '.join(sorted(missing))} never stored in {chip}")
        nest = _nest(einsum, path[:last])
        return cls(einsum, nest, outside, frozenset(in_dram), _unit(problem, path))


def _nest(einsum: Einsum, above: Sequence[Node]) -> tuple[Loop, ...]:
    """The first loop over every rank between DRAM and the chip."""
    if any(node["kind"] == "Spatial" for node in above):
        raise NotExpressible(f"{einsum.name} is split over instances above the chip")
    tiles: dict[str, int] = {}
    for node in above:
        if node["kind"] == "Temporal":
            tiles.setdefault(node["rank"], node["tile"])
    return tuple(Loop(rank, tile) for rank, tile in tiles.items())


def _unit(problem: Problem, path: Sequence[Node]) -> UnitMapping:
    """How a tile is spread over the array: the factor of a spatial loop is what it divides the tile by."""
    (unit,) = problem.hardware.compute
    tiles = dict(problem.cascade.ranks)
    spatial: dict[str, dict[str, int]] = {}
    for node in path:
        if node["kind"] not in LOOPS:
            continue
        rank, tile = node["rank"], node["tile"]
        if node["kind"] == "Spatial":
            factors = spatial.setdefault(rank, {})
            factors[node["dimension"]] = factors.get(node["dimension"], 1) * -(-tiles[rank] // tile)
        tiles[rank] = tile
    return UnitMapping(unit.name, spatial=spatial)


def fused(branches: Sequence[Branch], cascade: Cascade) -> list[list[Branch]]:
    """Einsums in execution order, together as long as the next one reads what stayed on chip."""
    groups: list[list[Branch]] = []
    for branch in branches:
        made = {member.einsum.name for member in groups[-1]} if groups else set()
        read = {access.tensor for access in branch.einsum.inputs} & cascade.by_name.keys()
        stayed = read - branch.in_dram
        if stayed - made:
            raise NotExpressible(f"{', '.join(sorted(stayed - made))} stays on chip between groups")
        if stayed:
            groups[-1].append(branch)
        else:
            groups.append([branch])
    return groups


def group(members: Sequence[Branch], problem: Problem) -> Group:
    """A fused group; an intermediate has one buffer for its producer and all its consumers."""
    names = tuple(member.einsum.name for member in members)
    buffers: list[Buffer] = []
    for member in members:
        for tensor, outside in member.outside.items():
            inside = tensor in names and tensor not in member.in_dram
            users = tuple(m.einsum.name for m in members if inside and tensor in m.outside)
            buffers.append(Buffer(tensor, users or (member.einsum.name,), outside))
    found = tuple(dict.fromkeys(buffers))
    shared = [buffer.tensor for buffer in found if len(buffer.users) > 1]
    if len(set(shared)) != len(shared):
        raise NotExpressible("an intermediate lies under other loops for its producer than for its consumer")
    return Group(
        order=names,
        nests={member.einsum.name: member.nest for member in members},
        buffers=found,
        inner={member.einsum.name: member.unit for member in members},
    )
