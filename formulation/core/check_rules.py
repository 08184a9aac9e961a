"""Rules about values: complete results, barriers, recomputation, and what outside readers need."""

from __future__ import annotations

from collections.abc import Iterator

from exactile.formulation.cascade import Barrier
from exactile.formulation.core.check_sharing import shared_loops
from exactile.formulation.core.check_structure import label
from exactile.formulation.core.facts import Facts
from exactile.formulation.core.footprint import leaves
from exactile.formulation.core.tree import Tree
from exactile.formulation.einsum import misaligned


def fused_pairs(facts: Facts, tree: Tree) -> Iterator[tuple[str, str]]:
    """Producer and consumer of every intermediate that stays inside the group."""
    for consumer in tree.group.order:
        for tensor in dict.fromkeys(access.tensor for access in facts.einsums[consumer].einsum.inputs):
            if tensor in tree.nests:
                yield tensor, consumer


def dependency_faults(facts: Facts, tree: Tree) -> Iterator[str]:
    """Rule 1: a consumer finds complete sums, and all of the part that it reads.

    All shared loops count, whichever tensor forces them: a skip connection may share more of them
    than the fused tensor itself.
    """
    for producer, consumer in fused_pairs(facts, tree):
        written = facts.einsums[producer].einsum.output
        apart = misaligned(written, facts.einsums[consumer].use_of(producer).access)
        for rank in shared_loops(tree, producer, consumer):
            if rank in apart.intersection(written.ranks):
                yield (
                    f"{label(tree.group)}: {consumer} would read a part of {producer} that is not there yet: "
                    f"they share loop {rank}, by which {producer} is written and {consumer} does not read it"
                )
            if rank in facts.einsums[producer].reduction:
                yield (
                    f"{label(tree.group)}: {consumer} would read partial sums of "
                    f"{producer}: they share loop {rank}, "
                    f"over which {producer} is summed"
                )


def barrier_faults(facts: Facts, tree: Tree) -> Iterator[str]:
    """Rule 2: declared statistics over whole rows, unless they are online and can be corrected here."""
    pairs = tuple(fused_pairs(facts, tree))
    for barrier in facts.barriers:
        for producer, consumer in pairs:
            if producer != barrier.tensor or barrier.rank not in shared_loops(tree, producer, consumer):
                continue
            reason = _why_row(facts, tree, barrier)
            if reason:
                yield (
                    f"{label(tree.group)}: {producer} and {consumer} share loop "
                    f"{barrier.rank}, but {reason}, so "
                    f"{consumer} needs whole rows of {producer} over {barrier.rank}"
                )
            elif facts.correction is None:
                yield f"no unit of {facts.hardware.name} can rescale {', '.join(barrier.corrects)} (op mul)"


def _why_row(facts: Facts, tree: Tree, barrier: Barrier) -> str | None:
    """Why a barrier is not exempt in this group."""
    if barrier.mode == "row":
        return f"{barrier.tensor} carries a row statistic"
    absent = [name for name in barrier.corrects if name not in tree.nests]
    if absent:
        return f"the online statistic corrects {', '.join(absent)} outside the group"
    if leaves(facts, tree, barrier.tensor):
        return f"{barrier.tensor} is also needed outside the group, where it cannot be corrected"
    return None


def recomputation_faults(facts: Facts, tree: Tree) -> Iterator[str]:
    """Rule 3: what re-executes an Einsum must also give up its fused output, and outputs are made once."""
    where = label(tree.group)
    for name, nest in tree.nests.items():
        foreign = [rank for rank in nest.ranks[: nest.shared] if rank not in nest.einsum.ranks]
        if not foreign:
            continue
        held = tree.holder(name, name)
        if held is None or not held.shared or leaves(facts, tree, name):
            yield (
                f"{where}: loop {', '.join(foreign)} would execute {name} again, but {name} leaves the group "
                f"and must be made once"
            )
            continue
        for rank in foreign:
            if rank not in nest.ranks[: held.depth]:
                yield (
                    f"{where}: loop {rank} executes {name} again, but its result is kept "
                    f"across {rank} and would be "
                    f"counted twice; {rank} must be outside the buffer of {held.buffer.tensor}"
                )
