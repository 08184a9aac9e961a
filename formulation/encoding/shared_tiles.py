"""Combinations of the tiles of a plan's shared loops: the axis `t` of every score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.plan import Plan

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SharedTiles:
    """Some combinations `t` of shared tiles: per variable the candidate's index, trips and tile."""

    size: int
    index: tuple[Indices, ...]
    trips: tuple[Floats, ...]
    tiles: tuple[Floats, ...]


def shared_tiles(group: Group, plan: Plan, which: Indices) -> SharedTiles:
    """The combinations numbered `which`, in row-major order of the variables' candidates."""
    sizes = [len(group.tilings[variable.bit][0]) for variable in plan.variables]
    index = np.unravel_index(which, sizes) if sizes else ()
    candidates = [group.tilings[variable.bit] for variable in plan.variables]
    return SharedTiles(
        len(which),
        tuple(index),
        tuple(trips[i] for (trips, _), i in zip(candidates, index, strict=True)),
        tuple(tiles[i] for (_, tiles), i in zip(candidates, index, strict=True)),
    )


def shared_count(group: Group, plan: Plan) -> int:
    """How many combinations of shared tiles a plan has."""
    total = 1
    for variable in plan.variables:
        total *= len(group.tilings[variable.bit][0])
    return total
