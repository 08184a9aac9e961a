"""Why a problem has no mapping, in a sentence: what is short, by how much, and what would help.

One way for all engines. An engine supplies its search, asked here about relaxed problems, and how to find
the mapping with the least peak. What is short is then told by the analytical core, from that mapping.

1. Without the limits of `subject_to` there is a mapping: the least of every limited quantity is told.
2. In a buffer that holds everything there is a mapping: that with the least peak is told, tensor by tensor.
3. Otherwise restrictions of the mapspace contradict each other: a smallest set of them that does is named.

Then every restriction is lifted alone, to see which would help. All of it takes a share of the time limit;
when that is over, what is known by then is said.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from exactile.formulation.core import violations
from exactile.formulation.core.occupancy import fullest, size
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Objective, Problem
from exactile.formulation.quantity_text import grouped
from exactile.solver.engine import Control, Outcome, Stopped, UnsupportedProblem
from exactile.solver.restrictions import LIMITS, Restriction, lifted, restrictions
from exactile.solver.verify import VerificationError

LEAST_SECONDS, MOST_SECONDS = 1.0, 20.0
"""An explanation may take what is left of the time limit, within these bounds."""

Search = Callable[[Problem, Control], Outcome]
"""The engine's search, without an explanation of its own."""

Smallest = Callable[[Problem, Control], Mapping | None]
"""The mapping with the least peak, whatever the capacity; `None` without any. Raises `Stopped`."""


def explain(problem: Problem, control: Control, search: Search, smallest: Smallest) -> str:
    """The sentence for a problem that was proved infeasible.

    Raises `VerificationError` if a mapping turns up that fits, against the proof.
    """
    left = MOST_SECONDS if control.left is None else min(MOST_SECONDS, max(LEAST_SECONDS, control.left))
    inquiry = _Inquiry(problem, Control(left, None, control.interrupted), search, smallest)
    try:
        sentence = inquiry.sentence()
    except (Stopped, UnsupportedProblem):
        return _short(problem)
    helps = " or without ".join(map(str, inquiry.helpful()))
    return f"{sentence}; it would be feasible without {helps}" if helps else sentence


def roomy(problem: Problem) -> Problem:
    """The problem with a buffer in which everything fits, doubled."""
    tensors = problem.cascade.tensors
    uses = [(einsum.output, *einsum.inputs) for einsum in problem.cascade.einsums]
    bits = sum(tensors[access.tensor].bits * tensors[access.tensor].size for use in uses for access in use)
    first, buffer, *rest = problem.hardware.levels
    levels = (first, replace(buffer, capacity=2 * bits), *rest)
    return replace(problem, hardware=replace(problem.hardware, levels=levels))


@dataclass
class _Inquiry:
    problem: Problem
    control: Control
    search: Search
    smallest: Smallest
    limited: bool = False

    def sentence(self) -> str:
        """What is wrong. Raises `Stopped` if the time was too short to find out."""
        without_limits = Restriction(LIMITS).lifted(self.problem)
        self.limited = bool(self.problem.objective.subject_to) and self._feasible(without_limits)
        if self.limited:
            return self._limits()
        mapping = self.smallest(without_limits, self.control)
        return self._contradiction(without_limits) if mapping is None else _shortage(self.problem, mapping)

    def helpful(self) -> Iterator[Restriction]:
        """Restrictions without which the problem would be feasible; entries of a key together only if
        none of them helps alone."""
        single = restrictions(self.problem) if self.limited else _structural(self.problem)
        try:
            for key in dict.fromkeys(restriction.key for restriction in single):
                entries = [restriction for restriction in single if restriction.key == key]
                helping = [entry for entry in entries if self._helps(entry)]
                yield from helping
                if not helping and len(entries) > 1 and self._helps(Restriction(key)):
                    yield Restriction(key)
        except Stopped:
            return

    def _helps(self, restriction: Restriction) -> bool:
        """Whether lifting the restriction is known to help. Raises `Stopped` when the time is over."""
        try:
            return self._feasible(restriction.lifted(self.problem))
        except UnsupportedProblem:
            return False
        except Stopped:
            self.control.checkpoint()
            return False

    def _feasible(self, problem: Problem) -> bool:
        """Whether there is any mapping; the search may end at the first. Raises `Stopped` if undecided."""
        cheap = replace(problem, objective=Objective("dram_traffic", (), problem.objective.subject_to))
        enough = _Either(self.control.interrupted)
        first = Control(self.control.left, lambda _: enough.set(), enough)
        outcome = self.search(cheap, first)
        if outcome.status == "unknown" and not self.control.stopped:
            # the first solution that was reported did not stand
            outcome = self.search(cheap, self.control.rest())
        if outcome.status == "unknown":
            raise Stopped
        return outcome.mapping is not None

    def _limits(self) -> str:
        """Limits of `subject_to` that nothing meets."""
        short = []
        limits = self.problem.objective.subject_to
        free = Restriction(LIMITS).lifted(self.problem)
        for name, limit in limits.items():
            outcome = self.search(replace(free, objective=Objective(name, ())), self.control.rest())
            if outcome.bound is None or outcome.status not in ("optimal", "infeasible"):
                raise Stopped
            if outcome.bound > limit:
                unit = _unit(self.problem, name)
                short.append(
                    f"{name} is at least {_number(outcome.bound)}{unit} and may be at most "
                    f"{_number(limit)}{unit} (over by {_number(outcome.bound - limit)}{unit})"
                )
        if short:
            return "the limits cannot be met: " + ", ".join(short)
        return f"each limit can be met, but no mapping meets all of {_limits_in_words(self.problem)}"

    def _contradiction(self, problem: Problem) -> str:
        """Restrictions that cannot be kept together, none of which could be spared."""
        free = roomy(problem)
        every = needed = _structural(free)
        for restriction in every:
            fewer = [other for other in needed if other != restriction]
            gone = [other for other in every if other not in fewer]
            if not self._feasible(lifted(free, gone)):
                needed = fewer
        if not needed:
            return f"no loop structure keeps the dependencies of {problem.cascade.name}"
        why = "; ".join(_dependencies(problem, needed))
        names = [str(restriction) for restriction in needed]
        if len(names) == 1:
            sentence = f"{names[0]} cannot be kept together with the dependencies of {problem.cascade.name}"
        else:
            sentence = f"{', '.join(names[:-1])} and {names[-1]} contradict each other"
        return f"{sentence} ({why})" if why else sentence


class _Either(threading.Event):
    """Set by itself or by another event."""

    def __init__(self, other: threading.Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()


def _structural(problem: Problem) -> list[Restriction]:
    """What can be in the way of any mapping: no limit, and no tile sizes, since the smallest are divisors."""
    return [r for r in restrictions(problem) if r.key not in (LIMITS, "tile_sizes")]


def _shortage(problem: Problem, mapping: Mapping) -> str:
    """The capacity that the fullest group of a mapping exceeds, in the words of the core."""
    level = problem.hardware.levels[1].name
    order = fullest(problem.cascade, problem.hardware, mapping)[level].group
    group = next(group for group in mapping.groups if group.order == order)
    for fault in violations(problem.cascade, problem.hardware, Mapping((group,))):
        if fault.startswith(f"{level}:") and "capacity" in fault:
            return f"even with the smallest tiles, {fault}"
    raise VerificationError(f"{problem.name} was called infeasible, but a mapping fits into {level}")


def _dependencies(problem: Problem, conflict: Sequence[Restriction]) -> Iterator[str]:
    """What a pinned residency of a fused tensor makes impossible."""
    cascade = problem.cascade
    pins = [r.entry for r in conflict if r.key == "residency"]
    if Restriction("fusion") not in conflict:
        return
    for tensor in filter(None, pins):
        outside = problem.mapspace.residency[tensor]
        if tensor in cascade.by_name:
            for rank in sorted(outside & cascade.by_name[tensor].reduction):
                yield f"{tensor} is summed over {rank}, and partial sums must not be read"
        for rank in sorted(outside & {b.rank for b in cascade.barriers if b.tensor == tensor}):
            yield f"readers of {tensor} need whole rows over {rank}"


def _short(problem: Problem) -> str:
    """What can be said without any search."""
    buffer = problem.hardware.levels[1]
    wanted = [str(restriction) for restriction in _structural(problem)]
    reasons = []
    if buffer.capacity is not None:
        reasons.append(f"fits into {buffer.name} ({size(buffer.capacity)} B)")
    if wanted:
        reasons.append(f"keeps {', '.join(wanted)}")
    if problem.objective.subject_to:
        reasons.append(f"meets {_limits_in_words(problem)}")
    reasons = reasons or ["keeps the dependencies"]
    return f"no mapping {' and '.join(reasons)} (there was no time to find out more)"


def _limits_in_words(problem: Problem) -> str:
    return ", ".join(
        f"{name} ≤ {_number(limit)}{_unit(problem, name)}"
        for name, limit in problem.objective.subject_to.items()
    )


def _unit(problem: Problem, name: str) -> str:
    energy = "" if problem.hardware.energy_unit == "1" else f" {problem.hardware.energy_unit}"
    units = {"dram_traffic": " B", "energy": energy, "latency": " cycles", "edp": f"{energy} cycles"}
    return units.get(name, "")


def _number(value: Fraction) -> str:
    return grouped(value) if value.denominator == 1 or value >= 1 else f"{float(value):.6g}"
