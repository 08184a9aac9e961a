"""The shape of the loop tree: residencies are prefixes, shared loops are equal, subtrees are intervals."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Map

from exactile.formulation.core.check_structure import label
from exactile.formulation.core.facts import Facts
from exactile.formulation.core.tree import Held, Tree
from exactile.formulation.einsum import misaligned


def prefix_faults(facts: Facts, tree: Tree) -> Iterator[str]:
    """The loops outside a buffer lead the nests of all users, in the same order with the same tiles."""
    where = label(tree.group)
    for held in tree.held:
        buffer = held.buffer
        first = tree.nests[buffer.users[0]]
        shown = ", ".join(sorted(buffer.outside)) or "none"
        for user in buffer.users:
            nest = tree.nests[user]
            # A rank of `outside` that no user loops over is a trip-1 loop and does not matter.
            inside = [rank for rank in nest.ranks if rank in buffer.outside]
            if tuple(inside) != nest.ranks[: len(inside)]:
                yield (
                    f"{where}: the loops outside the buffer of {buffer.tensor} ({shown}) do "
                    "not lead the nest "
                    f"of {user} ({_shown(nest.ranks)}): a buffer is allocated between two loops"
                )
            elif len(inside) != len(leading := _outside(tree, buffer.users[0], buffer.outside)):
                missing = (set(leading) ^ set(inside)).pop()
                lacking = user if missing in leading else first.einsum.name
                yield (
                    f"{where}: loop {missing} is outside the buffer of {buffer.tensor}, which "
                    f"{', '.join(buffer.users)} share, but {lacking} has no such loop"
                )
            elif nest.ranks[: len(inside)] != first.ranks[: len(inside)]:
                yield (
                    f"{where}: {first.einsum.name} and {user} share the buffer of "
                    f"{buffer.tensor} but order the "
                    f"loops outside it differently ({_shown(leading)}; {_shown(inside)})"
                )
            else:
                for rank in inside:
                    if nest.tile[rank] != first.tile[rank]:
                        yield (
                            f"{where}: {first.einsum.name} and {user} share loop "
                            f"{rank} through {buffer.tensor} "
                            f"but with tiles of {first.tile[rank]} and {nest.tile[rank]}"
                        )


def index_faults(tree: Tree) -> Iterator[str]:
    """A loop outside a shared buffer selects the same part of the tensor for every user."""
    where = label(tree.group)
    for held in tree.held:
        first = tree.nests[held.buffer.users[0]]
        for user in held.buffer.users[1:]:
            for rank in _apart(tree, held, user):
                if rank in first.ranks[: held.depth]:
                    yield (
                        f"{where}: {first.einsum.name} and {user} index {held.buffer.tensor} differently in "
                        f"{rank}, so they cannot share its buffer inside the loop over {rank}"
                    )


def _apart(tree: Tree, held: Held, user: str) -> frozenset[str]:
    """Ranks that index the tensors of a buffer elsewhere for `user` than for its first user."""
    first = tree.nests[held.buffer.users[0]].einsum.use_of(held.buffer.tensor).access
    uses = (use.access for use in tree.nests[user].einsum.uses if use.tensor in held.tensors)
    return frozenset().union(*(misaligned(first, access) for access in uses))


def _outside(tree: Tree, user: str, outside: frozenset[str]) -> list[str]:
    return [rank for rank in tree.nests[user].ranks if rank in outside]


def _shown(ranks: tuple[str, ...] | list[str]) -> str:
    return " ".join(ranks) or "no loops"


def loop_owner_faults(tree: Tree) -> Iterator[str]:
    """Foreign loops are shared ones, and every shared loop is a rank of an Einsum below it."""
    where = label(tree.group)
    for name, nest in tree.nests.items():
        for position, rank in enumerate(nest.ranks):
            if rank in nest.einsum.ranks:
                continue
            if position >= nest.shared:
                yield (
                    f"{where}: {name} has a loop over {rank}, which is neither a rank of it nor a loop that "
                    f"a shared tensor makes it share"
                )
                continue
            below = [other for other in tree.nests if tree.common.get((name, other), 0) > position]
            if not any(rank in tree.nests[other].einsum.ranks for other in below):
                yield f"{where}: the shared loop {rank} around {name} is a rank of no Einsum inside it"


def interval_faults(tree: Tree) -> Iterator[str]:
    """Whatever shares loops stands together in the order: the subtrees of a node are intervals."""
    order = tree.group.order
    where = label(tree.group)
    for left, one in enumerate(order):
        for right in range(left + 2, len(order)):
            two = order[right]
            depth = tree.common.get((one, two), 0)
            for between in order[left + 1 : right]:
                if min(tree.common.get((one, between), 0), tree.common.get((between, two), 0)) < depth:
                    loops = _shown(tree.nests[one].ranks[:depth])
                    yield (
                        f"{where}: {between} runs between {one} and {two}, which share the loops {loops}, "
                        f"without sharing them"
                    )


def connection_faults(tree: Tree) -> Iterator[str]:
    """A group is connected through its shared buffers; otherwise unrelated Einsums would overlap for free."""
    order = tree.group.order
    reached = {order[0]}
    grown = True
    while grown:
        grown = False
        for held in tree.held:
            users = set(held.buffer.users)
            if users & reached and not users <= reached:
                reached |= users
                grown = True
    apart = [name for name in order if name not in reached]
    if apart:
        yield (
            f"{label(tree.group)}: {', '.join(apart)} shares no buffer with {order[0]}: "
            "they must be separate groups"
        )


def spread_faults(tree: Tree) -> Iterator[str]:
    """Users of a shared buffer are spread alike over the instances, and share no partial result."""
    where = label(tree.group)
    for held in tree.held:
        if not held.shared:
            continue
        first = tree.nests[held.buffer.users[0]]
        ranks = first.einsum.ranks_of(held.buffer.tensor)
        for user in held.buffer.users[1:]:
            nest = tree.nests[user]
            apart = _apart(tree, held, user)
            for rank in apart:
                if first.spread(rank) > 1 or nest.spread(rank) > 1:
                    yield (
                        f"{where}: {first.einsum.name} and {user} share the buffer of {held.buffer.tensor} "
                        f"but {rank}, which is spread over the instances, indexes only one of them"
                    )
            for rank in (rank for rank in ranks if rank not in apart):
                if _factors(first.factors, rank) != _factors(nest.factors, rank):
                    yield (
                        f"{where}: {first.einsum.name} and {user} share the buffer "
                        f"of {held.buffer.tensor} "
                        f"but spread {rank} over the instances differently"
                    )
        written = any(user in held.tensors for user in held.buffer.users)
        for user in held.buffer.users:
            nest = tree.nests[user]
            foreign = [rank for rank in nest.factors if rank not in ranks and nest.spread(rank) > 1]
            if foreign and (written or user != held.buffer.users[0]):
                yield (
                    f"{where}: {user} spreads {foreign[0]} over the instances, which the shared tensor "
                    f"{held.buffer.tensor} does not have: its tiles would be needed in several instances"
                )


def _factors(factors: Map[str, Map[str, int]], rank: str) -> dict[str, int]:
    return {name: factor for name, factor in factors.get(rank, {}).items() if factor > 1}


def shared_loops(tree: Tree, one: str, two: str) -> tuple[str, ...]:
    """`P(one, two)`, outermost first."""
    return tree.nests[one].ranks[: tree.common.get((one, two), 0)]
