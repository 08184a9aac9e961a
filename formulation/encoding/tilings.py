"""Tile candidates of a rank: one tile per distinct trip count, the smallest (never worse)."""

from __future__ import annotations

from math import isqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def tile_candidates(
    extent: int, sizes: Literal["divisors", "all"], pinned: int | None = None
) -> tuple[Integers, Integers]:
    """`(trips, tiles)`, both of one length, by rising trip count.

    `divisors`: the tiles that divide the extent. `all`: the smallest tile for each trip count
    ⌈extent/tile⌉, about 2√extent of them. `pinned` fixes the tile.
    """
    root = isqrt(extent) + 1
    small = np.arange(1, min(root, extent) + 1, dtype=np.int64)
    if pinned is not None:
        tiles = np.array([pinned], dtype=np.int64)
    elif sizes == "divisors":
        low = small[extent % small == 0]
        tiles = np.concatenate([low, extent // low])
    else:
        tiles = np.concatenate([small, -(-extent // small)])
    trips = -(-extent // tiles)
    # np.unique keeps the first of equal trip counts, so sort by tile to keep the smallest
    order = np.lexsort((tiles, trips))
    trips, tiles = trips[order], tiles[order]
    trips, first = np.unique(trips, return_index=True)
    return trips, tiles[first]
