"""Costs: the metrics of all amounts in whole numbers, the quantities made of them, and their limits."""

from __future__ import annotations

from collections.abc import Sequence

from exactile.formulation.encoding.metrics import MetricSpace
from exactile.formulation.families.amounts import Amounts
from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.model import Linear
from exactile.formulation.families.units import UnitUse


class Costs:
    """Quantities of a model. A quantity in base units times `space.scale(name)` is an integer.

    `peaks` is what each Einsum needs of the buffer, in bits: the quantity `peak` is the most of these.
    `parts` are variables: the part of a quantity that crosses the boundary above the buffer.
    """

    def __init__(
        self,
        decisions: Decisions,
        amounts: Amounts,
        uses: Sequence[UnitUse],
        peaks: Sequence[Linear],
        keys: Sequence[str],
    ) -> None:
        self.decisions, self.model, self.amounts = decisions, decisions.model, amounts
        self.uses, self.peaks = uses, peaks
        hardware = decisions.layout.problem.hardware
        self.space = MetricSpace.build(hardware, [amount.vector for amount in amounts.found])
        self.parts: dict[str, Linear] = {}
        self.quantities = {key: self._quantity(key) for key in keys}

    def _quantity(self, name: str) -> Linear:
        if name == "peak":
            return self._maximum(name, self.peaks)
        return self._latency() if name == "latency" else self._metric(name).merged()

    def _metric(self, name: str) -> Linear:
        """A metric of the cascade. What it owes to the boundary above the buffer is a part of its own."""
        above, below = Linear(), Linear()
        for position in range(len(self.decisions.layout.einsums)):
            crossing, inner = self._metric_of(name, position)
            above, below = above + crossing, below + inner
        if not below.terms or not above.terms:
            return (above + below).merged()
        low, high = self.model.bounds(above.merged())
        part = self.model.integer(f"{name} above the buffer", max(0, low), high)
        self.model.lift(part, above.merged())
        self.parts[name] = Linear(0, ((part, 1),))
        return (self.parts[name] + below).merged()

    def _metric_of(self, name: str, position: int) -> tuple[Linear, Linear]:
        """What one Einsum adds to a metric, above the buffer and below it."""
        above, below = Linear(), Linear()
        for amount in self.amounts.found:
            if name in amount.vector and position == amount.at:
                scaled = amount.count.times(int(amount.vector[name] * self.space.scale(name)))
                if amount.inner:
                    below += scaled
                else:
                    above += scaled
        return above.merged(), self._bounded(name, position, below.merged())

    def _bounded(self, name: str, position: int, inner: Linear) -> Linear:
        """What happens below the buffer, bounded by the best use of a unit for the tile of every rank.

        The operands share one use of the unit, which their sum does not know in a relaxation.
        """
        if len(inner.terms) < 2 or name == "operations":
            return inner
        floors = [self.model.linear(floor) for floor in self.uses[position].floors(name, self.space)]
        if not floors:
            return inner
        low, high = self.model.bounds(inner)
        least = max(self.model.bounds(floor)[0] for floor in floors)
        result = self.model.integer(f"inner[{name},{position}]", max(0, low, least), high)
        for part in (inner, *floors):
            self.model.lift(result, part)
        return Linear(0, ((result, 1),))

    def raise_part(self, name: str, least: int) -> None:
        """From now on the part of a metric in `parts` is known to be at least this."""
        ((variable, _),) = self.parts[name].terms
        self.model.lows[variable] = max(least, self.model.lows[variable])

    def _latency(self) -> Linear:
        """Busy cycles run up along each group; its last Einsum knows the group's latency.

        With full overlap that is the longest of ports and units, else their sum; the ports of one level
        overlap in any case.
        """
        model, decisions = self.model, self.decisions
        hardware = decisions.layout.problem.hardware
        launch = int(hardware.launch * self.space.scale("latency"))
        total = Linear()
        count = len(decisions.layout.einsums)
        before: dict[str, Linear] = {}
        for position in range(count):
            last = [] if position == count - 1 else [-decisions.together[position]]
            running = {}
            for name in (n for group in self.space.resources for n in group):
                running[name] = self._run_up(name, position, before.get(name, Linear()))
            before = running
            name = f"latency[{decisions.layout.names[position]}]"
            parts = [self._longest(group, running, position) for group in self.space.resources]
            if hardware.overlap == "none":
                busy = sum(parts, Linear())
            else:
                busy = self._maximum(f"longest[{position}]", parts)
            total += model.where(name, busy + Linear(launch), last)
        return total.merged()

    def _run_up(self, name: str, position: int, before: Linear) -> Linear:
        """Busy cycles of a port or unit from the start of the group to the end of this Einsum."""
        above, below = self._metric_of(name, position)
        own = (above + below).merged()
        if position == 0 or not (before.terms or before.constant):
            return own
        together = self.decisions.together[position - 1]
        return own + self.model.where(f"{name}[..{position}]", before, (together,))

    def _longest(self, group: Sequence[str], running: dict[str, Linear], position: int) -> Linear:
        return self._maximum(f"port[{group[0]},{position}]", [running[name] for name in group])

    def _maximum(self, name: str, parts: Sequence[Linear]) -> Linear:
        known = [part for part in parts if part.terms or part.constant]
        if len(known) < 2:
            return known[0] if known else Linear()
        bounds = [self.model.bounds(part) for part in known]
        result = self.model.integer(
            name, max(0, max(low for low, _ in bounds)), max(high for _, high in bounds)
        )
        for part in known:
            self.model.lift(result, part)
        return Linear(0, ((result, 1),))
