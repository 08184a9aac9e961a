"""The restrictions of a problem, each of which can be lifted: what an infeasible problem could give up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from exactile.formulation.problem import Mapspace, Problem

LIMITS = "subject_to"
_FREEST = {**{key: getattr(Mapspace(), key) for key in Mapspace.__dataclass_fields__}, "tile_sizes": "all"}


@dataclass(frozen=True, slots=True)
class Restriction:
    """A key of the mapspace, or `subject_to`; `entry` is one of its pins or limits, `None` stands for all."""

    key: str
    entry: str | None = None

    def __str__(self) -> str:
        return ".".join(filter(None, ("" if self.key == LIMITS else "mapspace", self.key, self.entry)))

    def lifted(self, problem: Problem) -> Problem:
        """The problem without this restriction."""
        if self.key == LIMITS:
            limits = self._rest(problem.objective.subject_to)
            return replace(problem, objective=replace(problem.objective, subject_to=limits))
        value = getattr(problem.mapspace, self.key)
        freest = self._rest(value) if isinstance(value, Mapping) else _FREEST[self.key]
        changes: dict[str, Any] = {self.key: freest}
        return replace(problem, mapspace=replace(problem.mapspace, **changes))

    def _rest(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in entries.items() if self.entry not in (None, name)}


def lifted(problem: Problem, restrictions: Iterable[Restriction]) -> Problem:
    """The problem without all of these."""
    for restriction in restrictions:
        problem = restriction.lifted(problem)
    return problem


def restrictions(problem: Problem) -> list[Restriction]:
    """Everything that makes the mapspace smaller than it could be, entry by entry; then the limits."""
    found = []
    for key, freest in _FREEST.items():
        value = getattr(problem.mapspace, key)
        if isinstance(value, Mapping):
            found += [Restriction(key, name) for name in value]
        # tensors kept between groups are an extension, not a restriction lifted
        elif value != freest and key != "between_groups":
            found.append(Restriction(key))
    return found + [Restriction(LIMITS, name) for name in problem.objective.subject_to]
