"""Every way to fuse any set of Einsums: what shares a buffer, under which loops, in which order.

Nothing is derived and nothing looked up: buffers are chosen (in place or not, every subset of readers
of an input), then the sequence of loops outside each of them, then the rules of the model are asked one
by one. Members are numbered in the written order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from exactile.formulation.einsum import Einsum, misaligned
from exactile.formulation.problem import Problem

Path = tuple[str, ...]


@dataclass(frozen=True)
class Box:
    """A shared buffer: its tensor, those written over it in place, and the members that use it."""

    tensors: tuple[str, ...]
    users: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The shared buffers of a group, and pairs of members of which the first must run earlier."""

    members: tuple[Einsum, ...]
    boxes: tuple[Box, ...]
    before: frozenset[tuple[int, int]]

    @cached_property
    def home(self) -> dict[int, int]:
        """The box in which a member writes, if that is shared."""
        place = {tensor: k for k, box in enumerate(self.boxes) for tensor in box.tensors}
        return {m: place[e.name] for m, e in enumerate(self.members) if e.name in place}

    @cached_property
    def shares_inputs(self) -> bool:
        names = {e.name for e in self.members}
        return any(box.tensors[0] not in names for box in self.boxes)

    @cached_property
    def connected(self) -> bool:
        reached = {0}
        for _ in self.members:
            for box in self.boxes:
                if reached & set(box.users):
                    reached |= set(box.users)
        return len(reached) == len(self.members)


@dataclass(frozen=True)
class Plan:
    """A layout with the loops outside each box and one order of the members.

    `common[e][f]` is how many loops two members share, `lives[k][m]` whether box `k` takes space while
    member `m` runs.
    """

    layout: Layout
    paths: tuple[Path, ...]
    common: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    lives: tuple[tuple[bool, ...], ...]

    @cached_property
    def around(self) -> tuple[Path, ...]:
        """The shared loops around each member."""
        return _around(self.layout, self.paths)

    @cached_property
    def nodes(self) -> dict[tuple[int, int], int]:
        """Which loop of the tree stands at (member, position); equal for members that share it."""
        found: dict[tuple[int, int], int] = {}
        count = 0
        for m, path in enumerate(self.around):
            for position in range(len(path)):
                other = next((o for o in range(m) if self.common[m][o] > position), None)
                found[m, position] = count if other is None else found[other, position]
                count += other is None
        return found

    @cached_property
    def node_ranks(self) -> tuple[str, ...]:
        """The rank of every loop of the tree."""
        ranks = {node: self.around[m][position] for (m, position), node in self.nodes.items()}
        return tuple(ranks[node] for node in range(len(ranks)))

    @property
    def recomputes(self) -> bool:
        members = self.layout.members
        return any(set(path) - set(e.ranks) for e, path in zip(members, self.around, strict=True))


def _around(layout: Layout, paths: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(
        max((paths[k] for k, box in enumerate(layout.boxes) if m in box.users), key=len, default=())
        for m in range(len(layout.members))
    )


def leaves(problem: Problem, members: Sequence[Einsum], einsum: Einsum) -> bool:
    """Whether the output of a member is needed outside the group."""
    if problem.cascade.tensors[einsum.name].role == "output":
        return True
    return any(reader not in members for reader in problem.cascade.consumers[einsum.name])


def reads(einsum: Einsum, tensor: str) -> bool:
    return any(access.tensor == tensor for access in einsum.inputs)


# --- buffers ------------------------------------------------------------------------------------------


def set_partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    for rest in set_partitions(items[1:]):
        yield [[items[0]], *rest]
        for k in range(len(rest)):
            yield [*rest[:k], [items[0], *rest[k]], *rest[k + 1 :]]


def layouts(problem: Problem, members: tuple[Einsum, ...]) -> Iterator[Layout]:
    """All choices of shared buffers that leave the group connected."""
    place = {e.name: m for m, e in enumerate(members)}
    if not problem.mapspace.fused_outputs and any(
        leaves(problem, members, e) and any(reads(f, e.name) for f in members) for e in members
    ):
        return
    outer = dict.fromkeys(a.tensor for e in members for a in e.inputs if a.tensor not in place)
    readers = {t: [m for m, e in enumerate(members) if reads(e, t)] for t in outer}
    shared = problem.mapspace.shared_inputs
    cuts = [list(set_partitions(who)) if shared else [[[m] for m in who]] for who in readers.values()]
    choices = [(False, True) if _may_overwrite(problem, members, e) else (False,) for e in members]
    needs = {(place[a.tensor], m) for m, e in enumerate(members) for a in e.inputs if a.tensor in place}
    for chosen in itertools.product(*choices):
        over = {e.name: str(e.in_place) for e, yes in zip(members, chosen, strict=True) if yes}
        earlier = {
            (m, place[name])
            for name, target in over.items()
            for m, e in enumerate(members)
            if reads(e, target) and e.name != name
        }
        fused = _fused_boxes(members, over)
        for cut in itertools.product(*cuts):
            inputs = [
                Box((tensor,), tuple(part))
                for tensor, parts in zip(readers, cut, strict=True)
                for part in parts
                if len(part) > 1
            ]
            layout = Layout(members, (*fused, *inputs), frozenset(needs | earlier))
            if layout.connected:
                yield layout


def _may_overwrite(problem: Problem, members: Sequence[Einsum], einsum: Einsum) -> bool:
    """Whether the target is written here and nobody else needs it."""
    target = einsum.in_place
    if target is None or all(e.name != target for e in members):
        return False
    return all(reader in members for reader in problem.cascade.consumers[target])


def _fused_boxes(members: Sequence[Einsum], over: Mapping[str, str]) -> list[Box]:
    """One box per tensor written and read here; what is written in place lies in the box of its target."""
    base: dict[str, str] = {}
    for e in members:
        base[e.name] = base[over[e.name]] if e.name in over else e.name
    found = []
    for tensor in dict.fromkeys(base.values()):
        inside = tuple(name for name, home in base.items() if home == tensor)
        users = tuple(
            m for m, e in enumerate(members) if e.name in inside or any(reads(e, t) for t in inside)
        )
        if len(users) > 1:
            found.append(Box(inside, users))
    return found


# --- loops --------------------------------------------------------------------------------------------


def plans(problem: Problem, members: tuple[Einsum, ...], ranks: Sequence[str]) -> Iterator[Plan]:
    """All legal plans with shared loops over `ranks`; of orders that need the same space only one."""
    paths = [p for n in range(len(ranks) + 1) for p in itertools.permutations(ranks, n)]
    for layout in layouts(problem, members):
        orders = list(_orders(layout)) if problem.mapspace.order == "search" else [tuple(range(len(members)))]
        orders = [o for o in orders if all(o.index(a) < o.index(b) for a, b in layout.before)]
        if orders:
            for chosen in _path_choices(problem, layout, paths, ()):
                yield from _ordered(problem, layout, chosen, orders)


def _orders(layout: Layout) -> Iterator[tuple[int, ...]]:
    for order in itertools.permutations(range(len(layout.members))):
        if all(order.index(a) < order.index(b) for a, b in layout.before):
            yield order


def _path_choices(
    problem: Problem, layout: Layout, paths: Sequence[Path], chosen: tuple[Path, ...]
) -> Iterator[tuple[Path, ...]]:
    """Paths box by box; those of one member's boxes are beginnings of each other."""
    k = len(chosen)
    if k == len(layout.boxes):
        yield chosen
        return
    box = layout.boxes[k]
    met = [chosen[o] for o in range(k) if set(layout.boxes[o].users) & set(box.users)]
    closed: set[str] = set()
    for m in box.users:
        einsum = layout.members[m]
        if einsum.name in box.tensors:
            closed |= einsum.reduction
        once = leaves(problem, layout.members, einsum) or m not in layout.home
        if once or not problem.mapspace.recomputation:
            closed |= set(problem.cascade.ranks) - set(einsum.ranks)
        closed |= _apart(layout, box, m)
    for path in paths:
        if closed.intersection(path):
            continue
        if all(path[: len(other)] == other[: len(path)] for other in met):
            yield from _path_choices(problem, layout, paths, (*chosen, path))


def _apart(layout: Layout, box: Box, member: int) -> frozenset[str]:
    """Ranks by which a member uses the box's tensors otherwise than the first user does."""
    first = layout.members[box.users[0]].access_of(box.tensors[0])
    einsum = layout.members[member]
    uses = [a for a in (einsum.output, *einsum.inputs) if a.tensor in box.tensors]
    return frozenset().union(*(misaligned(first, access) for access in uses))


def _ordered(
    problem: Problem, layout: Layout, paths: tuple[Path, ...], orders: Sequence[tuple[int, ...]]
) -> Iterator[Plan]:
    common = _common(layout, paths)
    if not _legal(problem, layout, paths, common):
        return
    seen = set()
    for order in orders:
        if not _together(order, common):
            continue
        lives = tuple(
            tuple(_alive(box, len(path), m, common, order) for m in range(len(layout.members)))
            for box, path in zip(layout.boxes, paths, strict=True)
        )
        if lives not in seen:
            seen.add(lives)
            yield Plan(layout, paths, common, order, lives)


def _common(layout: Layout, paths: Sequence[Path]) -> tuple[tuple[int, ...], ...]:
    """`|P(e,f)|`: the widest way from one member to another through shared buffers."""
    count = range(len(layout.members))
    depth = [[0] * len(count) for _ in count]
    for box, path in zip(layout.boxes, paths, strict=True):
        for one, two in itertools.permutations(box.users, 2):
            depth[one][two] = max(depth[one][two], len(path))
    for via, one, two in itertools.product(count, count, count):
        if len({via, one, two}) == 3:
            depth[one][two] = max(depth[one][two], min(depth[one][via], depth[via][two]))
    return tuple(map(tuple, depth))


def _legal(problem: Problem, layout: Layout, paths: Sequence[Path], common: Sequence[Sequence[int]]) -> bool:
    """Complete results, recomputation, owners of loops and barriers."""
    members, around = layout.members, _around(layout, paths)
    for m, einsum in enumerate(members):
        foreign = set(around[m]) - set(einsum.ranks)
        if foreign:
            kept = m not in layout.home or not foreign <= set(paths[layout.home[m]])
            if kept or leaves(problem, members, einsum) or not problem.mapspace.recomputation:
                return False
        for position, rank in enumerate(around[m]):
            below = [o for o in range(len(members)) if o == m or common[m][o] > position]
            if not any(rank in members[o].ranks for o in below):
                return False
        for reader, consumer in enumerate(members):
            if reads(consumer, einsum.name):
                shared = set(around[m][: common[m][reader]])
                apart = misaligned(einsum.output, consumer.access_of(einsum.name))
                if shared & (einsum.reduction | apart & set(einsum.output.ranks)):
                    return False
                if not _barriers_kept(problem, members, einsum, shared):
                    return False
    return True


def _barriers_kept(problem: Problem, members: Sequence[Einsum], einsum: Einsum, shared: set[str]) -> bool:
    names = {e.name for e in members}
    for barrier in problem.cascade.barriers:
        if barrier.tensor == einsum.name and barrier.rank in shared:
            online = barrier.mode == "online" and set(barrier.corrects) <= names
            if not online or leaves(problem, members, einsum):
                return False
    return True


def _together(order: Sequence[int], common: Sequence[Sequence[int]]) -> bool:
    """Members that share loops stand together."""
    for left, right in itertools.combinations(range(len(order)), 2):
        one, two = order[left], order[right]
        for between in order[left + 1 : right]:
            if min(common[one][between], common[between][two]) < common[one][two]:
                return False
    return True


def _alive(box: Box, depth: int, member: int, common: Sequence[Sequence[int]], order: Sequence[int]) -> bool:
    if member in box.users or any(depth < common[user][member] for user in box.users):
        return True
    places = [order.index(user) for user in box.users]
    between = min(places) < order.index(member) < max(places)
    return between and all(depth <= common[user][member] for user in box.users)
