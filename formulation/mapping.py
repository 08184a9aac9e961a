"""The mapping: the only currency between rooms. Written, edited, checked and costed without an engine.

A mapping says, per fused group and boundary, the loop nest of every Einsum, where the buffer of every
tensor is allocated, and what happens below. It is plain data; `formulation.core.legality` says whether
it is legal for a cascade and a machine, `formulation.core.evaluate` what it costs.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Loop:
    """A temporal loop over `rank` in steps of `tile`; the trip count follows from the parent tile."""

    rank: str
    tile: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """One allocation at the level below the boundary.

    `users` are the Einsums that use it from this one buffer, in execution order: the producer and the
    consumers of a fused intermediate, the readers of a shared input, or one Einsum. `outside` are the
    loops outside the place of the allocation: `S_X`. A tensor overwritten in place has no buffer of
    its own: the buffer of the overwritten tensor lists the users of both.
    """

    tensor: str
    users: tuple[str, ...]
    outside: frozenset[str]


@dataclass(frozen=True)
class UnitMapping:
    """What one Einsum does below the last level: its compute unit and how the unit is used.

    Systolic: `dataflow`, and `transposed` if rows and columns swap roles. Free array and any unit with
    several instances: `spatial[rank][dim]` are the spatial factors; `order` is the order of the steps,
    outermost first (it matters only for held operands).
    """

    unit: str
    dataflow: str | None = None
    transposed: bool = False
    spatial: Map[str, Map[str, int]] = field(default_factory=dict)
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """The loop tree of a fused group at one boundary; at inner boundaries, of one member of it.

    `order`: Einsums by their output, in execution order. `nests[e]`: all loops around `e` at this
    boundary, outermost first, foreign shared loops included. `buffers`: what the level below holds; a
    tensor without a buffer bypasses that level. `inner[e]`: what happens inside a tile: another
    `Group` where another level follows, a `UnitMapping` at the last level. `spatial[e][rank][dim]`:
    factors over the spatial dimensions of the level above the boundary (the split comes first, in
    blocks; the loops run inside a block).
    """

    order: tuple[str, ...]
    nests: Map[str, tuple[Loop, ...]]
    buffers: tuple[Buffer, ...]
    inner: Map[str, Group | UnitMapping]
    spatial: Map[str, Map[str, Map[str, int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Mapping:
    """Fused groups in execution order; `kept_between_groups` names tensors that stay on chip."""

    groups: tuple[Group, ...]
    kept_between_groups: tuple[str, ...] = ()

    def render(self) -> str:
        """The loop trees as text: loops, residency and units, as far as the mapping alone tells.

        Trip counts and sizes need the cascade: see `formulation.mapping_text.draw`.
        """
        from exactile.formulation.mapping_text import draw, plain

        return plain(draw(self))
