"""The problem: a cascade, a machine, what to minimise, and which part of the mapspace may be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import Hardware

QUANTITIES = ("dram_traffic", "energy", "latency", "edp", "operations")
OBJECTIVES = ("dram_traffic", "energy", "latency", "edp")


@dataclass(frozen=True)
class Objective:
    """Minimise one quantity, break ties by others, subject to upper bounds.

    Base units: bytes, the machine's energy unit, cycles, their product, operations. `then` defaults
    to operations, then energy.
    """

    minimize: str
    then: tuple[str, ...] = ("operations", "energy")
    subject_to: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The quantities compared, most important first, each once."""
        return tuple(dict.fromkeys((self.minimize, *self.then)))

    @property
    def measured(self) -> tuple[str, ...]:
        """What a search has to measure: the quantities compared and limited, a product by its factors."""
        names = (*self.keys, *self.subject_to)
        factors = (("energy", "latency") if name == "edp" else (name,) for name in names)
        return tuple(dict.fromkeys(factor for part in factors for factor in part))


@dataclass(frozen=True)
class Mapspace:
    """Restrictions of the mapspace; every engine respects all of them.

    `fusion` is `free`, `none`, or the groups themselves, Einsums by their output. Pins: `orders[e]`
    is the order of the loops of `e` at boundary 0; `residency[X]` is exactly the set of loops outside
    the buffer of `X` at level 1; `tiles[r]` is the tile of rank `r` at boundary 0 in every Einsum. A
    loop with one trip is no loop, so a pinned loop may also be absent.
    """

    tile_sizes: Literal["divisors", "all"] = "divisors"
    recomputation: bool = True
    shared_inputs: bool = True
    fused_outputs: bool = True
    between_groups: bool = False
    order: Literal["search", "given"] = "search"
    fusion: Literal["free", "none"] | tuple[tuple[str, ...], ...] = "free"
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    residency: Mapping[str, frozenset[str]] = field(default_factory=dict)
    tiles: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """Everything an engine needs. `objective` may be given as the name of a quantity."""

    cascade: Cascade
    hardware: Hardware
    objective: Objective = field(default_factory=lambda: Objective("energy"))
    mapspace: Mapspace = field(default_factory=Mapspace)
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.objective, str):
            object.__setattr__(self, "objective", Objective(self.objective))
        if not self.name:
            object.__setattr__(self, "name", self.cascade.name)
