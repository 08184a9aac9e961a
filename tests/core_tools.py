"""Short notation for mappings and machines in tests of the core."""

from __future__ import annotations

from collections.abc import Mapping as Map
from fractions import Fraction

from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping

UNIT = UnitMapping("pe")


def loops(text: str) -> tuple[Loop, ...]:
    """`"m:4 n:2"`: loops over m and n with tiles 4 and 2, outermost first."""
    return tuple(Loop(rank, int(tile)) for rank, tile in (part.split(":") for part in text.split()))


def buffer(text: str) -> Buffer:
    """`"C S+O m n"`: the buffer of C, used by S and O, with the loops m and n outside."""
    tensor, users, *outside = text.split()
    return Buffer(tensor, tuple(users.split("+")), frozenset(outside))


def group(
    nests: Map[str, str],
    *buffers: str,
    inner: Map[str, Group | UnitMapping] | None = None,
    spatial: Map[str, Map[str, Map[str, int]]] | None = None,
) -> Group:
    """A group in the order of its nests, each Einsum on the unit `pe` unless said otherwise."""
    below: dict[str, Group | UnitMapping] = dict.fromkeys(nests, UNIT)
    return Group(
        tuple(nests),
        {name: loops(text) for name, text in nests.items()},
        tuple(map(buffer, buffers)),
        below | dict(inner or {}),
        spatial or {},
    )


def mapping(*groups: Group) -> Mapping:
    return Mapping(groups)


def machine(
    capacity: int | None = None, *, spatial: tuple[SpatialDim, ...] = (), between: tuple[Level, ...] = ()
) -> Hardware:
    """DRAM, levels `between`, a last level GLB of `capacity` bits, and one free processing element `pe`.

    Energies per value 200/210 in DRAM and 6/7 in GLB, 1 per operation; 4 values per cycle to DRAM.
    """
    rate = Rate(Fraction(4), "value")
    dram = Level(
        "DRAM", None, Rate(Fraction(200), "value"), Rate(Fraction(210), "value"), rate, rate, spatial=spatial
    )
    glb = Level("GLB", capacity, Rate(Fraction(6), "value"), Rate(Fraction(7), "value"))
    pe = ComputeUnit("pe", "free", {"ew": OpCost(Fraction(1))})
    return Hardware("test machine", (dram, *between, glb), (pe,), energy_unit="1")
