"""Inner cost: what the uses of a compute unit add to the metrics of an Einsum, whatever is above."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from exactile.formulation.einsum import Einsum
from exactile.formulation.encoding.inner import PassCounts, Tiles, UnitFamily, pass_counts
from exactile.formulation.encoding.metrics import MetricSpace, Vector, access_vector
from exactile.formulation.problem import Problem
from exactile.formulation.units import point_cost

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class InnerCost:
    """Scaled coefficients of one metric on one unit.

    Per read of each input, per write and per read-back of the output, per step, and once per computation
    of all points.
    """

    reads: tuple[float, ...]
    write: float
    read_back: float
    step: float
    once: float

    @classmethod
    def of(cls, problem: Problem, space: MetricSpace, einsum: Einsum, unit: str, name: str) -> InnerCost:
        """The coefficients of metric `name`."""
        level, tensors = problem.hardware.levels[-1], problem.cascade.tensors
        cost = point_cost(problem.hardware, einsum, problem.hardware.unit(unit))
        points = problem.cascade.points(einsum)

        def access(tensor: str, kind: str) -> float:
            return space.coefficient(access_vector(level, kind, tensors[tensor].bits, False), name)

        step: Vector = {f"unit:{unit}": cost.cycles}
        operations = sum(einsum.cost.values()) * Fraction(points)
        once: Vector = {"operations": operations, "energy": cost.energy * points}
        return cls(
            tuple(access(read.tensor, "read") for read in einsum.inputs),
            access(einsum.name, "write"),
            access(einsum.name, "read"),
            space.coefficient(step, name),
            space.coefficient(once, name),
        )

    @property
    def moves(self) -> bool:
        """Whether tiles and the use of the unit matter."""
        return any((*self.reads, self.write, self.read_back, self.step))

    def total(self, counts: PassCounts, passes: Floats, begun: Floats) -> Floats:
        """The metric of all passes of one execution; `begun`: results whose first visit reads nothing."""
        per_pass: Floats = np.zeros(1)
        for coefficient, count in (
            *zip(self.reads, counts.reads, strict=True),
            (self.write + self.read_back, counts.writes),
            (self.step, counts.steps),
        ):
            if coefficient:
                per_pass = per_pass + coefficient * count
        total = per_pass * passes + self.once
        return total - self.read_back * begun if self.read_back else total


def inner_costs(
    problem: Problem,
    einsum: Einsum,
    family: UnitFamily,
    tiles: Tiles,
    trips: Tiles,
    costs: Mapping[str, InnerCost],
) -> dict[str, Floats]:
    """`[member, *tile shapes]` per metric: inner boundary and compute of one execution.

    `tiles[rank]` and `trips[rank]` are arrays that broadcast to the tile shapes.
    """
    counts = pass_counts(problem.hardware, einsum, family, tiles)
    passes = _product(trips, einsum.ranks)[None]
    # every tile padded to full size
    begun = (_product(trips, einsum.output.ranks) * _product(tiles, einsum.output.ranks))[None]
    return {name: cost.total(counts, passes, begun) for name, cost in costs.items()}


def _product(table: Tiles, ranks: Iterable[str]) -> Floats:
    total: Floats = np.ones(1)
    for rank in ranks:
        total = total * table[rank]
    return total
