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
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from exactile.formulation.cascade import Cascade
from exactile.formulation.encoding.inner import UnitFamily, pass_counts, unit_families
from exactile.formulation.encoding.metrics import MetricSpace, Vector, access_vector, add
from exactile.formulation.encoding.plan import NodePlan, Plan, Term
from exactile.formulation.encoding.shape import GroupSpec, corrections
from exactile.formulation.encoding.tilings import tile_candidates
from exactile.formulation.hardware import Hardware
from exactile.formulation.problem import Problem
from exactile.formulation.units import candidates, correction_unit, point_cost

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_TABLE = 1 << 21
"""Values of an inner table computed at once."""


@dataclass(frozen=True)
class SlotCost:
    """Metrics of a slot: `visit` per visit of each value, `once` whatever the residency."""

    visit: Vector
    once: Vector


def slot_costs(cascade: Cascade, hardware: Hardware, spec: GroupSpec) -> tuple[SlotCost, ...]:
    """What moving each slot's tensor across boundary 0 costs, whole tensor, per visit and once."""
    outer, inner = hardware.levels[0], hardware.levels[1]
    found = []
    for slot in spec.slots:
        bits = cascade.tensors[slot.leaving or slot.tensor].bits
        size = cascade.tensors[slot.tensor].size
        fill = add(access_vector(outer, "read", bits, True), access_vector(inner, "write", bits, False))
        drain = add(access_vector(inner, "read", bits, False), access_vector(outer, "write", bits, True))
        if slot.kind == "input":
            cost = SlotCost(_times(fill, size), {})
        elif slot.kind == "output":
            cost = SlotCost(_times(add(fill, drain), size), _times(fill, -size))
        else:
            cost = SlotCost({}, _times(drain, size) if slot.leaving else {})
        found.append(cost)
    return tuple(found)


def _times(vector: Mapping[str, Fraction], factor: int) -> Vector:
    return {name: amount * factor for name, amount in vector.items()}


def operand_vectors(cascade: Cascade, hardware: Hardware, spec: GroupSpec) -> list[Vector]:
    """Metric vectors of the accesses between the last level and the units, for the common scale."""
    level = hardware.levels[-1]
    vectors = []
    for einsum in spec.einsums:
        for access in (*einsum.inputs, einsum.output):
            bits = cascade.tensors[access.tensor].bits
            vectors += [access_vector(level, kind, bits, False) for kind in ("read", "write")]
    return vectors


@dataclass(frozen=True)
class Group:
    """A candidate group of a problem with everything its plans need in common."""

    problem: Problem
    spec: GroupSpec
    space: MetricSpace
    costs: tuple[SlotCost, ...]
    cycles_matter: bool

    @cached_property
    def tilings(self) -> Mapping[int, tuple[Floats, Floats]]:
        """Per rank (bit): trip counts and tiles of its candidates."""
        mapspace = self.problem.mapspace
        found = {}
        for bit, rank in enumerate(self.spec.ranks):
            extent = self.problem.cascade.ranks[rank]
            trips, tiles = tile_candidates(extent, mapspace.tile_sizes, mapspace.tiles.get(rank))
            found[bit] = (trips.astype(np.float64), tiles.astype(np.float64))
        return found

    @cached_property
    def inner_cache(self) -> dict[tuple[int, tuple[int, ...], tuple[str, ...]], dict[str, Floats]]:
        """Inner tables by node, looped ranks and metrics; plans with the same loops share them."""
        return {}

    @cached_property
    def capacity(self) -> float:
        """Bits of level 1, as a float; infinite if unbounded."""
        capacity = self.problem.hardware.levels[1].capacity
        return float("inf") if capacity is None else float(capacity)

    @cached_property
    def families(self) -> tuple[tuple[UnitFamily, ...], ...]:
        """Per node, the uses of the units that can run it."""
        return tuple(
            unit_families(
                self.problem.hardware, einsum, self.problem.cascade.ranks, cycles=self.cycles_matter
            )
            for einsum in self.spec.einsums
        )

    @cached_property
    def corrections(self) -> tuple[tuple[int, int, int, Vector], ...]:
        """`(slot, rank bit, corrected node, metrics per trip)` of the online statistics of the group."""
        cascade, hardware = self.problem.cascade, self.problem.hardware
        found = []
        for slot, rank, output in corrections(cascade, self.spec):
            if rank in self.spec.ranks:
                node = [einsum.name for einsum in self.spec.einsums].index(output)
                vector = correction_vector(cascade, hardware, output)
                found.append((slot, self.spec.ranks.index(rank), node, vector))
        return tuple(found)

    def slot_coefficient(self, slot: int, name: str) -> tuple[float, float]:
        """Scaled cost of a slot in one metric: per visit of the whole tensor, and once."""
        return self._slot_coefficients[name][slot]

    @cached_property
    def _slot_coefficients(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        coefficient = self.space.coefficient
        return {
            name: [(coefficient(cost.visit, name), coefficient(cost.once, name)) for cost in self.costs]
            for name in self.space.names
        }

    def footprint(self, term: Term) -> float:
        """Bits of a slot's buffer apart from the tiles of the loops outside it."""
        slot, shape = self.spec.slots[term.slot], self.spec.shape.slots[term.slot]
        total = slot.bits
        for rank in slot.access.ranks:
            if rank in self.spec.ranks and not term.outside >> self.spec.ranks.index(rank) & 1:
                total *= self.problem.cascade.ranks[rank]
        batched = any(rank in self.spec.batch for rank in slot.access.ranks)
        doubled = self.spec.shape.double_buffer and shape.crossing and (term.outside or batched)
        return float(2 * total if doubled else total)


def correction_vector(cascade: Cascade, hardware: Hardware, output: str) -> Vector:
    """Metrics of rescaling every value of `output` once for an online statistic."""
    unit, cost = correction_unit(hardware)
    size = cascade.tensors[output].size
    lanes = unit.lanes if unit.kind == "vector" else 1
    return {
        "energy": cost.energy * size,
        "operations": Fraction(size),
        f"unit:{unit.name}": cost.cycles * size / lanes,
    }


class NodeScore:
    """One Einsum of a plan, as matrices: rows × (shared tiles `t`) × (own tiles `u`)."""

    def __init__(self, group: Group, plan: Plan, node: NodePlan) -> None:
        self.group, self.plan, self.node = group, plan, node
        self.einsum = group.spec.einsums[node.node]
        self.skeletons = np.array([row.skeleton for row in node.rows], dtype=np.intp)
        own = plan.sharing.own[node.node]
        self._variable = {plan.variables[v].bit: v for v in node.variables}
        self._footprints = _Monomials(self._split(own, tiles=True))
        self._visits = _Monomials(self._split(own, tiles=False))
        self._capacity_rows = self._footprint_rows()
        self._inner_cache: dict[tuple[str, str], tuple[float, ...]] = {}
        self._visit_rows: dict[str, list[dict[int, float]]] = {}
        self._dense_rows: dict[tuple[str, int], Floats] = {}

    @property
    def unknowns(self) -> int:
        """Combinations of own tiles."""
        total = 1
        for bit in self.node.private:
            total *= len(self.group.tilings[bit][0])
        return total

    def _split(self, own: int, *, tiles: bool) -> _Axes:
        which = 1 if tiles else 0
        shared = dict(self._variable.items())
        private = [self.group.tilings[bit][which] for bit in self.node.private]
        return _Axes(shared, dict(zip(self.node.private, _grid(private), strict=True)))

    def _footprint_rows(self) -> Floats:
        """Coefficients of the footprint monomials per row."""
        entries = []
        for row in self.node.rows:
            entry: dict[int, float] = {}
            for term in row.live:
                mask = term.outside & self.group.spec.shape.slots[term.slot].ranks
                index = self._footprints.index(mask)
                entry[index] = entry.get(index, 0.0) + self.group.footprint(term)
            entries.append(entry)
        return _dense(entries, len(self._footprints))

    def _coefficients(self, name: str) -> Floats:
        """Coefficients of the visit monomials per row, for one metric."""
        if name not in self._visit_rows:
            entries = []
            for row in self.node.rows:
                entry: dict[int, float] = {}
                for term in row.own:
                    for mask, value in zip(
                        (term.visits, 0), self.group.slot_coefficient(term.slot, name), strict=True
                    ):
                        if value:
                            index = self._visits.index(mask)
                            entry[index] = entry.get(index, 0.0) + value
                entries.append(entry)
            self._visit_rows[name] = entries
        if (name, len(self._visits)) not in self._dense_rows:
            self._dense_rows[name, len(self._visits)] = _dense(self._visit_rows[name], len(self._visits))
        return self._dense_rows[name, len(self._visits)]

    def feasible(self, rows: Indices, shared: SharedTiles) -> npt.NDArray[np.bool_]:
        """`[row, t, u]`: do the live tiles fit in the buffer?"""
        if self.group.capacity == float("inf"):
            return np.ones((len(rows), shared.size, self.unknowns), dtype=bool)
        used = self._footprints.product(self._capacity_rows[rows], shared.tiles, shared.size)
        return used <= self.group.capacity

    def traffic(self, name: str, rows: Indices, shared: SharedTiles) -> Floats:
        """`[row, t, u]`: what the Einsum's own slots add to one metric at boundary 0."""
        return self._visits.product(self._coefficients(name)[rows], shared.trips, shared.size)

    def peak(self, rows: Indices, shared: SharedTiles) -> Floats:
        """`[row, t, u]`: bits live while the Einsum runs."""
        return self._footprints.product(self._capacity_rows[rows], shared.tiles, shared.size)

    @cached_property
    def _table_axes(self) -> tuple[list[str], list[int]]:
        """Ranks of the Einsum with shared loops, and their variables."""
        ranks, variables = [], []
        for bit, v in self._variable.items():
            rank = self.group.spec.ranks[bit]
            if rank in self.einsum.ranks:
                ranks.append(rank)
                variables.append(v)
        return ranks, variables

    @cached_property
    def _axes(self) -> tuple[tuple[str, int, int], ...]:
        """`(rank, bit, length)` per axis of the inner table: own shared loops, then own loops."""
        bits = [self.plan.variables[v].bit for v in self._table_axes[1]] + list(self.node.private)
        return tuple((self.group.spec.ranks[bit], bit, len(self.group.tilings[bit][0])) for bit in bits)

    @cached_property
    def _grid_shape(self) -> tuple[int, ...]:
        return tuple(length for *_, length in self._axes) or (1,)

    def _tile_table(self, cells: Cells | None) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Tiles and trips of every rank: on the grid of all axes, or of single cells in a row."""
        group = self.group
        extents = group.problem.cascade.ranks
        dims = len(self._grid_shape) if cells is None else 1
        tiles: dict[str, Floats] = {}
        trips: dict[str, Floats] = {}
        for rank in self.einsum.ranks:
            batch = rank in group.spec.batch
            tiles[rank] = np.full((1,) * dims, 1.0 if batch else float(extents[rank]))
            trips[rank] = np.full((1,) * dims, float(extents[rank]) if batch else 1.0)
        index = None if cells is None else self._unravel(cells)
        for axis, (rank, bit, length) in enumerate(self._axes):
            for table, values in zip((trips, tiles), group.tilings[bit], strict=True):
                if index is None:
                    table[rank] = values.reshape([length if a == axis else 1 for a in range(dims)])
                else:
                    table[rank] = values[index[axis]]
        return tiles, trips

    def _unravel(self, cells: Cells) -> tuple[Indices, ...]:
        if not self._axes:
            return ()
        flat = cells.rows * self.unknowns + cells.columns
        return tuple(np.unravel_index(flat, [length for *_, length in self._axes]))

    def inner(
        self, family: UnitFamily, names: Sequence[str], cells: Cells | None = None
    ) -> dict[str, Floats]:
        """`[member, *axes]` or `[member, cell]` per metric: inner boundary and compute, without `ρ`."""
        einsum = self.einsum
        tiles, trips = self._tile_table(cells)
        counts = pass_counts(self.group.problem.hardware, einsum, family, tiles)
        passes = _all_product(trips, einsum.ranks)[None]
        begun = _padded(trips, tiles, einsum.output.ranks)[None]
        found: dict[str, Floats] = {}
        for name in names:
            *reads, write, read_back, step, once = self._inner_coefficients(family.unit.name, name)
            per_pass: Floats = np.zeros(1)
            for coefficient, count in (
                *zip(reads, counts.reads, strict=True),
                (write + read_back, counts.writes),
                (step, counts.steps),
            ):
                if coefficient:
                    per_pass = per_pass + coefficient * count
            total = per_pass * passes + once
            found[name] = total - read_back * begun if read_back else total
        return found

    def _inner_coefficients(self, unit: str, name: str) -> tuple[float, ...]:
        """Scaled coefficients of one metric: per read of each input, per write and read-back of the
        output, per step, and once per computation of all points."""
        key = (unit, name)
        if key not in self._inner_cache:
            problem, einsum, space = self.group.problem, self.einsum, self.group.space
            level, tensors = problem.hardware.levels[-1], problem.cascade.tensors
            cost = point_cost(problem.hardware, einsum, problem.hardware.unit(unit))
            points = problem.cascade.points(einsum)
            accesses = [(access.tensor, "read") for access in einsum.inputs]
            accesses += [(einsum.name, "write"), (einsum.name, "read")]
            vectors: list[Vector] = [
                access_vector(level, kind, tensors[t].bits, False) for t, kind in accesses
            ]
            vectors.append({f"unit:{unit}": cost.cycles})
            vectors.append(
                {"operations": sum(einsum.cost.values()) * Fraction(points), "energy": cost.energy * points}
            )
            self._inner_cache[key] = tuple(space.coefficient(vector, name) for vector in vectors)
        return self._inner_cache[key]

    def inner_tables(self, names: Sequence[str], cells: Cells | None = None) -> dict[str, Floats]:
        """`[option, own shared tiles, u]` or `[option, cell]` per metric: the uses of units that no other
        dominates, per tile shape. With one metric that is the best one."""
        if cells is not None:
            return self._tables(names, cells, (len(cells.rows),))
        bits = [bit for _, bit, _ in self._axes]
        by_bit = [bits.index(bit) for bit in sorted(bits)] or [0]
        key = (self.node.node, tuple(sorted(bits)), tuple(names))
        cache = self.group.inner_cache
        if key not in cache:
            tables = self._tables(names, None, self._grid_shape)
            cache[key] = {n: v.transpose(0, *(1 + a for a in by_bit)) for n, v in tables.items()}
        back = [by_bit.index(axis) for axis in range(len(by_bit))]
        return {
            name: values.transpose(0, *(1 + a for a in back)).reshape(-1, self.table_size, self.unknowns)
            for name, values in cache[key].items()
        }

    def _tables(self, names: Sequence[str], cells: Cells | None, shape: tuple[int, ...]) -> dict[str, Floats]:
        step = max(1, _TABLE // int(np.prod(shape, dtype=np.int64)))
        tables: dict[str, Floats] | None = None
        for family in self.group.families[self.node.node]:
            for start in range(0, len(family), step):
                part = self.inner(family.members(start, start + step), names, cells)
                tables = _pareto(tables, part, shape)
        assert tables is not None
        return {name: np.broadcast_to(v, (v.shape[0], *shape)) for name, v in tables.items()}

    def fixed(self, name: str) -> float | None:
        """What the inner boundary and compute add to a metric if tiles and units do not matter."""
        found = set()
        for family in self.group.families[self.node.node]:
            *moving, once = self._inner_coefficients(family.unit.name, name)
            if any(moving):
                return None
            found.add(once)
        return found.pop() if len(found) == 1 else None

    @cached_property
    def table_size(self) -> int:
        total = 1
        for v in self._table_axes[1]:
            total *= len(self.group.tilings[self.plan.variables[v].bit][0])
        return total

    def table_index(self, shared: SharedTiles) -> Indices:
        """For every `t`, the row of the inner table."""
        index = np.zeros(shared.size, dtype=np.intp)
        for v in self._table_axes[1]:
            index = index * len(self.group.tilings[self.plan.variables[v].bit][0]) + shared.index[v]
        return index

    def repetitions(self, shared: SharedTiles) -> Floats:
        """`ρ_e` per `t`: the trips of foreign loops around the Einsum."""
        total = np.ones(shared.size)
        for bit, v in self._variable.items():
            if self.group.spec.ranks[bit] not in self.einsum.ranks:
                total = total * shared.trips[v]
        return total


@dataclass(frozen=True)
class Cells:
    """Single entries of an inner table: own shared tiles (rows) and own tiles (columns)."""

    rows: Indices
    columns: Indices


def _all_product(table: Mapping[str, Floats], ranks: Sequence[str]) -> Floats:
    total: Floats = np.ones(1)
    for rank in ranks:
        total = total * table[rank]
    return total


def _padded(trips: Mapping[str, Floats], tiles: Mapping[str, Floats], ranks: Sequence[str]) -> Floats:
    """Values of a tensor with every tile padded to full size."""
    return _all_product(trips, ranks) * _all_product(tiles, ranks)


def _pareto(
    tables: Mapping[str, Floats] | None, part: Mapping[str, Floats], shape: tuple[int, ...]
) -> dict[str, Floats]:
    """Merge options into a table: per cell those that no other dominates, padded with infinity.

    Metrics that are the same for every option do not matter for dominance.
    """
    if len(part) == 1:
        ((name, values),) = part.items()
        best = values.min(axis=0, keepdims=True)
        return {name: best if tables is None else np.minimum(best, tables[name])}
    count = max(values.shape[0] for values in part.values())
    full = {name: np.broadcast_to(values, (count, *shape)) for name, values in part.items()}
    if tables is not None:
        full = {name: np.concatenate([tables[name], values]) for name, values in full.items()}
    names = [name for name, values in full.items() if (values != values[:1]).any()]
    if not names:
        return {name: values[:1] for name, values in full.items()}
    if len(names) == 1:
        best = full[names[0]].argmin(axis=0)[None]
        return {name: np.take_along_axis(values, best, axis=0) for name, values in full.items()}
    keep = _nondominated([full[name] for name in names])
    width = max(1, int(keep.sum(axis=0).max()))
    order = np.argsort(~keep, axis=0, kind="stable")[:width]
    mask = np.take_along_axis(keep, order, axis=0)
    return {name: np.where(mask, np.take_along_axis(v, order, axis=0), np.inf) for name, v in full.items()}


def _nondominated(metrics: Sequence[Floats]) -> npt.NDArray[np.bool_]:
    """`[option, cell…]`: is the option the first of its kind and dominated by no other in this cell?"""
    count = metrics[0].shape[0]
    order = np.lexsort(tuple(reversed(metrics)), axis=0)
    ordered = [np.take_along_axis(values, order, axis=0) for values in metrics]
    if len(metrics) == 2:
        last = np.minimum.accumulate(ordered[-1], axis=0)
        keep = np.ones(order.shape, dtype=bool)
        keep[1:] = ordered[-1][1:] < last[:-1]
    else:
        keep = np.ones(order.shape, dtype=bool)
        for later in range(1, count):
            dominated = np.ones((later, *order.shape[1:]), dtype=bool)
            for values in ordered[1:]:
                dominated &= values[:later] <= values[later : later + 1]
            keep[later] = ~(dominated & keep[:later]).any(axis=0)
    keep &= np.isfinite(np.stack(ordered)).all(axis=0)
    found = np.empty_like(keep)
    np.put_along_axis(found, order, keep, axis=0)
    return found


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


class PlacedScore:
    """Slots inside the shared loops and corrections, as matrices: skeletons × (shared tiles `t`)."""

    def __init__(self, group: Group, plan: Plan) -> None:
        self.group, self.plan = group, plan
        everywhere = {v: v for v in range(len(plan.variables))}
        self._monomials = _Monomials(_Axes(everywhere, {}))
        self._rows: dict[str, list[dict[int, float]]] = {}
        # a corrected Einsum that is executed again is corrected again: loops foreign to it multiply
        own, ranks = plan.sharing.own, group.spec.shape.node_ranks
        self._corrections = [
            (slot, bit, own[node] & ~ranks[node], vector) for slot, bit, node, vector in group.corrections
        ]

    def costs(self, name: str, shared: SharedTiles) -> Floats:
        """`[skeleton, t]`: what they add to one metric."""
        if name not in self._rows:
            self._rows[name] = [self._entry(name, terms) for terms in self.plan.placed]
        rows = _dense(self._rows[name], len(self._monomials))
        return self._monomials.product(rows, shared.trips, shared.size)[:, :, 0]

    def _entry(self, name: str, terms: Sequence[Term]) -> dict[int, float]:
        entry: dict[int, float] = {}
        for term in terms:
            node = self.group.spec.shape.slots[term.slot].users[0]
            visit, once = self.group.slot_coefficient(term.slot, name)
            parts = [(term.visits, visit), (0, once)]
            for slot, bit, foreign, vector in self._corrections:
                if slot == term.slot and term.outside >> bit & 1:
                    parts.append((1 << bit | foreign, self.group.space.coefficient(vector, name)))
            for mask, value in parts:
                if value:
                    index = self._monomials.index(self._variables(node, mask))
                    entry[index] = entry.get(index, 0.0) + value
        return entry

    def _variables(self, node: int, mask: int) -> int:
        """The set of shared loops (variables) of a node that a set of ranks names."""
        return sum(
            1 << v
            for v, variable in enumerate(self.plan.variables)
            if mask >> variable.bit & 1 and node in variable.nodes
        )


def _grid(axes: Sequence[Floats]) -> list[Floats]:
    """Row-major grid of the axes, each flattened to one length."""
    if not axes:
        return []
    return [a.ravel() for a in np.meshgrid(*axes, indexing="ij")]


def _dense(entries: Sequence[Mapping[int, float]], width: int) -> Floats:
    matrix = np.zeros((len(entries), max(width, 1)))
    for row, entry in enumerate(entries):
        for column, value in entry.items():
            matrix[row, column] = value
    return matrix


@dataclass(frozen=True)
class _Axes:
    """Values per loop: shared ones by variable number, own ones on the grid of own tiles."""

    shared: Mapping[int, int]
    private: Mapping[int, Floats]


class _Monomials:
    """The distinct monomials of one Einsum's rows: products of values of the loops in a set."""

    def __init__(self, axes: _Axes) -> None:
        self._axes = axes
        self._masks: dict[int, int] = {}
        self._matrix: Floats | None = None

    def __len__(self) -> int:
        return len(self._masks)

    def index(self, mask: int) -> int:
        """The column of the product over the loops of `mask`."""
        return self._masks.setdefault(mask, len(self._masks))

    def _own(self) -> Floats:
        """Own factors of all monomials; rebuilt when a monomial was added."""
        if self._matrix is not None and len(self._matrix) == max(1, len(self._masks)):
            return self._matrix
        width = len(next(iter(self._axes.private.values()))) if self._axes.private else 1
        matrix = np.ones((max(1, len(self._masks)), width))
        for mask, column in self._masks.items():
            for bit, values in self._axes.private.items():
                if mask >> bit & 1:
                    matrix[column] *= values
        self._matrix = matrix
        return matrix

    def product(self, rows: Floats, shared: Sequence[Floats], size: int) -> Floats:
        """`[row, t, u]`: the sum over monomials of coefficient · shared factor · own factor."""
        factor = np.ones((size, max(1, len(self._masks))))
        for mask, column in self._masks.items():
            for bit, variable in self._axes.shared.items():
                if mask >> bit & 1:
                    factor[:, column] *= shared[variable]
        left = rows[:, None, :] * factor[None, :, :]
        flat: Floats = left.reshape(-1, left.shape[2]) @ self._own()
        return flat.reshape(len(rows), size, -1)


def metric_space(problem: Problem, specs: Sequence[GroupSpec]) -> MetricSpace:
    """The common scale of all candidate groups of a problem."""
    cascade, hardware = problem.cascade, problem.hardware
    vectors: list[Vector] = []
    for spec in specs:
        for cost in slot_costs(cascade, hardware, spec):
            vectors += [cost.visit, cost.once]
        vectors += operand_vectors(cascade, hardware, spec)
        for _, _, output in corrections(cascade, spec):
            vectors.append(correction_vector(cascade, hardware, output))
        for einsum in spec.einsums:
            for unit in candidates(hardware, einsum):
                cost_of = point_cost(hardware, einsum, unit)
                vectors.append(
                    {
                        "energy": cost_of.energy,
                        "operations": Fraction(sum(einsum.cost.values())),
                        f"unit:{unit.name}": cost_of.cycles,
                    }
                )
    return MetricSpace.build(hardware, vectors)
