"""Candidate groups of a problem with what the search needs: specs, structures, plans, lower bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from exactile.formulation.encoding.bounds import group_floor
from exactile.formulation.encoding.group import Floats, Group, InnerKey, metric_space, slot_costs
from exactile.formulation.encoding.metrics import MetricSpace
from exactile.formulation.encoding.plan import Plan, plans
from exactile.formulation.encoding.shape import GroupSpec, group_specs
from exactile.formulation.problem import Objective, Problem
from exactile.solver.mmee.cache import cached_structures
from exactile.solver.mmee.plan_search import Choice
from exactile.solver.orders import Names, candidate_groups, execution_orders, partitions

Point = tuple[int, ...]


def coupled(objective: Objective) -> bool:
    """Whether the groups of a problem cannot be optimised one by one: a product, or a limit on a sum."""
    return "edp" in objective.keys or bool(objective.subject_to)


def searched_keys(objective: Objective) -> tuple[str, ...]:
    """The quantities that a search keeps of every group."""
    if not coupled(objective):
        return objective.keys
    return objective.measured


@dataclass
class Candidate:
    """A set of Einsums that may form a group, and the best points found for it.

    `points` maps scaled quantities (in the order of the search's keys) to a mapping's choice;
    `searched` says that nothing better is left, `structures` how many were listed.
    """

    problem: Problem
    names: Names
    specs: Sequence[GroupSpec]
    cycles_matter: bool
    checkpoint: Callable[[], None]
    inner_cache: dict[InnerKey, dict[str, Floats]]
    points: dict[Point, Choice] = field(default_factory=dict)
    searched: bool = False
    structures: int = 0
    _groups: list[tuple[Group, list[Plan]]] | None = None

    def groups(self, space: MetricSpace) -> list[tuple[Group, list[Plan]]]:
        """Every way to fuse the Einsums, with its plans; made on first use."""
        if self._groups is None:
            self._groups = []
            for spec in self.specs:
                costs = slot_costs(self.problem.cascade, self.problem.hardware, spec)
                group = Group(
                    self.problem, spec, space, costs, self.cycles_matter, self.checkpoint, self.inner_cache
                )
                masks = cached_structures(spec.shape)
                self.structures += len(masks)
                self._groups.append((group, plans(spec, masks)))
        return self._groups

    @property
    def listed(self) -> bool:
        """Whether the search had to look inside."""
        return self._groups is not None

    def floor(self, keys: Sequence[str]) -> tuple[Fraction, ...]:
        """Lower bounds of the quantities `keys`, in base units."""
        return tuple(group_floor(self.problem, self.names, key) for key in keys)


@dataclass(frozen=True)
class Candidates:
    """All candidate groups of a problem, the partitions made of them, and a common scale."""

    problem: Problem
    keys: tuple[str, ...]
    checkpoint: Callable[[], None] = lambda: None

    @cached_property
    def by_names(self) -> dict[Names, Candidate]:
        """Candidates that have at least one legal way to fuse."""
        found: dict[Names, Candidate] = {}
        inner_cache: dict[InnerKey, dict[str, Floats]] = {}
        for names in candidate_groups(self.problem):
            specs = self._specs(names)
            if specs:
                cycles_matter = "latency" in self.keys
                found[names] = Candidate(
                    self.problem, names, specs, cycles_matter, self.checkpoint, inner_cache
                )
        return found

    def _specs(self, names: Names) -> list[GroupSpec]:
        return [
            spec
            for order in execution_orders(self.problem, names)
            for spec in group_specs(
                self.problem.cascade,
                order,
                self.problem.mapspace,
                double_buffer=self.problem.hardware.levels[1].double_buffer,
                batch_outermost="latency" not in self.keys,
            )
        ]

    @cached_property
    def space(self) -> MetricSpace:
        """The common scale of all groups."""
        return metric_space(self.problem, [spec for c in self.by_names.values() for spec in c.specs])

    @cached_property
    def partitions(self) -> list[list[Names]]:
        """All partitions of the cascade into candidates, the one with the least lower bound first."""
        found = list(partitions(self.problem, list(self.by_names)))
        return sorted(found, key=self.floor)

    def floor(self, partition: Sequence[Names]) -> tuple[Fraction, ...]:
        """Lower bounds of the quantities `keys` of a partition, in base units."""
        floors = [self._floors[names] for names in partition]
        return tuple(sum(column, Fraction(0)) for column in zip(*floors, strict=True))

    @cached_property
    def _floors(self) -> dict[Names, tuple[Fraction, ...]]:
        return {names: candidate.floor(self.keys) for names, candidate in self.by_names.items()}
