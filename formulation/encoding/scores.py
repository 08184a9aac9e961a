"""Scores: the rows of a plan as matrices, Einsum by Einsum, over all tilings (see `monomials`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.monomials import Axes, Monomials, dense
from exactile.formulation.encoding.plan import NodePlan, Plan, Term
from exactile.formulation.encoding.shared_tiles import SharedTiles
from exactile.formulation.encoding.tables import InnerTable

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


class NodeScore:
    """One Einsum of a plan, as matrices: rows × (shared tiles `t`) × (own tiles `u`)."""

    def __init__(self, group: Group, plan: Plan, node: NodePlan) -> None:
        self.group, self.plan, self.node = group, plan, node
        self.einsum = group.spec.einsums[node.node]
        self.skeletons = np.array([row.skeleton for row in node.rows], dtype=np.intp)
        self._variable = {plan.variables[v].bit: v for v in node.variables}
        self._footprints = Monomials(self._split(tiles=True))
        self._visits = Monomials(self._split(tiles=False))
        self._capacity_rows = self._footprint_rows()
        self.table = InnerTable(group, plan, node)
        self._visit_rows: dict[str, list[dict[int, float]]] = {}
        self._dense_rows: dict[tuple[str, int], Floats] = {}

    def _split(self, *, tiles: bool) -> Axes:
        which = 1 if tiles else 0
        private = {bit: self.group.tilings[bit][which] for bit in self.node.private}
        return Axes(self._variable, private)

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
        return dense(entries, len(self._footprints))

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
            self._dense_rows[name, len(self._visits)] = dense(self._visit_rows[name], len(self._visits))
        return self._dense_rows[name, len(self._visits)]

    def feasible(self, rows: Indices, shared: SharedTiles, own: slice = slice(None)) -> npt.NDArray[np.bool_]:
        """`[row, t, u]`: do the live tiles fit in the buffer? `own` picks some of the own tiles."""
        if self.group.capacity == float("inf"):
            count = len(range(self.table.unknowns)[own])
            return np.ones((len(rows), shared.size, count), dtype=bool)
        used = self._footprints.product(self._capacity_rows[rows], shared.tiles, shared.size, own)
        return used <= self.group.capacity

    def traffic(self, name: str, rows: Indices, shared: SharedTiles, own: slice = slice(None)) -> Floats:
        """`[row, t, u]`: what the Einsum's own slots add to one metric at boundary 0."""
        return self._visits.product(self._coefficients(name)[rows], shared.trips, shared.size, own)

    def peak(self, rows: Indices, shared: SharedTiles) -> Floats:
        """`[row, t, u]`: bits live while the Einsum runs."""
        return self._footprints.product(self._capacity_rows[rows], shared.tiles, shared.size)

    def repetitions(self, shared: SharedTiles) -> Floats:
        """`ρ_e` per `t`: the trips of foreign loops around the Einsum."""
        total = np.ones(shared.size)
        for bit, v in self._variable.items():
            if self.group.spec.ranks[bit] not in self.einsum.ranks:
                total = total * shared.trips[v]
        return total


class PlacedScore:
    """Slots inside the shared loops and corrections, as matrices: skeletons × (shared tiles `t`)."""

    def __init__(self, group: Group, plan: Plan) -> None:
        self.group, self.plan = group, plan
        everywhere = {v: v for v in range(len(plan.variables))}
        self._monomials = Monomials(Axes(everywhere, {}))
        self._rows: dict[str, list[dict[int, float]]] = {}
        # a corrected Einsum that is executed again is corrected again: loops foreign to it multiply
        own, ranks = plan.sharing.own, group.spec.shape.node_ranks
        self._corrections = [
            (slot, bit, node, 1 << bit | own[node] & ~ranks[node], vector)
            for slot, bit, node, vector in group.corrections
        ]

    def costs(self, name: str, shared: SharedTiles) -> Floats:
        """`[skeleton, t]`: what they add to one metric."""
        if name not in self._rows:
            self._rows[name] = [self._entry(name, terms) for terms in self.plan.placed]
        rows = dense(self._rows[name], len(self._monomials))
        return self._monomials.product(rows, shared.trips, shared.size)[:, :, 0]

    def _entry(self, name: str, terms: Sequence[Term]) -> dict[int, float]:
        entry: dict[int, float] = {}
        for term in terms:
            node = self.group.spec.shape.slots[term.slot].users[0]
            visit, once = self.group.slot_coefficient(term.slot, name)
            parts = [(node, term.visits, visit), (node, 0, once)]
            for slot, bit, corrected, loops, vector in self._corrections:
                if slot == term.slot and term.outside >> bit & 1:
                    parts.append((corrected, loops, self.group.space.coefficient(vector, name)))
            for user, mask, value in parts:
                if value:
                    index = self._monomials.index(self._variables(user, mask))
                    entry[index] = entry.get(index, 0.0) + value
        return entry

    def _variables(self, node: int, mask: int) -> int:
        """The set of shared loops (variables) of a node that a set of ranks names."""
        return sum(
            1 << v
            for v, variable in enumerate(self.plan.variables)
            if mask >> variable.bit & 1 and node in variable.nodes
        )
