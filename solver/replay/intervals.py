"""The part of a rank that is being worked on: one interval per instance along that rank.

A spatial split turns every interval into blocks, a temporal tile cuts the same piece out of each
block; an interval that ends early is ragged, one that is used up is empty but keeps its place, since
all instances step together.

    split([0, 7) in 2) = [0, 4) [4, 7);   tile 1 of size 3 = [3, 4) [7, 7)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exactile.formulation.mapping import Loop

Intervals = tuple[tuple[int, int], ...]
View = dict[str, Intervals]


def split(intervals: Intervals, size: int, parts: int) -> Intervals:
    """Blocks for `parts` instances of the intervals of a tile of full size `size`."""
    block = -(-size // parts)
    return tuple(
        (min(stop, start + i * block), min(stop, start + (i + 1) * block))
        for start, stop in intervals
        for i in range(parts)
    )


def cut(intervals: Intervals, offset: int, tile: int) -> Intervals:
    """The tile at `offset` of every block."""
    return tuple((min(stop, start + offset), min(stop, start + offset + tile)) for start, stop in intervals)


def length(intervals: Intervals) -> int:
    """Elements in all intervals together."""
    return sum(stop - start for start, stop in intervals)


def elements(view: Mapping[str, Intervals], ranks: Iterable[str]) -> int:
    """Elements of the part of a tensor with these ranks, all instances together."""
    total = 1
    for rank in ranks:
        total *= length(view[rank])
    return total


def origin(view: Mapping[str, Intervals], ranks: Iterable[str]) -> tuple[int, ...]:
    """What tells one tile from another: where it starts in every rank."""
    return tuple(view[rank][0][0] for rank in ranks)


def trips(size: int, loop: Loop) -> int:
    """How often a loop runs over a block of `size`."""
    return -(-size // loop.tile)
