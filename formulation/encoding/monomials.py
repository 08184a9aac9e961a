"""Monomials: a plan with numbers, ready to be scored as matrix products.

With tile candidates for every loop, each cost of a structure is a sum of monomials in trip counts and
each footprint a sum of monomials in tiles. A monomial splits into a factor of the shared loops (axis
`t`, one column per combination of shared tiles) and a factor of an Einsum's own loops (axis `u`):

    cost[row, t, u] = Σ_m  S[row, m] · A[t, m] · B[m, u]

so scoring all structures and tilings of an Einsum is a matrix product. Everything is an integer below
2**53 held in float64, so the products are exact and capacities are compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def dense(entries: Sequence[Mapping[int, float]], width: int) -> Floats:
    matrix = np.zeros((len(entries), max(width, 1)))
    for row, entry in enumerate(entries):
        for column, value in entry.items():
            matrix[row, column] = value
    return matrix


_KEPT = 1 << 18
"""Own tiles up to which the factors of all of them are kept; more are computed block by block."""


@dataclass(frozen=True)
class Axes:
    """Loops of an Einsum: shared ones by variable number, own ones with the values of their candidates.

    Combinations of own tiles are numbered in row-major order of `private`.
    """

    shared: Mapping[int, int]
    private: Mapping[int, Floats]

    @property
    def combinations(self) -> int:
        """Combinations of own tiles."""
        total = 1
        for values in self.private.values():
            total *= len(values)
        return total


class Monomials:
    """The distinct monomials of one Einsum's rows: products of values of the loops in a set."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes
        self._masks: dict[int, int] = {}
        self._matrix: Floats | None = None

    def __len__(self) -> int:
        return len(self._masks)

    def index(self, mask: int) -> int:
        """The column of the product over the loops of `mask`."""
        return self._masks.setdefault(mask, len(self._masks))

    def _own(self, own: slice) -> Floats:
        """`[monomial, u]`: own factors of all monomials for some own tiles."""
        count = self._axes.combinations
        if count > _KEPT:
            return self._factors(np.arange(*own.indices(count)))
        if self._matrix is None or len(self._matrix) != max(1, len(self._masks)):
            self._matrix = self._factors(np.arange(count))  # a monomial was added
        return self._matrix[:, own]

    def _factors(self, which: npt.NDArray[np.intp]) -> Floats:
        matrix = np.ones((max(1, len(self._masks)), len(which)))
        if self._axes.private:
            index = np.unravel_index(which, [len(values) for values in self._axes.private.values()])
            for (bit, values), place in zip(self._axes.private.items(), index, strict=True):
                chosen = values[place]
                for mask, column in self._masks.items():
                    if mask >> bit & 1:
                        matrix[column] *= chosen
        return matrix

    def product(self, rows: Floats, shared: Sequence[Floats], size: int, own: slice = slice(None)) -> Floats:
        """`[row, t, u]`: the sum over monomials of coefficient · shared factor · own factor, for the own
        tiles `own`."""
        factor = np.ones((size, max(1, len(self._masks))))
        for mask, column in self._masks.items():
            for bit, variable in self._axes.shared.items():
                if mask >> bit & 1:
                    factor[:, column] *= shared[variable]
        left = rows[:, None, :] * factor[None, :, :]
        flat: Floats = left.reshape(-1, left.shape[2]) @ self._own(own)
        return flat.reshape(len(rows), size, -1)
