"""Space: the footprint of every buffer, which buffers live while an Einsum runs, and the peak.

A buffer is reserved on entering the body of the loops outside it. So it lives while `f` runs if `f`
uses it, if `f` shares *more* loops with one of its users than lie outside the buffer, or, for a
shared buffer, if `f` runs between its first and its last user inside those loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactile.formulation.core.facts import Facts
from exactile.formulation.core.tree import Held, Tree


def footprint(facts: Facts, tree: Tree, held: Held, doubled: bool) -> int:
    """Bits of a buffer: tile extents for the loops outside, the whole block for all other ranks.

    Never trip count times tile, which exceeds the extent of a ragged rank. Of tensors that overwrite
    each other in place the widest counts.
    """
    nest = tree.nests[held.buffer.users[0]]
    outside = nest.ranks[: held.depth]
    values = 1
    for rank in nest.einsum.ranks_of(held.buffer.tensor):
        values *= nest.tile[rank] if rank in outside else nest.block[rank]
    width = max(facts.cascade.tensors[tensor].bits for tensor in held.tensors)
    return values * width * (2 if doubled else 1)


def lives(tree: Tree, held: Held, einsum: str) -> bool:
    """Whether a buffer holds space while `einsum` runs. Any user may keep it alive."""
    users = held.buffer.users
    if einsum in users:
        return True
    deepest = max(tree.common.get((user, einsum), 0) for user in users)
    if deepest > held.depth:
        return True
    if len(users) < 2 or deepest < held.depth:
        return False
    positions = [tree.group.order.index(user) for user in users]
    return min(positions) < tree.group.order.index(einsum) < max(positions)


def live_sets(facts: Facts, way: Sequence[Tree]) -> dict[str, tuple[tuple[str, int], ...]]:
    """Per Einsum of the last tree of `way`, the tensors that live while it runs, with bits.

    `way`: the trees from boundary 0 inwards; the tensors live at the level behind the last one.
    """
    *above, tree = way
    double = facts.hardware.levels[len(way)].double_buffer
    sizes = [
        (held, footprint(facts, tree, held, double and crosses_again(facts, tree, held, above)))
        for held in tree.held
    ]
    return {
        einsum: tuple((held.buffer.tensor, bits) for held, bits in sizes if lives(tree, held, einsum))
        for einsum in tree.group.order
    }


def crosses_again(facts: Facts, tree: Tree, held: Held, above: Sequence[Tree] = ()) -> bool:
    """Whether a buffer's tensor crosses the boundary more than once, so that double buffering helps it.

    A fused intermediate crosses only if it is also needed outside the group. A tensor that is held whole
    for a tile is moved by the loops of outer boundaries (`above`: their trees, outermost first).
    """
    if held.depth == 0:
        return _moved_from_above(above, held.buffer.users[0], held.buffer.tensor)
    writers = [tensor for tensor in held.tensors if tensor in tree.nests and tensor in held.buffer.users]
    return not (held.shared and writers) or any(leaves(facts, tree, tensor) for tensor in writers)


def _moved_from_above(above: Sequence[Tree], einsum: str, tensor: str) -> bool:
    """Whether a loop of an outer boundary brings another tile: a rank of the tensor, or a shared one."""
    for tree in above:
        nest = tree.nests[einsum]
        if nest.shared or any(rank in nest.einsum.ranks_of(tensor) for rank in nest.ranks):
            return True
    return False


def leaves(facts: Facts, tree: Tree, tensor: str) -> bool:
    """Whether a tensor written in the group is an output or is read outside the group."""
    if facts.cascade.tensors[tensor].role == "output":
        return True
    return any(reader.name not in tree.nests for reader in facts.cascade.consumers[tensor])
