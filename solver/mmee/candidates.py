"""Candidate groups of a problem with what the search needs: specs, structures, plans, lower bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod

from exactile.formulation.encoding.bounds import group_floor
from exactile.formulation.encoding.group import Floats, Group, InnerKey, metric_space, slot_costs
from exactile.formulation.encoding.metrics import MetricSpace
from exactile.formulation.encoding.plan import Plan, plans
from exactile.formulation.encoding.shape import GroupSpec, group_specs
from exactile.formulation.encoding.sharing import Masks
from exactile.formulation.encoding.structures import TooManyStructures
from exactile.formulation.encoding.tilings import tile_candidates
from exactile.formulation.problem import Objective, Problem
from exactile.solver.mmee.cache import cached_structures
from exactile.solver.mmee.plan_search import Choice
from exactile.solver.mmee.support import WHOLE, Limits
from exactile.solver.orders import Names, candidate_groups, connected, execution_orders, partitions, stages

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
    `searched` says that nothing better is left, `too_large` that the group is not listed, `structures` how
    many were. `specs` is `None` where the group has too many Einsums to be listed.
    """

    problem: Problem
    names: Names
    specs: Sequence[GroupSpec] | None
    cycles_matter: bool
    checkpoint: Callable[[], None]
    inner_cache: dict[InnerKey, dict[str, Floats]]
    limits: Limits = WHOLE
    points: dict[Point, Choice] = field(default_factory=dict)
    searched: bool = False
    too_large: bool = False
    structures: int = 0
    _groups: list[tuple[Group, list[Plan]]] | None = None

    def groups(self, space: MetricSpace) -> list[tuple[Group, list[Plan]]]:
        """Every way to fuse the Einsums, with its plans; made on first use."""
        if self._groups is None:
            self._groups = []
            for spec, masks in zip(self.specs or (), self.masks, strict=True):
                costs = slot_costs(self.problem.cascade, self.problem.hardware, spec)
                group = Group(
                    self.problem, spec, space, costs, self.cycles_matter, self.checkpoint, self.inner_cache
                )
                self.structures += len(masks)
                self._groups.append((group, plans(spec, masks)))
        return self._groups

    @cached_property
    def small(self) -> bool:
        """Whether the group is listed: not if its structures, or they times its tilings, are too many."""
        if self.specs is None:
            return False
        most = self.limits.pairs
        if most is not None and sum(self.tilings) > most:
            return False
        try:
            masks = self.masks
        except TooManyStructures:
            return False
        return most is None or sum(len(m) * t for m, t in zip(masks, self.tilings, strict=True)) <= most

    @cached_property
    def masks(self) -> list[Masks]:
        """The structures of every way to fuse. Raises `TooManyStructures` beyond the limit of steps."""
        most = self.limits.steps
        return [cached_structures(spec.shape, most, self.checkpoint) for spec in self.specs or ()]

    @cached_property
    def tilings(self) -> list[int]:
        """For every way to fuse, the number of tilings with one tile per rank."""
        return [tilings(self.problem, spec.ranks) for spec in self.specs or ()]

    @property
    def listed(self) -> bool:
        """Whether the search had to look inside."""
        return self._groups is not None

    def floor(self, keys: Sequence[str]) -> tuple[Fraction, ...]:
        """Lower bounds of the quantities `keys`, in base units."""
        return tuple(group_floor(self.problem, self.names, key) for key in keys)


def tilings(problem: Problem, ranks: Iterable[str]) -> int:
    """Ways to choose one tile for each of these ranks."""
    sizes, pins, extents = problem.mapspace.tile_sizes, problem.mapspace.tiles, problem.cascade.ranks
    return prod(len(tile_candidates(extents[rank], sizes, pins.get(rank))[0]) for rank in ranks)


@dataclass(frozen=True)
class Candidates:
    """All candidate groups of a problem, the partitions made of them, and a common scale."""

    problem: Problem
    keys: tuple[str, ...]
    checkpoint: Callable[[], None] = lambda: None
    limits: Limits = WHOLE

    @cached_property
    def by_names(self) -> dict[Names, Candidate]:
        """Candidates that have at least one legal way to fuse, or too many Einsums to tell."""
        found: dict[Names, Candidate] = {}
        inner_cache: dict[InnerKey, dict[str, Floats]] = {}
        for names in candidate_groups(self.problem):
            if not connected(self.problem, names):
                continue
            most = self.limits.einsums
            specs = self._specs(names) if most is None or _counted(self.problem, names) <= most else None
            if specs is None or specs:
                found[names] = Candidate(
                    self.problem,
                    names,
                    specs,
                    "latency" in self.keys,
                    self.checkpoint,
                    inner_cache,
                    self.limits,
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
    def every_order(self) -> bool:
        """Whether the groups of all execution orders are here."""
        return stages(self.problem)[1]

    @cached_property
    def space(self) -> MetricSpace:
        """The common scale of all groups."""
        return metric_space(self.problem, [spec for c in self.by_names.values() for spec in c.specs or ()])

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


def _counted(problem: Problem, names: Names) -> int:
    """Einsums of a group, those left out that overwrite what the group makes."""
    return sum(problem.cascade.by_name[name].in_place not in names for name in names)
