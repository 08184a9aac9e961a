"""The restrictions of a mapspace that a mapping may break."""

from __future__ import annotations

from collections.abc import Iterator

from exactile.formulation.core.check_structure import label
from exactile.formulation.core.facts import Facts
from exactile.formulation.core.footprint import leaves
from exactile.formulation.core.tree import Held, Nest, Tree, outward
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Mapspace


def mapping_restrictions(facts: Facts, mapping: Mapping, mapspace: Mapspace) -> Iterator[str]:
    """Restrictions on the partition and the execution order."""
    groups = [group.order for group in mapping.groups]
    if mapspace.fusion == "none":
        for order in groups:
            if len(order) > 1:
                yield f"the problem forbids fusion, but {', '.join(order)} are one group"
    elif mapspace.fusion != "free":
        wanted = {frozenset(group) for group in mapspace.fusion}
        for order in groups:
            if frozenset(order) not in wanted:
                asked = " | ".join(", ".join(group) for group in mapspace.fusion)
                yield f"the problem asks for the groups {asked}, but {', '.join(order)} is one"
    if mapping.kept_between_groups and not mapspace.between_groups:
        yield f"the problem forbids keeping tensors between groups ({', '.join(mapping.kept_between_groups)})"
    written = [name for name in facts.einsums if any(name in order for order in groups)]
    executed = [name for order in groups for name in order if name in facts.einsums]
    if mapspace.order == "given" and executed != written:
        yield f"the problem asks for the written order {', '.join(written)}, got {', '.join(executed)}"


def tree_restrictions(facts: Facts, tree: Tree, mapspace: Mapspace) -> Iterator[str]:
    """Restrictions on one group at boundary 0."""
    where = label(tree.group)
    for name, nest in tree.nests.items():
        foreign = [rank for rank in nest.ranks[: nest.shared] if rank not in nest.einsum.ranks]
        if foreign and not mapspace.recomputation:
            yield (
                f"{where}: the problem forbids recomputation, but loop "
                f"{', '.join(foreign)} executes {name} again"
            )
        yield from _order(where, name, nest, mapspace)
        for rank, tile in mapspace.tiles.items():
            if rank in nest.einsum.ranks and nest.tile[rank] != min(tile, nest.block[rank]):
                yield f"{where}: the problem pins the tile of {rank} to {tile}, {name} uses {nest.tile[rank]}"
    for held in tree.held:
        written = [tensor for tensor in held.tensors if tensor in tree.nests]
        if held.shared and not written and not mapspace.shared_inputs:
            yield (
                f"{where}: the problem forbids shared inputs, but {', '.join(held.buffer.users)} share "
                f"one buffer of {held.buffer.tensor}"
            )
        for tensor in written:
            read = any(user.name in tree.nests for user in facts.cascade.consumers[tensor])
            if read and held.shared and not mapspace.fused_outputs and leaves(facts, tree, tensor):
                yield f"{where}: the problem forbids fusing {tensor}, which is also needed outside the group"
        for tensor in held.tensors:
            if tensor in mapspace.residency:
                yield from _residency(facts, tree, held, tensor, mapspace.residency[tensor])


def _order(where: str, name: str, nest: Nest, mapspace: Mapspace) -> Iterator[str]:
    """A pinned order may name loops that have one trip and are absent; the others must follow it."""
    pinned = mapspace.orders.get(name)
    if pinned is None:
        return
    if nest.ranks != tuple(rank for rank in pinned if rank in nest.ranks):
        yield (
            f"{where}: the problem pins the loops of {name} to {' '.join(pinned)}, got {' '.join(nest.ranks)}"
        )


def _residency(facts: Facts, tree: Tree, held: Held, tensor: str, pinned: frozenset[str]) -> Iterator[str]:
    """Equal to the pin once trip-1 loops are gone and private buffers moved outward.

    A pinned loop of any user of the buffer has to be outside it.
    """
    if not all(_placed(facts, tree.nests[user], held, pinned) for user in held.buffer.users):
        got = ", ".join(sorted(held.buffer.outside)) or "none"
        yield (
            f"{label(tree.group)}: the problem pins the loops outside the buffer of {tensor} to "
            f"{', '.join(sorted(pinned)) or 'none'}, got {got}"
        )


def _placed(facts: Facts, nest: Nest, held: Held, pinned: frozenset[str]) -> bool:
    """Whether the pinned loops of a nest are its first ones, and the buffer is inside just these."""
    wanted = tuple(rank for rank in nest.ranks if rank in pinned)
    depth = len(wanted)
    if not held.shared and wanted == nest.ranks[:depth]:
        depth = outward(facts, nest, held.buffer.tensor, depth)
    return wanted == nest.ranks[: len(wanted)] and depth == held.depth


def divisor_faults(facts: Facts, tree: Tree, boundary: int) -> Iterator[str]:
    """With divisor tilings every tile divides what it tiles."""
    above = facts.hardware.levels[boundary].name
    for name, nest in tree.nests.items():
        for rank in nest.ranks:
            extent = nest.block.get(rank) or facts.cascade.ranks[rank]
            if extent % nest.tile[rank]:
                yield (
                    f"{label(tree.group)}: {name} tiles {rank} below {above} by "
                    f"{nest.tile[rank]}, which does not "
                    f"divide {extent} (the problem asks for divisors)"
                )
