"""A random mapping of a brute-force problem, with its cost by the brute force's own cost function."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
from brute_force import BruteForce, Plan, plans
from brute_force_cost import Array, ceil_div, inner_costs, private_costs, unit_mappings

from exactile.formulation.einsum import Einsum
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping


def sample(search: BruteForce, rng: random.Random) -> tuple[Mapping, dict[str, Fraction], list[int]]:
    """A mapping (capacity ignored), the quantities it costs, and the peak bits of its groups.

    `search` must keep all columns: its objective compares every quantity.
    """
    groups, peaks = [], []
    total = np.zeros(len(search.needed), dtype=np.int64)
    cuts = [[usable_plans(search, members) for members in cut] for cut in search.partitions()]
    for choices in rng.choice([cut for cut in cuts if all(cut)]):
        plan = rng.choice(choices)
        members = plan.members
        shared = {r: rng.choice(search.split_sizes[r]) for r in plan.loops}
        row = search.shared_row(plan, shared)[0]
        nests, buffers, inner = {}, [], {}
        for k, einsum in enumerate(plan.members):
            own = [r for r in einsum.ranks if r not in plan.around(k)]
            rng.shuffle(own)
            tiles = {r: shared[r] for r in plan.around(k)} | {r: rng.choice(search.sizes[r]) for r in own}
            nests[einsum.name] = tuple(Loop(r, t) for r, t in tiles.items())
            use = rng.choice(list(unit_mappings(search.ruler, einsum)))
            inner[einsum.name] = use
            found, costs = member_cost(search, plan, k, tiles, rng)
            buffers += found
            row = row + costs
            arrays = {r: np.asarray([t]) for r, t in tiles.items()}
            trips = {r: ceil_div(search.extents[r], t) for r, t in arrays.items()}
            below = inner_costs(search.ruler, einsum, use, arrays, trips)[:, 0]
            for rank in set(plan.around(k)) - set(einsum.ranks):
                below = below * int(trips[rank][0])
            row[len(members) :] += below[search.kept]
        for buffer in plan.buffers:
            users = [plan.members[u].name for u in buffer.users]
            buffers.append(Buffer(buffer.tensor, tuple(users), frozenset(plan.loops[: buffer.depth])))
        order = tuple(e.name for e in members)
        groups.append(Group(order, nests, tuple(buffers), inner))
        peaks.append(int(row[: len(members)].max()))
        total = total + search.quantities(row[None, len(members) :])[0]
    return Mapping(tuple(groups)), search.values(total), peaks


def usable_plans(search: BruteForce, members: tuple[Einsum, ...]) -> list[Plan]:
    return [p for p in plans(search.problem, members) if all(search.split_sizes[r] for r in p.loops)]


def member_cost(
    search: BruteForce, plan: Plan, member: int, tiles: dict[str, int], rng: random.Random
) -> tuple[list[Buffer], Array]:
    """Random levels for the tensors that a member moves itself.

    The cost is that of the buffer moved outwards over trailing loops that its tensor does not have and
    that are the member's own: a given mapping is costed so.
    """
    einsum, members = plan.members[member], len(plan.members)
    arrays = {r: np.asarray([t]) for r, t in tiles.items()}
    trips = {r: ceil_div(search.extents[r], t) for r, t in arrays.items()}
    inside = {name for b in plan.buffers for name in b.holds}
    row = np.zeros(members + len(search.kept), dtype=np.int64)
    buffers = []
    nest = list(tiles)
    for name in dict.fromkeys((*(a.tensor for a in einsum.inputs), einsum.name)):
        if name in inside:
            continue
        depth = rng.randint(0, len(nest))
        buffers.append(Buffer(name, (einsum.name,), frozenset(nest[:depth])))
        ranks = einsum.access_of(name).ranks
        while depth > plan.depths[member] and (
            nest[depth - 1] not in ranks or trips[nest[depth - 1]][0] == 1
        ):
            depth -= 1
        held, columns = private_costs(search.ruler, einsum, name, nest[:depth], arrays, trips)
        for k in range(members):
            if k == member or depth < plan.depth(member, k):
                row[k] += int(held[0])
        row[members:] += columns[search.kept, 0]
    return buffers, row
