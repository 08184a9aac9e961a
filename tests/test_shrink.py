"""A scaled-down copy of a problem has the same loops, residencies, edges and legality."""

from __future__ import annotations

from dataclasses import replace

import pytest
from strategies import random_case

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Group, Loop, Mapping, UnitMapping
from exactile.formulation.mapping_tree import Node, build
from exactile.solver.shrink import shrink
from exactile.solver.verify import FULL_SIZE_POINTS, confirm
from hand_made import attention, fused, machine, unfused

SEEDS = range(150)
FACTOR = 24


def unbounded(hardware: Hardware) -> Hardware:
    return replace(hardware, levels=tuple(replace(level, capacity=None) for level in hardware.levels))


def enlarged(cascade: Cascade, mapping: Mapping) -> tuple[Cascade, Mapping]:
    """Every extent and every tile times a factor: the same trips, on a problem far too large to replay."""

    def group(old: Group) -> Group:
        nests = {e: tuple(Loop(x.rank, FACTOR * x.tile) for x in nest) for e, nest in old.nests.items()}
        inner = {e: group(below) if isinstance(below, Group) else below for e, below in old.inner.items()}
        return replace(old, nests=nests, inner=inner)

    tensors = {
        t.name: {"bits": t.bits, "role": t.role, "row": t.row, "online": t.online, "corrects": t.corrects}
        for t in cascade.tensors.values()
    }
    ranks = {rank: FACTOR * extent for rank, extent in cascade.ranks.items()}
    return Cascade(ranks, cascade.einsums, tensors=tensors), Mapping(tuple(map(group, mapping.groups)))


def loops(cascade: Cascade, mapping: Mapping) -> list[list[tuple[str, bool]]]:
    """Per group the loops that run more than once, in the order of the tree, and whether they are ragged."""

    def walk(node: Node) -> list[tuple[str, bool]]:
        found = []
        for item in node.body:
            if isinstance(item, Node) and item.loop is not None and item.parent is not None:
                found += [(item.loop.rank, item.parent % item.loop.tile != 0), *walk(item)]
        return found

    return [walk(build(g, dict.fromkeys(g.order, cascade.ranks), {}).root) for g in mapping.groups]


@pytest.mark.parametrize("seed", SEEDS)
def test_structure_stays(seed: int) -> None:
    case = random_case(seed)
    cascade, mapping = enlarged(case.cascade, case.mapping)
    hardware = unbounded(case.hardware)
    small, small_hardware, small_mapping = shrink(cascade, hardware, mapping)
    assert not violations(small, small_hardware, small_mapping)
    before, after = loops(cascade, mapping), loops(small, small_mapping)
    assert [[rank for rank, _ in group] for group in before] == [
        [rank for rank, _ in group] for group in after
    ]
    assert [g.buffers for g in small_mapping.groups] == [g.buffers for g in mapping.groups]
    assert sum(map(small.points, small.einsums)) <= 20 * FULL_SIZE_POINTS


def test_ragged_edges_stay() -> None:
    small, _, mapping = shrink(attention(), machine(), fused())
    assert loops(attention(), fused()) == loops(small, mapping) == [[("h", False), ("m", True), ("n", False)]]


def test_trip_counts_are_capped_and_distinguish_two_from_more() -> None:
    small, _, mapping = shrink(attention(), machine(), fused())
    tiles = {loop.rank: loop.tile for loop in mapping.groups[0].nests["S"]}
    trips = {rank: -(-small.ranks[rank] // tile) for rank, tile in tiles.items()}
    assert trips == {"h": 2, "m": 3, "n": 3}


@pytest.mark.parametrize("mapping", [fused(), unfused()])
def test_shrinking_twice_changes_nothing(mapping: Mapping) -> None:
    once = shrink(attention(), machine(), mapping)
    twice = shrink(*once)
    assert once[0].ranks == twice[0].ranks and once[2] == twice[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_replay_confirms_the_core_on_the_small_copy(seed: int) -> None:
    case = random_case(1000 + seed)
    cascade, mapping = enlarged(case.cascade, case.mapping)
    assert confirm(cascade, unbounded(case.hardware), mapping)


def test_an_array_is_scaled_with_its_factors() -> None:
    mapping = fused()
    group = mapping.groups[0]
    spread = UnitMapping("array", "weight_stationary", spatial={"m": {"instances": 4}})
    spread_group = replace(group, inner={**group.inner, "S": spread})
    unit = machine().unit("array")
    four = replace(unit, instances=replace(unit.instances, size=4))
    hardware = replace(machine(), compute=(four, machine().unit("vector")))
    small = shrink(attention(), hardware, Mapping((spread_group,)))
    assert not violations(*small)
    below = small[2].groups[0].inner["S"]
    assert isinstance(below, UnitMapping) and below.spatial["m"]["instances"] > 1
    assert evaluate(*small).energy > 0
