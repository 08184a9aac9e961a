"""The boundary below the buffer: what the use of a compute unit reads, writes and takes.

Everything an Einsum does there is its operand, padded to whole tiles, times one factor that the tiles of
the other ranks and the use of the unit decide (read again per pass and per fold of the array), times the
number of executions. The factors come from the same tables as everywhere (`encoding.inner`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np
import numpy.typing as npt

from exactile.formulation.einsum import Access, Einsum
from exactile.formulation.encoding.bounds import width
from exactile.formulation.encoding.inner import PassCounts, pass_counts, unit_families
from exactile.formulation.encoding.inner_cost import InnerCost, inner_costs
from exactile.formulation.encoding.metrics import EXACT_LIMIT, MetricSpace, access_vector
from exactile.formulation.families.amounts import Amounts
from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.lookup import Table, lookup
from exactile.formulation.families.model import Linear, Lit, Model, Quantity
from exactile.formulation.families.traffic import repetitions
from exactile.formulation.units import point_cost

Floats = npt.NDArray[np.float64]

MOST_ENTRIES = 1 << 24
"""Entries of a table of all tiles and uses that are looked through for lower bounds."""


class UnitUse:
    """How one Einsum uses its unit: one literal per use, and the amounts that follow."""

    def __init__(self, decisions: Decisions, amounts: Amounts, position: int) -> None:
        self.decisions, self.amounts, self.position = decisions, amounts, position
        self.layout, self.model = decisions.layout, decisions.model
        self.einsum: Einsum = self.layout.einsums[position]
        problem = self.layout.problem
        self.families = unit_families(
            problem.hardware, self.einsum, problem.cascade.ranks, cycles=not self.layout.additive
        )
        self.members = [(f, m) for f, family in enumerate(self.families) for m in range(len(family))]
        self.literals = self._literals()
        self.repeated = repetitions(decisions, position)

    def _literals(self) -> list[Lit]:
        if len(self.members) == 1:
            return [Model.TRUE]
        found = [self.model.boolean(f"use[{self.einsum.name},{f},{m}]") for f, m in self.members]
        self.model.exactly_one(found)
        return found

    def add(self) -> None:
        """All amounts of the Einsum below the buffer."""
        level, tensors = self.layout.problem.hardware.levels[-1], self.layout.problem.cascade.tensors
        accesses = [*self.einsum.inputs, self.einsum.output]
        for index, access in enumerate(accesses):
            bits = tensors[access.tensor].bits
            kind = "write" if index == len(accesses) - 1 else "read"
            vector = access_vector(level, kind, bits, False)
            if any(vector.values()):
                self._add(self._moved(index, access), vector)
        vector = access_vector(level, "read", tensors[self.einsum.name].bits, False)
        if any(vector.values()):
            # partial results are read back, all but the first of every element
            self._add(self._moved(len(accesses) - 1, self.einsum.output, -1), vector)
        self._computation()

    def _add(self, count: Linear, vector: Mapping[str, Fraction]) -> None:
        self.amounts.add(self.position, count, vector, inner=True)

    def _own(self, ranks: Iterable[str]) -> list[str]:
        return [rank for rank in self.einsum.ranks if rank in set(ranks) and rank in self.layout.ranks]

    def _moved(self, index: int, access: Access, less: int = 0) -> Linear:
        """Values of one operand read or written, all passes and executions; `less` changes the factor."""
        own = set(access.ranks)
        held = any(family.order for family in self.families)
        others = self._own(set(self.einsum.ranks) if held else set(self.einsum.ranks) - own)
        tables = self._classes(
            f"{self.einsum.name}.{index}",
            self._tables(others, own, index) + less,
        )
        name = f"{'read back' if less else 'moved'}[{self.einsum.name},{access.tensor}]"
        factor = lookup(self.model, name, [self._trips(rank) for rank in others], tables)
        pads = [self._padded(rank) for rank in self._own(own)]
        fixed = self._outside_size(own)
        return self.model.product(name, [factor, *pads, *self.repeated]).times(fixed)

    def _outside_size(self, own: Iterable[str]) -> int:
        """Values of a tensor along the ranks that have no loop decisions."""
        extents = self.layout.problem.cascade.ranks
        size = 1
        for rank in own:
            if rank not in self.layout.ranks:
                size *= extents[rank]
        return size

    def _trips(self, rank: str) -> tuple[Lit, ...]:
        return self.decisions.reach[self.position, rank]

    def _padded(self, rank: str) -> Quantity:
        """The extent of a rank with every tile padded to full size."""
        candidates = self.layout.candidates(self.position, rank)
        return self.decisions.by_trips(self.position, rank, [n * t for n, t in candidates])

    def _grid(self, axes: Sequence[str]) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Tiles and trips of every rank over the grid of the candidates of `axes`, 1 elsewhere."""
        tiles = {rank: np.ones((1,) * max(1, len(axes))) for rank in self.einsum.ranks}
        trips = dict(tiles)
        for axis, rank in enumerate(axes):
            candidates = np.array(self.layout.candidates(self.position, rank), dtype=np.float64)
            shape = [len(candidates) if a == axis else 1 for a in range(len(axes))]
            trips[rank], tiles[rank] = (column.reshape(shape) for column in candidates.T)
        return tiles, trips

    def _all_uses(self, axes: Sequence[str], pick: Callable[[PassCounts], Floats]) -> Floats:
        """`[use, *axes]`: one of the counts of a pass times the passes, for every use."""
        tiles, trips = self._grid(axes)
        passes = prod(trips.values(), start=np.ones(1))
        found = []
        for family in self.families:
            counts = pick(pass_counts(self.layout.problem.hardware, self.einsum, family, tiles))
            found.append(np.broadcast_to(counts, (len(family), *passes.shape)) * passes)
        return np.concatenate(found)

    def _tables(self, axes: Sequence[str], own: set[str], index: int) -> Table:
        """How often an operand moves, over the tiles of `axes`: accesses of all passes by padded size."""
        total = self._all_uses(axes, lambda c: c.writes if index == len(c.reads) else c.reads[index])
        tiles, trips = self._grid(axes)
        padded = prod((tiles[rank] * trips[rank] for rank in axes if rank in own), start=np.ones(1))
        return _whole(total / padded, axes)

    def _classes(self, name: str, tables: Table) -> list[tuple[Lit, Table]]:
        """The distinct tables, each with a literal for the uses that have it."""
        distinct, kinds = np.unique(tables, axis=0, return_inverse=True)
        if len(distinct) == 1:
            return [(Model.TRUE, distinct[0])]
        classes = []
        for number, table in enumerate(distinct):
            uses = np.flatnonzero(kinds.ravel() == number).tolist()
            literal = self.literals[uses[0]]
            if len(uses) > 1:
                literal = self.model.boolean(f"class[{name},{number}]")
                for use in uses:
                    self.model.implies((self.literals[use],), literal)
            classes.append((literal, table))
        self.model.exactly_one([literal for literal, _ in classes])
        return classes

    def _computation(self) -> None:
        """Operations, energy of the points, and busy cycles of the unit."""
        problem = self.layout.problem
        points = problem.cascade.points(self.einsum)
        executed = self.model.product(f"executions[{self.einsum.name}]", self.repeated)
        operations = sum(self.einsum.cost.values(), Fraction(0)) * points
        self._add(executed, {"operations": operations})
        for unit, literals in self._by_unit().items():
            cost = point_cost(problem.hardware, self.einsum, problem.hardware.unit(unit))
            chosen = literals[0] if len(literals) == 1 else self._any(unit, literals)
            name = f"[{self.einsum.name},{unit}]"
            energy = self.model.where("executed" + name, executed, (chosen,), floor=1)
            self._add(energy, {"energy": cost.energy * points})
            if not self.layout.additive:
                steps = self.model.where("busy" + name, self._steps(unit), (chosen,), floor=1)
                self._add(steps, {f"unit:{unit}": cost.cycles})

    def _any(self, unit: str, literals: Sequence[Lit]) -> Lit:
        if len(literals) == len(self.members):
            return Model.TRUE
        chosen = self.model.boolean(f"unit[{self.einsum.name},{unit}]")
        for literal in literals:
            self.model.implies((literal,), chosen)
        self.model.implies((chosen,), *literals)
        return chosen

    def _by_unit(self) -> Mapping[str, list[Lit]]:
        found: dict[str, list[Lit]] = {}
        for (f, _), literal in zip(self.members, self.literals, strict=True):
            found.setdefault(self.families[f].unit.name, []).append(literal)
        return found

    def _steps(self, unit: str) -> Linear:
        """Steps of the unit over all passes and executions: one factor per role of ranks."""
        mine = np.array([self.families[f].unit.name == unit for f, _ in self.members])
        kind = self.layout.problem.hardware.unit(unit).kind
        factors = []
        for ranks in self._roles(kind):
            tables = _whole(self._all_uses(ranks, lambda c: c.steps), ranks)
            # on other units the steps of this one do not matter
            tables[~mine] = tables[mine].min(axis=0)
            name = f"steps[{self.einsum.name},{unit},{'.'.join(ranks)}]"
            choices = [self._trips(rank) for rank in ranks]
            factors.append(lookup(self.model, name, choices, self._classes(name, tables)))
        problem = self.layout.problem
        least = -(
            -problem.cascade.points(self.einsum) // width(problem.hardware, problem.hardware.unit(unit))
        )
        name = f"steps[{self.einsum.name},{unit}]"
        return self.model.product(name, [*factors, *self.repeated], least=least)

    def floors(self, name: str, space: MetricSpace) -> Iterator[Quantity]:
        """Per rank the least that any use of a unit adds to a metric, by the tile of that rank (scaled).

        Nothing where the table of all tiles and uses is too large to look through.
        """
        problem, axes = self.layout.problem, self._own(self.einsum.ranks)
        tiles, trips = self._grid(axes)
        if np.broadcast(*trips.values()).size * len(self.members) > MOST_ENTRIES:
            return
        # batch ranks: one at a time, every one of them
        extents = problem.cascade.ranks
        trips |= {rank: trips[rank] * extents[rank] for rank in self.einsum.ranks if rank not in axes}
        found = []
        for family in self.families:
            cost = InnerCost.of(problem, space, self.einsum, family.unit.name, name)
            part = inner_costs(problem, self.einsum, family, tiles, trips, {name: cost})[name]
            shape = np.broadcast_shapes(part.shape[1:], *(column.shape for column in trips.values()))
            found.append(np.broadcast_to(part, (len(part), *shape)).min(axis=0))
        least = np.minimum.reduce(found)
        for axis, rank in enumerate(axes):
            others = tuple(a for a in range(len(axes)) if a != axis)
            values = least.min(axis=others) if others else least
            # rounded down by more than floats can be off; values below 2^53 are exact
            exact = [int(v) if v < EXACT_LIMIT else int(v * (1 - 1e-12)) for v in values.tolist()]
            yield self.decisions.by_trips(self.position, rank, exact)

    def _roles(self, kind: str) -> list[list[str]]:
        """Ranks whose tiles decide the steps together; the steps are the product over these."""
        own = self._own(self.einsum.ranks)
        if kind == "vector":
            return [own]
        if kind == "free":
            return [[rank] for rank in own]
        first, second = (set(access.ranks) for access in self.einsum.inputs)
        output = set(self.einsum.output.ranks)
        sets = (first & output - second, first & second - output, second & output - first)
        roles = [self._own(role) for role in sets]
        return [*(role for role in roles if role), *([rank] for rank in self._own(first & second & output))]


def _whole(table: Floats, axes: Sequence[str]) -> Table:
    """`[use, *axes]` in whole numbers, without the axis that stands for none."""
    whole = np.rint(table).astype(np.int64)
    return whole if axes else whole.reshape(len(whole))


def add_units(decisions: Decisions, amounts: Amounts) -> list[UnitUse]:
    """The boundary below the buffer of every Einsum."""
    uses = [UnitUse(decisions, amounts, position) for position in range(len(decisions.layout.einsums))]
    for use in uses:
        use.add()
    return uses
