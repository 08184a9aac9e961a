"""A small attention problem with mappings written by hand, for tests that need no engine."""

from __future__ import annotations

from fractions import Fraction

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.problem import Mapspace, Objective, Problem

MIB = 8 * 2**20


def machine() -> Hardware:
    """DRAM, a buffer of 1 MiB, a systolic array of 32×32 and a vector unit; 1 GHz."""
    glb = Level(
        "GLB",
        MIB,
        Rate(Fraction(132, 1000)),
        Rate(Fraction(234, 1000)),
        Rate(Fraction(512)),
        Rate(Fraction(512)),
        spatial=(SpatialDim("rows", 32), SpatialDim("cols", 32)),
    )
    dram = Level(
        "DRAM", None, Rate(Fraction(15, 2)), Rate(Fraction(15, 2)), Rate(Fraction(480)), Rate(Fraction(480))
    )
    array = ComputeUnit(
        "array",
        "systolic",
        {"mac": OpCost(Fraction(1, 20))},
        ("weight_stationary", "output_stationary", "input_stationary"),
    )
    vector = ComputeUnit("vector", "vector", {"ew": OpCost(Fraction(1, 10))}, lanes=128)
    return Hardware("test-machine", (dram, glb), (array, vector), clock=Fraction(10**9))


def attention(m: int = 509, softmax: bool = True) -> Cascade:
    """Two heads, `m` queries, 512 keys, head dimension 64; scores of 16 bits."""
    scores: dict[str, object] = {"einsum": "P[h,m,n] = softmax(S[h,m,n])", "over": "n", "mode": "online"}
    middle = [{**scores, "in_place": True}] if softmax else []
    last = "O[h,m,f] = P[h,m,n] * V[h,n,f]" if softmax else "O[h,m,f] = S[h,m,n] * V[h,n,f]"
    return Cascade(
        {"h": 2, "m": m, "n": 512, "e": 64, "f": 64},
        ["S[h,m,n] = Q[h,m,e] * K[h,n,e]", *middle, last],
        name="attention",
        tensors={"S": {"bits": 16}},
    )


def problem(objective: str = "energy") -> Problem:
    """The attention on the machine, any tile size allowed."""
    return Problem(attention(), machine(), Objective(objective), Mapspace(tile_sizes="all"))


def buffer(tensor: str, users: str, outside: str = "") -> Buffer:
    """`buffer("S", "S P O", "h m n")`."""
    return Buffer(tensor, tuple(users.split()), frozenset(outside.split()))


def nest(text: str) -> tuple[Loop, ...]:
    """`nest("h:1 m:64")`, outermost first."""
    pairs = (loop.split(":") for loop in text.split())
    return tuple(Loop(rank, int(tile)) for rank, tile in pairs)


WEIGHT_STATIONARY = UnitMapping("array", "weight_stationary")
OUTPUT_STATIONARY = UnitMapping("array", "output_stationary")
VECTOR = UnitMapping("vector")


def fused() -> Mapping:
    """All three Einsums in one group, in the manner of FlashAttention-2: keys and values stream."""
    shared = nest("h:1 m:64 n:128")
    buffers = (
        buffer("Q", "S", "h m"),
        buffer("K", "S", "h m n"),
        buffer("S", "S P O", "h m n"),
        buffer("V", "O", "h m n"),
        buffer("O", "O", "h m"),
    )
    inner = {"S": WEIGHT_STATIONARY, "P": VECTOR, "O": OUTPUT_STATIONARY}
    return Mapping((Group(("S", "P", "O"), dict.fromkeys(("S", "P", "O"), shared), buffers, inner),))


def unfused() -> Mapping:
    """Every Einsum its own group: the scores go through DRAM twice."""
    groups = (
        Group(
            ("S",),
            {"S": nest("h:1 m:128")},
            (buffer("Q", "S", "h m"), buffer("K", "S", "h"), buffer("S", "S", "h m")),
            {"S": WEIGHT_STATIONARY},
        ),
        Group(
            ("P",), {"P": nest("h:1 m:64")}, (buffer("S", "P", "h m"), buffer("P", "P", "h m")), {"P": VECTOR}
        ),
        Group(
            ("O",),
            {"O": nest("h:1 m:128")},
            (buffer("P", "O", "h m"), buffer("V", "O", "h"), buffer("O", "O", "h m")),
            {"O": OUTPUT_STATIONARY},
        ),
    )
    return Mapping(groups)
