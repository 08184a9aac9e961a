"""Capacity: footprints, what is live while each Einsum runs, and the peak.

A copy is live while `f` runs if `f` uses it, if the copy's Einsum shares a loop with `f` that is inside
its buffer, or if `f` runs between two linked copies. Of linked copies only the first counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.dependencies import fully_fused
from exactile.formulation.families.model import Linear, Lit, Model
from exactile.formulation.families.traffic import fused


def add_capacity(decisions: Decisions) -> list[Linear]:
    """The peak of every Einsum, in bits, is at most the capacity of the buffer; none without a capacity."""
    capacity = decisions.layout.problem.hardware.levels[1].capacity
    if capacity is None:
        return []
    family = _Capacity(decisions, capacity)
    peaks = []
    for f in range(len(decisions.layout.einsums)):
        total = Linear(0)
        for index in range(len(decisions.layout.copies)):
            total += family.share(index, f)
        decisions.model.at_least([(v, -c) for v, c in total.terms], total.constant - capacity)
        peaks.append(total)
    return peaks


class _Capacity:
    def __init__(self, decisions: Decisions, capacity: int) -> None:
        self.decisions, self.model, self.capacity = decisions, decisions.model, capacity
        self.footprints = [self._footprint(index) for index in range(len(decisions.layout.copies))]
        self._live: dict[tuple[int, int], Lit] = {}
        self._empty: dict[int, Lit] = {}

    def _bits(self, index: int) -> int:
        layout = self.decisions.layout
        return layout.problem.cascade.tensors[layout.copies[index].tensor].bits

    def _footprint(self, index: int) -> Linear:
        """Values that the buffer of a copy holds."""
        layout = self.decisions.layout
        factors = [self.decisions.extent(index, rank) for rank in layout.tensor_loops(index)]
        most = self.capacity // self._bits(index)
        return self.model.product(f"footprint[{self.decisions.copy_name(index)}]", factors, most)

    def share(self, index: int, f: int) -> Linear:
        """Bits that a copy adds to the peak of `f`, as the first of those linked with it."""
        alive = self.live(index, f)
        before = self.decisions.served.get(index, -Model.TRUE)
        name = f"space[{self.decisions.copy_name(index)},{f}]"
        conditions: list[tuple[int, tuple[Lit, ...]]] = [(self._bits(index), (alive, -before))]
        # an Einsum in place may make the shared buffer wider
        for wider, literals in self._wider(index, (alive, -before)):
            conditions.append((wider, literals))
        doubled = self._doubled(index)
        if doubled != -Model.TRUE:
            conditions += [(2 * bits, (*literals, doubled)) for bits, literals in list(conditions)]
        return self._greatest(name, self.footprints[index], conditions)

    def _greatest(
        self, name: str, footprint: Linear, conditions: Sequence[tuple[int, tuple[Lit, ...]]]
    ) -> Linear:
        possible = [(bits, lits) for bits, lits in conditions if -Model.TRUE not in lits]
        if not possible:
            return Linear()
        if len(possible) == 1:
            bits, literals = possible[0]
            return self.model.where(name, footprint.times(bits), literals)
        most = max(bits for bits, _ in possible)
        result = self.model.integer(name, 0, min(self.capacity, self.model.bounds(footprint)[1] * most))
        for bits, literals in possible:
            self.model.lift(result, footprint.times(bits), literals)
        return Linear(0, ((result, 1),))

    def _wider(self, index: int, literals: tuple[Lit, ...]) -> list[tuple[int, tuple[Lit, ...]]]:
        """Widths larger than the copy's own among the copies linked behind it."""
        found, widest = [], self._bits(index)
        for link, later in self.decisions.linked_after.get(index, ()):
            behind = (*literals, link)
            if self._bits(later) > widest:
                found.append((self._bits(later), behind))
            found += [(bits, lits) for bits, lits in self._wider(later, behind) if bits > widest]
        return found

    def _doubled(self, index: int) -> Lit:
        """The buffer is doubled: it is given up in some loop, and something crosses the boundary."""
        layout = self.decisions.layout
        if not layout.problem.hardware.levels[1].double_buffer:
            return -Model.TRUE
        return self.model.conjunction(
            (-self.empty(index), self._crossing(index)), f"doubled[{self.decisions.copy_name(index)}]"
        )

    def empty(self, index: int) -> Lit:
        """No loop is outside the buffer of a copy."""
        layout, copy = self.decisions.layout, self.decisions.layout.copies[index]
        if index not in self._empty:
            if any(rank in layout.batch for rank in copy.access.ranks):
                self._empty[index] = -Model.TRUE
            else:
                outside = [-self.decisions.out(index, rank) for rank in layout.loops(copy.at)]
                name = f"whole[{self.decisions.copy_name(index)}]"
                self._empty[index] = self.model.conjunction(outside, name)
        return self._empty[index]

    def _crossing(self, index: int) -> Lit:
        """Something moves between memory and the buffer of a copy: it is not a fused one that stays."""
        copy = self.decisions.layout.copies[index]
        if not copy.writes:
            return Model.TRUE
        stays = fused(self.decisions, index)
        leaves = [-fully_fused(self.decisions, copy.tensor)]
        literals = []
        for link, later in self.decisions.linked_after.get(index, ()):
            for literal, tensor in self._overwriting(later, link):
                literals.append((literal, -fully_fused(self.decisions, tensor)))
        # the last tensor in the buffer decides whether it is drained
        name = f"crossing[{self.decisions.copy_name(index)}]"
        crossing = self.model.boolean(name)
        self.model.implies((-stays,), crossing)
        overwritten = [literal for literal, _ in literals]
        self.model.implies((*leaves, *(-literal for literal in overwritten)), crossing)
        for literal, leaving in literals:
            self.model.implies((literal, leaving), crossing)
        return crossing

    def _overwriting(self, index: int, literal: Lit) -> list[tuple[Lit, str]]:
        """Tensors written over the buffer of a copy by Einsums in place, each with its condition."""
        copy = self.decisions.layout.copies[index]
        found = [(literal, copy.tensor)] if copy.writes else []
        for link, later in self.decisions.linked_after.get(index, ()):
            name = f"reaches[{self.decisions.copy_name(later)}]"
            both = self.model.conjunction((literal, link), name)
            found += self._overwriting(later, both)
        return found

    def live(self, index: int, f: int) -> Lit:
        """The copy's buffer takes space while `f` runs (at least one of the linked copies says so)."""
        if (index, f) not in self._live:
            self._live[index, f] = self._make_live(index, f)
        return self._live[index, f]

    def _make_live(self, index: int, f: int) -> Lit:
        decisions, layout = self.decisions, self.decisions.layout
        e = layout.copies[index].at
        if e == f:
            return Model.TRUE
        reasons: list[tuple[Lit, ...]] = []
        for rank in layout.loops(e):
            path = decisions.path(e, f, rank)
            if path != -Model.TRUE:
                reasons.append((path, -decisions.out(index, rank)))
        for link, later in decisions.linked_after.get(index, ()):
            reaches = layout.copies[later].at
            if e < f < reaches:
                reasons.append((link,))
            else:
                reasons.append((link, self.live(later, f)))
        reasons = [reason for reason in reasons if -Model.TRUE not in reason]
        if not reasons:
            return -Model.TRUE
        alive = self.model.boolean(f"live[{decisions.copy_name(index)},{f}]")
        for reason in reasons:
            self.model.implies(reason, alive)
        return alive
