"""A fused group as engines see it: Einsums as nodes, buffers as slots, ranks as bits.

A *slot* is one buffer: a fused intermediate with its producer and consumers, a shared or private
input, a private output. An Einsum that works in place adds no slot: it joins the slot it overwrites.
Sets of ranks are integers used as bit sets. A `Shape` holds no names and no extents, so groups that
differ only in those share their structures (and the cache of them).

Example: attention `S = Q·K`, `O = S·V` has nodes S, O and slots S {S, O}, Q {S}, K {S}, V {O}, O {O}.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from exactile.formulation.cascade import Barrier, Cascade
from exactile.formulation.einsum import Access, Einsum, misaligned
from exactile.formulation.encoding.overwriting import able, in_place_chain, leaves, never_worse
from exactile.formulation.problem import Mapspace

SlotKind = Literal["input", "output", "fused"]


@dataclass(frozen=True, slots=True)
class SlotShape:
    """A buffer: its users (nodes), the ranks of its tensor, whether it crosses the boundary.

    `crossing`: something moves between the levels through it. `corrected`: ranks whose loops outside
    the slot cost corrections of an online statistic. `pin`: the exact set of loops outside, if fixed.
    `apart`: ranks that index the tensor differently for different users, never outside the slot.
    """

    users: tuple[int, ...]
    ranks: int
    crossing: bool
    corrected: int
    pin: int | None
    apart: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides which structures a group has.

    `node_ranks[e]` is the iteration space. `forbidden` holds `(e, f, set)`: loops that `e` and `f`
    must not share (reductions of a producer, barriers). `recompute[e]` is the slot inside whose loops
    `e` may be executed again, `None` if it may not. `orders[e]` is a pinned order of loops, `forced`
    the ranks with a pinned tile.
    """

    ranks: int
    node_ranks: tuple[int, ...]
    slots: tuple[SlotShape, ...]
    forbidden: tuple[tuple[int, int, int], ...]
    recompute: tuple[int | None, ...]
    orders: tuple[tuple[int, ...], ...]
    forced: int
    double_buffer: bool

    @property
    def pinned(self) -> bool:
        """Whether some order or residency is fixed."""
        return any(self.orders) or any(slot.pin is not None for slot in self.slots)

    @property
    def key(self) -> str:
        """A stable name of the shape, for caches."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Slot:
    """A buffer of a concrete group: `access` gives its ranks, `bits` its width.

    `leaving` is the tensor that is drained from a fused slot because somebody outside needs it.
    """

    kind: SlotKind
    tensor: str
    users: tuple[str, ...]
    access: Access
    bits: int
    leaving: str | None = None


@dataclass(frozen=True)
class GroupSpec:
    """A concrete candidate group: Einsums in execution order, slots, and the shape behind them.

    `ranks` may get loops, bit by bit; `batch` are ranks of every tensor, fixed outermost with tile 1;
    all other ranks have extent 1. `overwriting` are the Einsums that work in place.
    """

    einsums: tuple[Einsum, ...]
    slots: tuple[Slot, ...]
    ranks: tuple[str, ...]
    batch: tuple[str, ...]
    overwriting: frozenset[str]
    shape: Shape

    def mask(self, ranks: Iterable[str]) -> int:
        """The bit set of those ranks that may get loops."""
        return _mask(self.ranks, ranks)

    def names(self, mask: int) -> tuple[str, ...]:
        """The ranks of a bit set."""
        return tuple(rank for bit, rank in enumerate(self.ranks) if mask >> bit & 1)


def _mask(order: Sequence[str], ranks: Iterable[str]) -> int:
    wanted = set(ranks)
    return sum(1 << bit for bit, rank in enumerate(order) if rank in wanted)


def group_specs(
    cascade: Cascade,
    names: Sequence[str],
    mapspace: Mapspace,
    *,
    double_buffer: bool = False,
    batch_outermost: bool = False,
) -> Iterator[GroupSpec]:
    """The ways to fuse the Einsums `names`, in this execution order, into one connected group.

    One spec per way of sharing inputs; none if the group is impossible (a fused output where that is
    not allowed, nothing that connects the Einsums).
    `batch_outermost` fixes ranks that every tensor has to tile 1: right where only traffic, energy
    and operations count, since all of them are proportional to such a rank.
    """
    einsums = tuple(cascade.by_name[name] for name in names)
    ways = able(cascade, einsums)
    for count in range(len(ways), -1, -1):
        for chosen in combinations(ways, count):
            yield from _ways_to_share(
                cascade, einsums, frozenset(chosen), mapspace, double_buffer, batch_outermost
            )


def _ways_to_share(
    cascade: Cascade,
    einsums: tuple[Einsum, ...],
    overwriting: frozenset[str],
    mapspace: Mapspace,
    double_buffer: bool,
    batch_outermost: bool,
) -> Iterator[GroupSpec]:
    fused = _fused_slots(cascade, einsums, overwriting, mapspace)
    if fused is None:
        return
    produced = {name for slot, tensors in fused for name in tensors}
    outputs = [
        Slot("output", e.name, (e.name,), e.output, cascade.tensors[e.name].bits)
        for e in einsums
        if e.name not in produced
    ]
    for inputs in _input_slots(cascade, einsums, produced, mapspace):
        slots = tuple(slot for slot, _ in fused) + tuple(inputs) + tuple(outputs)
        if _connected(einsums, slots) and not any(
            _better_in_place(cascade, einsums, name, fused, inputs, mapspace, double_buffer)
            for name in able(cascade, einsums)
            if name not in overwriting
        ):
            spec = _spec(
                cascade,
                einsums,
                slots,
                dict(_stored(fused)),
                overwriting,
                mapspace,
                double_buffer,
                batch_outermost,
            )
            if spec is not None:
                yield spec


def _better_in_place(
    cascade: Cascade,
    einsums: Sequence[Einsum],
    name: str,
    fused: Sequence[tuple[Slot, tuple[str, ...]]],
    inputs: Sequence[Slot],
    mapspace: Mapspace,
    double_buffer: bool,
) -> bool:
    """Whether an Einsum with a buffer of its own had better overwrite its input.

    That can take more space if the widths differ, or if the result is drained from a buffer that this
    doubles; and the two may have different pins.
    """
    inside = {einsum.name for einsum in einsums}
    ((old, _),) = (entry for entry in fused if cascade.by_name[name].in_place in entry[1])
    new, tensors = next((entry for entry in fused if name in entry[1]), (None, (name,)))
    bits = new.bits if new else cascade.tensors[name].bits
    doubled = double_buffer and leaves(cascade, tensors[-1], inside)
    if bits != old.bits or doubled or mapspace.residency:
        return False
    if new is None:
        return True  # nobody else shares its buffer, which can have the residency of the overwritten one
    others = [s.users for s in (*(s for s, _ in fused), *inputs) if len(s.users) > 1 and s not in (old, new)]
    again = (t for t in tensors if mapspace.recomputation and not leaves(cascade, t, inside))
    return never_worse([einsum.name for einsum in einsums], others, again)


def _stored(fused: Sequence[tuple[Slot, tuple[str, ...]]]) -> Iterator[tuple[str, int]]:
    for index, (_, tensors) in enumerate(fused):
        for name in tensors:
            yield name, index


def _fused_slots(
    cascade: Cascade, einsums: Sequence[Einsum], overwriting: frozenset[str], mapspace: Mapspace
) -> list[tuple[Slot, tuple[str, ...]]] | None:
    """Slots of tensors made in the group and read in it, each with the tensors it stores in turn."""
    inside = {e.name for e in einsums}
    slots: list[tuple[Slot, tuple[str, ...]]] = []
    done: set[str] = set()
    for einsum in einsums:
        if einsum.name in done or not any(user.name in inside for user in cascade.consumers[einsum.name]):
            continue
        tensors = list(in_place_chain(cascade, einsum.name, overwriting))
        done.update(tensors)
        users = set(tensors) | {
            user.name for name in tensors for user in cascade.consumers[name] if user.name in inside
        }
        leaving = tensors[-1] if leaves(cascade, tensors[-1], inside) else None
        read_inside = any(user.name in inside for user in cascade.consumers[tensors[-1]])
        if leaving and read_inside and not mapspace.fused_outputs:
            return None
        bits = max(cascade.tensors[name].bits for name in tensors)
        ordered = tuple(e.name for e in einsums if e.name in users)
        slots.append((Slot("fused", einsum.name, ordered, einsum.output, bits, leaving), tuple(tensors)))
    return slots


def _apart(cascade: Cascade, slot: Slot, tensors: Sequence[str]) -> frozenset[str]:
    """Ranks by which the users of a slot do not find the same part of its tensors."""
    accesses = (
        access
        for user in slot.users
        for access in (*cascade.by_name[user].inputs, cascade.by_name[user].output)
        if access.tensor in tensors
    )
    return frozenset[str]().union(*(misaligned(slot.access, access) for access in accesses))


def _input_slots(
    cascade: Cascade, einsums: Sequence[Einsum], produced: set[str], mapspace: Mapspace
) -> Iterator[list[Slot]]:
    """Every way to let readers of one input share a fetch."""
    readers: dict[str, list[str]] = {}
    for einsum in einsums:
        for access in einsum.inputs:
            if access.tensor not in produced:
                readers.setdefault(access.tensor, []).append(einsum.name)

    def expand(remaining: list[tuple[str, list[str]]]) -> Iterator[list[Slot]]:
        if not remaining:
            yield []
            return
        (tensor, users), *rest = remaining
        bits = cascade.tensors[tensor].bits
        blocks = _partitions(users) if mapspace.shared_inputs else iter([[[user] for user in users]])
        for partition in blocks:
            head = [
                Slot("input", tensor, tuple(block), cascade.by_name[block[0]].access_of(tensor), bits)
                for block in partition
            ]
            for tail in expand(rest):
                yield head + tail

    yield from expand(list(readers.items()))


def _partitions(items: Sequence[str]) -> Iterator[list[list[str]]]:
    """All set partitions, blocks in order of their first item."""
    if not items:
        yield []
        return
    first, *rest = items
    for partition in _partitions(rest):
        yield [[first], *partition]
        for position, block in enumerate(partition):
            yield [[first, *block], *partition[:position], *partition[position + 1 :]]


def _connected(einsums: Sequence[Einsum], slots: Sequence[Slot]) -> bool:
    reached = {einsums[0].name}
    while True:
        more = {user for slot in slots if reached & set(slot.users) for user in slot.users} - reached
        if not more:
            return len(reached) == len(einsums)
        reached |= more


def _spec(
    cascade: Cascade,
    einsums: tuple[Einsum, ...],
    slots: tuple[Slot, ...],
    stored: Mapping[str, int],
    overwriting: frozenset[str],
    mapspace: Mapspace,
    double_buffer: bool,
    batch_outermost: bool,
) -> GroupSpec | None:
    used = tuple(dict.fromkeys(rank for einsum in einsums for rank in einsum.ranks))
    long = [rank for rank in used if cascade.ranks[rank] > 1]
    pinned = {*mapspace.tiles, *(r for order in mapspace.orders.values() for r in order)}
    pinned |= {rank for ranks in mapspace.residency.values() for rank in ranks}
    everywhere = set(long) if batch_outermost and not mapspace.residency else set()
    for slot in slots:
        everywhere &= set(slot.access.ranks)
    held = [
        [slot.tensor, *(t for t, place in stored.items() if place == at)] for at, slot in enumerate(slots)
    ]
    apart = [_apart(cascade, slot, tensors) for slot, tensors in zip(slots, held, strict=True)]
    everywhere = everywhere.difference(*apart)
    # a rank that a statistic runs over may not be shared by what must wait for it
    fixed = pinned | {barrier.rank for barrier in cascade.barriers}
    batch = tuple(rank for rank in long if rank in everywhere - fixed)
    ranks = tuple(rank for rank in long if rank not in batch)
    index = {einsum.name: position for position, einsum in enumerate(einsums)}
    corrected = _corrected(cascade, index, stored)
    shapes = []
    for position, slot in enumerate(slots):
        pins = {frozenset(mapspace.residency[t]) for t in held[position] if t in mapspace.residency}
        if len(pins) > 1:
            return None
        pin = pins.pop() if pins else None
        shapes.append(
            SlotShape(
                tuple(index[user] for user in slot.users),
                _mask(ranks, slot.access.ranks),
                slot.kind != "fused" or slot.leaving is not None,
                _mask(ranks, (rank for s, rank, _ in corrected if s == position)),
                None if pin is None else _mask(ranks, pin),
                _mask(ranks, apart[position]),
            )
        )
    recompute = [
        stored.get(einsum.name)
        if mapspace.recomputation and not leaves(cascade, einsum.name, set(index))
        else None
        for einsum in einsums
    ]
    shape = Shape(
        ranks=len(ranks),
        node_ranks=tuple(_mask(ranks, einsum.ranks) for einsum in einsums),
        slots=tuple(shapes),
        forbidden=tuple(
            (e, f, mask)
            for e, f, names in _forbidden(cascade, index, stored)
            if (mask := _mask(ranks, names))
        ),
        recompute=tuple(recompute),
        orders=tuple(
            tuple(ranks.index(r) for r in mapspace.orders.get(einsum.name, ()) if r in ranks)
            for einsum in einsums
        ),
        forced=_mask(ranks, (rank for rank, tile in mapspace.tiles.items() if tile < cascade.ranks[rank])),
        double_buffer=double_buffer,
    )
    return GroupSpec(einsums, slots, ranks, batch, overwriting, shape)


def _forbidden(
    cascade: Cascade, index: Mapping[str, int], stored: Mapping[str, int]
) -> Iterator[tuple[int, int, set[str]]]:
    """Loops that the producer and a consumer of a fused tensor must not share.

    Read by other ranks than it was written by, the tensor must be there as a whole.
    """
    for tensor in stored:
        producer = cascade.by_name[tensor]
        for consumer in cascade.consumers[tensor]:
            if consumer.name in index:
                apart = misaligned(producer.output, consumer.access_of(tensor))
                ranks = {*producer.reduction, *apart.intersection(producer.output.ranks)}
                for barrier in cascade.barriers:
                    if barrier.tensor == tensor and not _correctable(cascade, barrier, index):
                        ranks.add(barrier.rank)
                yield index[producer.name], index[consumer.name], ranks


def _correctable(cascade: Cascade, barrier: Barrier, index: Mapping[str, int]) -> bool:
    """An online barrier is no barrier while all corrected Einsums run in the group."""

    return (
        barrier.mode == "online"
        and all(name in index for name in barrier.corrects)
        and not leaves(cascade, barrier.tensor, set(index))
    )


def _corrected(
    cascade: Cascade, index: Mapping[str, int], stored: Mapping[str, int]
) -> tuple[tuple[int, str, str], ...]:
    """`(slot, rank, output)`: a loop over `rank` outside the slot makes `output` be rescaled."""
    found = []
    for barrier in cascade.barriers:
        if barrier.tensor in stored and _correctable(cascade, barrier, index):
            for name in barrier.corrects:
                if any(access.tensor == barrier.tensor for access in cascade.by_name[name].inputs):
                    found.append((stored[barrier.tensor], barrier.rank, name))
    return tuple(dict.fromkeys(found))


def corrections(cascade: Cascade, spec: GroupSpec) -> tuple[tuple[int, str, str], ...]:
    """`(slot index, rank, corrected output)` of the online barriers inside the group."""
    index = {einsum.name: position for position, einsum in enumerate(spec.einsums)}
    stored: dict[str, int] = {}
    for position, slot in enumerate(spec.slots):
        if slot.kind == "fused":
            for name in in_place_chain(cascade, slot.tensor, spec.overwriting):
                stored[name] = position
    return _corrected(cascade, index, stored)
