"""What a search keeps: one lexicographic best, or a Pareto front; both prune by lower bounds.

Values are scaled quantities in float64. They are integers, exact below 2**53; above that `slack` keeps
everything that could be a tie, and exact rescoring decides (`solver.mmee.search`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Keep = npt.NDArray[np.bool_]
Payload = Sequence[Any]


class Goal(Protocol):
    """`keys` are the quantities compared. Rows of `values` are candidates, columns are keys."""

    keys: tuple[str, ...]

    def keep(self, values: Floats) -> Keep:
        """Which candidates, or lower bounds of candidates, could still improve the goal."""
        ...

    def offer(self, values: Floats, payload: Payload) -> None:
        """Take candidates that are feasible."""
        ...

    def results(self) -> list[tuple[Floats, Any]]:
        """The values kept and their payload."""
        ...


class Lexicographic:
    """The least vector in lexicographic order."""

    def __init__(self, keys: tuple[str, ...], slack: float = 0.0) -> None:
        self.keys, self.slack = keys, slack
        self.best: Floats | None = None
        self.found: list[tuple[Floats, Any]] = []

    def keep(self, values: Floats) -> Keep:
        if self.best is None:
            return _finite(values)
        if self.slack:
            return np.asarray(values[:, 0] <= self.best[0] * (1 + self.slack))
        return lexicographically_less(values, self.best)

    def offer(self, values: Floats, payload: Payload) -> None:
        for row in np.flatnonzero(self.keep(values)).tolist():
            value = values[row]
            if self.best is None or tuple(value) < tuple(self.best):
                self.best = value
                self.found = [
                    (v, p) for v, p in self.found if self.slack and v[0] <= value[0] * (1 + self.slack)
                ]
            if not any(np.array_equal(value, v) for v, _ in self.found):
                self.found.append((value, payload[row]))

    def results(self) -> list[tuple[Floats, Any]]:
        return self.found


def lexicographically_less(values: Floats, best: Floats) -> Keep:
    """Rows that come before `best`; infinite rows never do."""
    less = np.zeros(len(values), dtype=bool)
    equal = np.ones(len(values), dtype=bool)
    for column in range(values.shape[1]):
        less |= equal & (values[:, column] < best[column])
        equal &= values[:, column] == best[column]
    return less


def _finite(values: Floats) -> Keep:
    return np.asarray(np.isfinite(values).all(axis=1))


class Front:
    """All vectors that no other is at least as good as in every key, among those that `admit` lets in."""

    def __init__(self, keys: tuple[str, ...], admit: Callable[[Floats], Keep]) -> None:
        self.keys, self._admit = keys, admit
        self.points: Floats = np.empty((0, len(keys)))
        self.payload: list[Any] = []

    def keep(self, values: Floats) -> Keep:
        mask = _finite(values)
        mask[mask] = self._admit(values[mask])
        for point in self.points:
            if not mask.any():
                break
            mask &= ~(values >= point).all(axis=1)
        return mask

    def offer(self, values: Floats, payload: Payload) -> None:
        rows = np.flatnonzero(self.keep(values))
        if not len(rows):
            return
        rows = rows[np.lexsort(values[rows].T[::-1])]
        chosen: list[int] = []
        for row in rows:
            if not chosen or not (values[chosen] <= values[row]).all(axis=1).any():
                chosen.append(int(row))
        new = values[chosen]
        old = np.array([not (new <= point).all(axis=1).any() for point in self.points], dtype=bool)
        self.payload = [p for p, keep in zip(self.payload, old, strict=True) if keep] + [
            payload[r] for r in chosen
        ]
        self.points = np.concatenate([self.points[old], new])

    def results(self) -> list[tuple[Floats, Any]]:
        return list(zip(self.points, self.payload, strict=True))
