"""Short notation for mappings and machines in tests of the core, and attention with legal mappings."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import replace
from fractions import Fraction

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import violations
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.problem import Mapspace

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


ATTENTION = Cascade(
    {"m": 8, "n": 6, "e": 4, "f": 4},
    ["S[m,n] = Q[m,e] * K[n,e]", "P[m,n] = exp(S[m,n])", "O[m,f] = P[m,n] * V[n,f]"],
)
ROOM = machine(10**6)
NESTS = {"S": "m:2 n:3 e:2", "P": "m:2 n:3", "O": "m:2 n:3 f:2"}
HELD = ("S S+P m n", "P P+O m n", "Q S m n e", "K S m n e", "V O m n f", "O O m")
BASE = group(NESTS, *HELD)
ALONE = {
    "S": group({"S": "m:2"}, "Q S m", "K S", "S S m"),
    "P": group({"P": "m:2"}, "S P m", "P P m"),
    "O": group({"O": "m:2"}, "P O m", "V O", "O O m"),
}
RECOMPUTING = mapping(
    group(
        {"S": "m:2 n:3", "P": "m:2 n:3 f:2", "O": "m:2 n:3 f:2"},
        "S S+P m n", "P P+O m n f", "Q S m n", "K S m n", "V O m n f", "O O m",
    )
)  # fmt: skip
"""P runs again for every f, while S is kept."""
IN_PLACE = Cascade(
    {"m": 8, "n": 6, "e": 4, "f": 4},
    [
        "S[m,n] = Q[m,e] * K[n,e]",
        {"einsum": "P[m,n] = exp(S[m,n])", "in_place": True},
        "O[m,f] = P[m,n] * V[n,f]",
    ],
    tensors={"P": {"bits": 16}},
)


def edit(**changes: object) -> Mapping:
    """The base mapping with other parts."""
    return mapping(replace(BASE, **changes))  # type: ignore[arg-type]


def nests(**texts: str) -> Mapping:
    """The base mapping with other loops around some Einsums."""
    return edit(nests={**BASE.nests, **{name: loops(text) for name, text in texts.items()}})


def said(sentence: str, found: tuple[str, ...]) -> bool:
    """Whether one of the violations contains the sentence."""
    return any(sentence in text for text in found)


def told(
    sentence: str, cascade: Cascade, hardware: Hardware, chosen: Mapping, mapspace: Mapspace | None = None
) -> bool:
    """Whether judging the mapping tells the sentence."""
    return said(sentence, violations(cascade, hardware, chosen, mapspace))
