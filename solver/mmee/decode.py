"""From a point of the enumerated space back to a mapping."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from exactile.formulation.encoding.shape import GroupSpec
from exactile.formulation.encoding.shared_tiles import shared_tiles
from exactile.formulation.encoding.sharing import Sharing, loops_of
from exactile.formulation.mapping import Buffer, Group, Loop
from exactile.solver.mmee.plan_search import Choice


def group_mapping(choice: Choice) -> Group:
    """The loop tree that a choice stands for; loops with one trip are left out."""
    spec, plan = choice.group.spec, choice.plan
    sets = _residencies(choice)
    tiles = [_tiles(choice, position, sets) for position in range(len(spec.einsums))]
    nests, loops = {}, []
    for position, einsum in enumerate(spec.einsums):
        order = _loop_order(spec, plan.sharing, sets, position, tiles[position].keys())
        nest = [Loop(rank, 1) for rank in spec.batch]
        nest += [Loop(spec.ranks[bit], tiles[position][bit]) for bit in order if bit in tiles[position]]
        nests[einsum.name] = tuple(nest)
        loops.append({loop.rank for loop in nest})
    buffers = []
    for position, slot in enumerate(spec.slots):
        first = spec.shape.slots[position].users[0]
        outside = {*spec.batch, *spec.names(sets[position])} & loops[first]
        buffers.append(Buffer(slot.tensor, slot.users, frozenset(outside)))
    units = {einsum.name: use for einsum, use in zip(spec.einsums, choice.units, strict=True)}
    return Group(tuple(e.name for e in spec.einsums), nests, tuple(buffers), dict(units))


def _residencies(choice: Choice) -> list[int]:
    """Per slot the loops outside; a private slot's own Einsum decides where it is below shared loops."""
    shape = choice.group.spec.shape
    rows = [node.rows[row] for node, row in zip(choice.plan.nodes, choice.rows, strict=True)]
    return [rows[slot.users[0]].sets[position] for position, slot in enumerate(shape.slots)]


def _tiles(choice: Choice, position: int, sets: list[int]) -> dict[int, int]:
    """Tile per loop (bit) around an Einsum, loops of one trip left out.

    With pins also own loops that have every buffer outside them: they save nothing, and a pin may
    not know them.
    """
    group, plan, node = choice.group, choice.plan, choice.plan.nodes[position]
    shared = shared_tiles(group, plan, np.array([choice.shared]))
    found = {}
    for v in node.variables:
        if shared.trips[v][0] > 1:
            found[plan.variables[v].bit] = int(shared.tiles[v][0])
    sizes = [len(group.tilings[bit][0]) for bit in node.private]
    index = np.unravel_index(choice.own[position], sizes) if sizes else ()
    for bit, i in zip(node.private, index, strict=True):
        trips, tiles = group.tilings[bit]
        if trips[i] > 1:
            found[bit] = int(tiles[i])
    shape = group.spec.shape
    if shape.pinned:
        known = loops_of(shape, plan.sharing, sets, position)
        found = {bit: tile for bit, tile in found.items() if known >> bit & 1}
    return found


def _loop_order(
    spec: GroupSpec, sharing: Sharing, sets: list[int], position: int, loops: Collection[int]
) -> list[int]:
    """The loops around an Einsum, outermost first.

    A loop of a prefix set stands outside those that are not in it, and pinned orders hold. Sets and
    pins of every Einsum count as far as their loops are shared with this one, so Einsums agree on the
    order of the loops they share. What remains free: shared loops by rank, then own loops, those of
    more buffers first.
    """
    shape = spec.shape
    before: dict[int, set[int]] = {bit: set() for bit in loops}
    for node in range(len(shape.node_ranks)):
        common = sharing.pair[position][node]
        prefixes = [s for slot, s in zip(shape.slots, sets, strict=True) if node in slot.users]
        prefixes += [_pin_of(spec, sharing, s) for s in range(len(sets)) if node in shape.slots[s].users]
        prefixes += [p for other, p in enumerate(sharing.pair[node]) if other != node]
        for prefix in prefixes:
            for bit in before:
                if common >> bit & 1 and not prefix >> bit & 1:
                    before[bit] |= {b for b in before if prefix & common & 1 << b}
        pinned = [bit for bit in shape.orders[node] if common >> bit & 1 and bit in before]
        for place, bit in enumerate(pinned):
            before[bit] |= set(pinned[:place])
    order: list[int] = []
    while len(order) < len(before):
        ready = [bit for bit in before if bit not in order and before[bit] <= set(order)]
        order.append(min(ready, key=lambda bit: _preference(spec, sharing, sets, position, bit)))
    return order


def _pin_of(spec: GroupSpec, sharing: Sharing, slot: int) -> int:
    """The pinned residency of a private slot, which stays a prefix of the nest; empty without one."""
    pin, users = spec.shape.slots[slot].pin, spec.shape.slots[slot].users
    if pin is None or len(users) > 1:
        return 0
    return pin & (sharing.own[users[0]] | spec.shape.node_ranks[users[0]])


def _preference(
    spec: GroupSpec, sharing: Sharing, sets: list[int], position: int, bit: int
) -> tuple[bool, int, int]:
    own = not sharing.own[position] >> bit & 1
    users = [
        slot
        for slot, outside in zip(spec.shape.slots, sets, strict=True)
        if position in slot.users and outside >> bit & 1
    ]
    return own, -sum(slot.ranks >> bit & 1 for slot in users) if own else 0, bit
