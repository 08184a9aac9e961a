"""Buffers: one for every use of a tensor at a level that holds it, shared where tensors are fused."""

from __future__ import annotations

from collections.abc import Iterator

from exactile.formulation.core.check_structure import label
from exactile.formulation.core.facts import Facts
from exactile.formulation.faults import nearest
from exactile.formulation.hardware import Level
from exactile.formulation.mapping import Buffer, Group


def holds(facts: Facts, level: Level, tensor: str) -> bool:
    """Whether a level keeps a tensor: `holds` names it or its role, or everything."""
    return level.holds is None or tensor in level.holds or facts.cascade.tensors[tensor].role in level.holds


def overwritten(facts: Facts, group: Group, name: str) -> str | None:
    """The tensor in whose buffer an in-place Einsum writes, `None` for an ordinary Einsum.

    Follows chains: `R` overwrites `P`, which overwrites `S`.
    """
    owned = {buffer.tensor: len(buffer.users) > 1 for buffer in group.buffers}
    current = name
    while current not in owned:
        einsum = facts.einsums.get(current)
        if einsum is None or einsum.einsum.in_place is None or current not in group.order:
            return None
        current = einsum.einsum.in_place
    return current if current != name and owned[current] else None


def stored(facts: Facts, group: Group, buffer: Buffer) -> tuple[str, ...]:
    """The tensors of a buffer: its own, and those written over it in place."""
    over = [name for name in group.order if overwritten(facts, group, name) == buffer.tensor]
    return (buffer.tensor, *(name for name in over if len(buffer.users) > 1 and name in buffer.users))


def buffer_faults(facts: Facts, group: Group, boundary: int) -> Iterator[str]:
    """All faults of the buffers of a group at the level below `boundary`, but for their places."""
    level = facts.hardware.levels[boundary + 1]
    where = f"{label(group)} at {level.name}"
    for buffer in group.buffers:
        yield from _one(facts, group, buffer, level, where)
    yield from _coverage(facts, group, level, where)


def _one(facts: Facts, group: Group, buffer: Buffer, level: Level, where: str) -> Iterator[str]:
    tensors = facts.cascade.tensors
    name = buffer.tensor
    if name not in tensors:
        yield f"{where}: buffer for the unknown tensor '{name}'{nearest(name, tensors)}"
        return
    if not holds(facts, level, name):
        yield f"{where}: {name} has a buffer, but {level.name} does not hold it"
    for over in stored(facts, group, buffer)[1:]:
        if not holds(facts, level, over):
            yield f"{where}: {over} overwrites {name} in place, but {level.name} does not hold it"
    if not buffer.users:
        yield f"{where}: the buffer of {name} has no users"
    places = []
    inside = stored(facts, group, buffer)
    for user in buffer.users:
        if user not in group.order:
            yield f"{where}: the buffer of {name} is used by {user}, which is not in the group"
            continue
        places.append(group.order.index(user))
        if not any(use.tensor in inside for use in facts.einsums[user].uses):
            yield (
                f"{where}: {user} is listed as a user of the buffer of {name}, which it "
                "neither reads nor writes"
            )
    if len(set(buffer.users)) < len(buffer.users):
        yield f"{where}: the buffer of {name} lists a user twice ({', '.join(buffer.users)})"
    elif places != sorted(places):
        yield (
            f"{where}: the users of the buffer of {name} ({', '.join(buffer.users)}) are "
            "not in execution order"
        )
    for rank in sorted(buffer.outside):
        if rank not in facts.cascade.ranks:
            yield (
                f"{where}: unknown rank '{rank}' outside the buffer of "
                f"{name}{nearest(rank, facts.cascade.ranks)}"
            )


def _coverage(facts: Facts, group: Group, level: Level, where: str) -> Iterator[str]:
    """One buffer per use where the level holds the tensor; a fused tensor has one for all its users."""
    cascade = facts.cascade
    boxes = [
        (buffer, stored(facts, group, buffer)) for buffer in group.buffers if buffer.tensor in cascade.tensors
    ]
    tensors = dict.fromkeys(use.tensor for name in group.order for use in facts.einsums[name].uses)
    for tensor in tensors:
        users = [n for n in group.order if any(use.tensor == tensor for use in facts.einsums[n].uses)]
        base = overwritten(facts, group, tensor) if tensor in group.order else None
        fused = tensor in group.order and len(users) > 1
        if fused and not holds(facts, level, tensor):
            yield f"{where}: {tensor} is written and read in the group, but {level.name} does not hold it"
        for user in users:
            count = sum(user in buffer.users and tensor in inside for buffer, inside in boxes)
            if count > 1:
                yield f"{where}: {user} uses {tensor} from {count} buffers, expected one"
            elif count == 0 and base is not None:
                yield f"{where}: {tensor} overwrites {base}, so {user} must be a user of the buffer of {base}"
            elif count == 0 and holds(facts, level, tensor):
                yield f"{where}: {tensor} has no buffer for {user}"
        if fused and base is None:
            private = [b for b, inside in boxes if tensor in inside and not set(users) <= set(b.users)]
            if private:
                yield (
                    f"{where}: {tensor} is written and read in the group and needs one buffer "
                    f"for {', '.join(users)}, got one for {', '.join(private[0].users)}"
                )
    yield from _overwriting(facts, group, where)


def _overwriting(facts: Facts, group: Group, where: str) -> Iterator[str]:
    """An Einsum may overwrite only what was written in its group and nobody needs any more."""
    for name in group.order:
        base = overwritten(facts, group, name)
        target = facts.einsums[name].einsum.in_place
        if base is None or target is None:
            continue
        if target not in group.order:
            yield (
                f"{where}: {name} cannot overwrite {target}, which is written outside the "
                "group; give it a buffer"
            )
            continue
        for reader in facts.cascade.consumers[target]:
            if reader.name not in group.order:
                yield (
                    f"{where}: {name} cannot overwrite {target}, which {reader.name} outside the group reads"
                )
            elif reader.name != name and group.order.index(reader.name) > group.order.index(name):
                yield f"{where}: {name} overwrites {target} before {reader.name} has read it"
