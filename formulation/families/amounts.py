"""Amounts: what a mapping does, as growing sums of variables, with what one of it adds to each metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from exactile.formulation.families.model import Linear


@dataclass(frozen=True)
class Amount:
    """`count` times `vector` (metrics of `encoding.metrics`), on behalf of the Einsum at position `at`.

    `inner`: it happens below the buffer.
    """

    at: int
    count: Linear
    vector: Mapping[str, Fraction]
    inner: bool = False


@dataclass
class Amounts:
    """All amounts of a model."""

    found: list[Amount] = field(default_factory=list)

    def add(self, at: int, count: Linear, vector: Mapping[str, Fraction], *, inner: bool = False) -> None:
        if count.constant or count.terms:
            self.found.append(Amount(at, count, vector, inner))
