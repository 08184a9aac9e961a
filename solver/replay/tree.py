"""The loop tree of a group: which loops are run together, and where buffers are taken and given back.

Two Einsums stand in the same body of depth `d` if a chain of shared buffers with at least `d` loops
outside connects them; so the tree is built by splitting the group into connected parts, depth by depth.

    buffers S{h,m} by S, O      for h: for m:        depth 2, take S
            Q{h,m} by S             for n: S         its own loops
                                    for n: O         … and give S back
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from exactile.formulation.cascade import Cascade
from exactile.formulation.mapping import Buffer, Group, Loop
from exactile.solver.replay.errors import ReplayError
from exactile.solver.replay.intervals import trips


@dataclass(frozen=True)
class Allocation:
    """A buffer in its place: taken in the bodies of depth `depth`, at level `child`, for `users`.

    `held` are the tensors it holds one after the other (several if overwritten in place). `parent` is
    the level it is filled from and drained to.
    """

    held: tuple[str, ...]
    users: tuple[str, ...]
    depth: int
    parent: int
    child: int

    @property
    def tensor(self) -> str:
        return self.held[0]


@dataclass(frozen=True)
class Step:
    """A tile of one Einsum, or a loop over a body; buffers are taken before and given back after it."""

    members: tuple[str, ...]
    loop: Loop | None
    body: tuple[Step, ...]
    take: tuple[Allocation, ...] = ()
    give_back: tuple[Allocation, ...] = ()


def without_single_trips(group: Group, sizes: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[Loop, ...]]:
    """The nests without loops that run once. `sizes[e]`: the block of every rank that `e` works on."""
    return {
        einsum: tuple(
            loop for loop in group.nests.get(einsum, ()) if trips(sizes[einsum][loop.rank], loop) > 1
        )
        for einsum in group.order
    }


def held_tensors(cascade: Cascade, group: Group, buffer: Buffer) -> tuple[str, ...]:
    """The tensors that live in a buffer: its own, and those that overwrite it in place."""
    own = {other.tensor for other in group.buffers}
    held = [buffer.tensor]
    for user in buffer.users:
        if user not in own and cascade.by_name[user].in_place == held[-1] and held[-1] in buffer.users:
            held.append(user)
    return tuple(held)


def depth_of(buffer: Buffer, nests: Mapping[str, tuple[Loop, ...]]) -> int:
    """How many loops lie outside a buffer; they must be the leading loops of every user."""
    known = {loop.rank for user in buffer.users for loop in nests[user]}
    outside = buffer.outside & known
    for user in buffer.users:
        if {loop.rank for loop in nests[user][: len(outside)]} != outside:
            raise ReplayError(
                f"the loops outside the buffer of {buffer.tensor} ({', '.join(sorted(outside))}) "
                f"are not the leading loops of {user}"
            )
    return len(outside)


def parts(members: Sequence[str], shared: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Connected parts of `members`, each in order, joined by the users of shared buffers."""
    part = {member: {member} for member in members}
    for users in shared:
        joined = set().union(*(part[user] for user in users if user in part))
        for member in joined:
            part[member] = joined
    found: dict[int, tuple[str, ...]] = {}
    for member in members:
        found.setdefault(id(part[member]), tuple(m for m in members if m in part[member]))
    return list(found.values())


def shared_depth(einsum: str, order: Sequence[str], shared: Sequence[tuple[int, tuple[str, ...]]]) -> int:
    """How many leading loops `einsum` runs together with others; `shared`: depth and users of buffers."""
    deepest = 0
    for depth, _ in shared:
        joined = parts(order, [users for d, users in shared if d >= depth])
        if any(einsum in part and len(part) > 1 for part in joined):
            deepest = max(deepest, depth)
    return deepest


def kept_depth(ranks: Iterable[str], nest: Sequence[Loop], depth: int, shared: int) -> int:
    """The depth of a private buffer after moving it out over trailing loops that do not move its tile."""
    relevant = set(ranks)
    while depth > shared and nest[depth - 1].rank not in relevant:
        depth -= 1
    return depth


def build(
    order: Sequence[str],
    nests: Mapping[str, tuple[Loop, ...]],
    allocations: Sequence[Allocation],
    depth: int = 0,
) -> tuple[Step, ...]:
    """The body of depth `depth` that runs the Einsums of `order`."""
    deeper = [a.users for a in allocations if a.depth > depth and len(a.users) > 1]
    steps: list[Step] = []
    here = parts(order, deeper)
    if [member for part in here for member in part] != list(order):
        raise ReplayError(
            f"the subtrees of {', '.join(order)} cannot run one after the other in the given order"
        )
    for part in here:
        inside = [a for a in allocations if a.depth > depth and a.users[0] in part]
        loops = {nests[member][depth] if depth < len(nests[member]) else None for member in part}
        if len(loops) > 1:
            raise ReplayError(f"{', '.join(part)} share a loop at depth {depth} but do not have the same one")
        (loop,) = loops
        body = () if loop is None else build(part, nests, inside, depth + 1)
        steps.append(Step(part, loop, body))
    return _placed(steps, [a for a in allocations if a.depth == depth])


def _placed(steps: Sequence[Step], allocations: Sequence[Allocation]) -> tuple[Step, ...]:
    """Steps with their buffers: taken just before the first user's step, given back after the last's."""
    take: dict[int, list[Allocation]] = {}
    give_back: dict[int, list[Allocation]] = {}
    for allocation in allocations:
        at = [i for i, step in enumerate(steps) if set(step.members) & set(allocation.users)]
        take.setdefault(at[0], []).append(allocation)
        give_back.setdefault(at[-1], []).append(allocation)
    return tuple(
        Step(step.members, step.loop, step.body, tuple(take.get(i, ())), tuple(give_back.get(i, ())))
        for i, step in enumerate(steps)
    )
