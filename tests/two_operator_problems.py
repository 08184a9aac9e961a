"""Random problems of two contractions with at most one elementwise Einsum between them.

`problem(seed)` is the same problem for ever: small extents (primes and 1 among them), heads, ranks that
one operand misses, softmaxes, machines with systolic, free and vector units, and capacities from too
small for anything to large enough for everything.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any, Literal, NamedTuple

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim
from exactile.formulation.problem import OBJECTIVES, Mapspace, Objective, Problem

EXTENTS = (1, 2, 2, 3, 3, 4, 4, 4, 5, 6, 6, 7, 8, 9, 11, 12, 13)
MOST_POINTS = 40_000


class Shape(NamedTuple):
    """Index letters of `C = A*B` and `E = C*D` (or of `E = P*D` with `P` elementwise of `C`)."""

    a: str
    b: str
    c: str
    d: str
    e: str


SHAPES = {
    "attention": Shape("ik", "lk", "il", "lj", "ij"),
    "heads": Shape("hik", "hlk", "hil", "hlj", "hij"),
    "grouped": Shape("gik", "lk", "gil", "lj", "gij"),
    "no output rank": Shape("ik", "lk", "il", "l", "i"),
    "outer product": Shape("i", "l", "il", "lj", "ij"),
    "batch only": Shape("hk", "hlk", "hl", "hlj", "hj"),
}


def _access(name: str, ranks: str) -> str:
    return f"{name}[{','.join(ranks)}]" if ranks else name


def _middle(rng: random.Random, shape: Shape) -> dict[str, Any] | None:
    """The elementwise Einsum between the contractions: a softmax, an activation, or none."""
    kind = rng.choice(("none", "none", "none", "softmax", "softmax", "exp"))
    if kind == "none":
        return None
    entry: dict[str, Any] = {"einsum": f"{_access('P', shape.c)} = {kind}({_access('C', shape.c)})"}
    if kind == "softmax":
        entry |= {"over": "l", "mode": rng.choice(("row", "online"))}
    if rng.random() < 0.6:
        entry["in_place"] = True
    if rng.random() < 0.3:
        entry["cost"] = {"exp": 1, "add": "3/2"}
    return entry


def cascade(rng: random.Random) -> Cascade:
    name = rng.choices(list(SHAPES), weights=(5, 2, 2, 1, 1, 1))[0]
    shape = SHAPES[name]
    ranks = {r: rng.choice(EXTENTS) for r in sorted(set("".join(shape)))}
    return _build(rng, name, ranks, _middle(rng, shape))


def cheap_to_recompute(rng: random.Random) -> Cascade:
    """A first contraction over so little that making its tiles again may cost less than keeping more."""
    ranks = {
        "i": rng.choice((4, 8, 9, 10, 12)),
        "l": rng.choice((6, 8, 9, 11, 12)),
        "k": rng.choice((1, 1, 2)),
        "j": rng.choice((3, 4, 4, 5, 6)),
    }
    middle = {"einsum": "P[i,l] = exp(C[i,l])", "in_place": True} if rng.random() < 0.2 else None
    return _build(rng, "attention", ranks, middle)


def _build(rng: random.Random, name: str, ranks: dict[str, int], middle: dict[str, Any] | None) -> Cascade:
    shape = SHAPES[name]
    left = _access("P" if middle else "C", shape.c)
    einsums: list[Any] = [
        f"{_access('C', shape.c)} = {_access('A', shape.a)} * {_access('B', shape.b)}",
        *([middle] if middle else []),
        f"{_access('E', shape.e)} = {left} * {_access('D', shape.d)}",
    ]
    tensors: dict[str, dict[str, Any]] = {}
    if middle is None and rng.random() < 0.15:
        tensors["C"] = rng.choice(({"row": "l"}, {"online": "l"}, {"online": "l", "corrects": "E"}))
    elif middle is None and rng.random() < 0.15:
        tensors["C"] = {"role": "output"}
    for tensor in "ABCDE":
        if rng.random() < 0.25:
            tensors.setdefault(tensor, {})["bits"] = rng.choice((4, 8, 16))
    return Cascade(ranks, einsums, name=name, tensors=tensors)


def _rate(rng: random.Random, low: int, high: int) -> Rate:
    return Rate(Fraction(rng.randint(low, high), rng.choice((1, 1, 2, 10))), rng.choice(("bit", "value")))


def _bandwidth(rng: random.Random, low: int, high: int) -> Rate:
    return Rate(Fraction(rng.randint(low, high)), rng.choice(("bit", "value")))


def _dims(rng: random.Random) -> tuple[SpatialDim, ...]:
    sizes = rng.choice(((2, 2), (2, 3), (4, 2), (3, 1), (4,)))
    return tuple(
        SpatialDim(("rows", "cols")[k], size, rng.random() < 0.8, rng.random() < 0.8)
        for k, size in enumerate(sizes)
    )


def _units(rng: random.Random) -> tuple[ComputeUnit, ...]:
    mac = {"mac": OpCost(Fraction(rng.randint(1, 4)), Fraction(rng.choice((1, 1, 2))))}
    count = rng.choice((1, 1, 1, 2))
    instances = SpatialDim("instances", count, rng.random() < 0.7, rng.random() < 0.7)
    kind = rng.choice(("systolic", "systolic", "free", "none"))
    others = {
        op: OpCost(Fraction(rng.randint(1, 3)), Fraction(rng.choice((1, 2)))) for op in ("ew", "softmax")
    }
    vector = ComputeUnit("vector", "vector", others, lanes=rng.choice((1, 2, 3)))
    if kind == "none":
        return (replace(vector, ops=others | mac, instances=instances),)
    if kind == "systolic":
        flows = ("weight_stationary", "output_stationary", "input_stationary")
        chosen = flows if rng.random() < 0.7 else (rng.choice(flows),)
        return (ComputeUnit("array", "systolic", mac, chosen, instances=instances), vector)
    registers = rng.choice(((), (), ("output",), ("weight",), ("input", "output")))
    return (ComputeUnit("array", "free", mac, ("free",), registers), vector)


def machine(rng: random.Random, capacity: int, starved: bool) -> Hardware:
    """DRAM, one buffer, one or two units; `starved`: memory traffic is what everything waits for."""
    shared = rng.random() < 0.6
    wide, narrow = not starved and rng.random() < 0.5, starved or rng.random() < 0.9
    fast = 1 if starved else 16
    dram = Level(
        "DRAM",
        None,
        _rate(rng, 50, 200),
        _rate(rng, 50, 200),
        _bandwidth(rng, 1, fast) if narrow else None,
        _bandwidth(rng, 1, fast) if narrow and not shared else None,
        shared,
    )
    apart = rng.random() < 0.5
    buffer = Level(
        "GLB",
        capacity,
        _rate(rng, 1, 6),
        _rate(rng, 1, 6),
        _bandwidth(rng, 8, 64) if wide else None,
        _bandwidth(rng, 8, 64) if wide and apart else None,
        not apart,
        double_buffer=rng.random() < 0.15,
        spatial=_dims(rng),
    )
    overlap: Literal["full", "none"] = "none" if rng.random() < 0.2 else "full"
    launch = Fraction(rng.choice((0, 0, 0, 3)))
    return Hardware("random", (dram, buffer), _units(rng), overlap=overlap, launch=launch)


def capacity_bits(rng: random.Random, work: Cascade, share: float) -> int:
    """Every eighth time too small for anything; else (on a logarithmic scale) `share` of everything."""
    bits = [t.bits for t in work.tensors.values()]
    if rng.random() < 0.13:
        return rng.randint(1, 2 * min(bits))
    sizes = sum(t.bits * t.size for t in work.tensors.values())
    least = 4 * max(bits)
    return int(least * (max(sizes, 2 * least) / least) ** share)


def objective(rng: random.Random, index: int, work: Cascade) -> Objective:
    minimize = OBJECTIVES[index % len(OBJECTIVES)]
    then = rng.choice(
        (("operations", "energy"), ("operations", "energy"), ("energy",), ("latency", "energy"), ())
    )
    limits: dict[str, Fraction] = {}
    if rng.random() < 0.1:
        once = sum(work.points(e) * sum(e.cost.values(), Fraction(0)) for e in work.einsums)
        limits["operations"] = once * rng.choice((Fraction(1), Fraction(6, 5)))
    if rng.random() < 0.1:
        least = sum(t.size * t.bits for t in work.tensors.values() if t.role != "intermediate")
        limits["dram_traffic"] = Fraction(least, 8) * rng.choice((Fraction(1), Fraction(3, 2), Fraction(3)))
    return Objective(minimize, then, limits)


def mapspace(rng: random.Random, work: Cascade, recomputation: bool) -> Mapspace:
    fusion: Literal["free", "none"] | tuple[tuple[str, ...], ...] = "free"
    if rng.random() < 0.05:
        names = tuple(e.name for e in work.einsums)
        fusion = rng.choice(("none", (names,), (names[:1], names[1:])))
    rank = rng.choice(sorted(work.ranks))
    pins = {rank: rng.randint(1, work.ranks[rank])} if rng.random() < 0.1 else {}
    sizes: Literal["divisors", "all"] = "divisors" if rng.random() < 0.4 else "all"
    if any(work.ranks[r] % tile for r, tile in pins.items()):
        sizes = "all"
    return Mapspace(sizes, recomputation, fused_outputs=rng.random() < 0.8, fusion=fusion, tiles=pins)


def points(work: Cascade, space: Mapspace) -> int:
    """A measure of the brute force's work: candidates of one Einsum alone, all Einsums."""
    total = 0
    for einsum in work.einsums:
        sizes = [_candidates(work.ranks[r], space) for r in einsum.ranks]
        loops = len(einsum.ranks)
        total += prod(sizes) * prod(range(1, loops + 1)) * (loops + 1) ** (1 + len(einsum.inputs))
    return total


def _candidates(extent: int, space: Mapspace) -> int:
    if space.tile_sizes == "divisors":
        return sum(extent % tile == 0 for tile in range(1, extent + 1))
    return len({-(-extent // tile) for tile in range(1, extent + 1)})


def problem(seed: int) -> Problem:
    """The random problem of that number; the objectives take turns."""
    rng = random.Random(f"two operators {seed}")
    cheap = rng.random() < 0.4
    while True:
        work = cheap_to_recompute(rng) if cheap else cascade(rng)
        space = mapspace(rng, work, recomputation=cheap or rng.random() < 0.9)
        if points(work, space) <= MOST_POINTS:
            break
    share = rng.uniform(0.35, 0.6) if cheap else rng.uniform(0.0, 0.9)
    hardware = machine(rng, capacity_bits(rng, work, share), starved=cheap)
    return Problem(work, hardware, objective(rng, seed, work), space, name=f"random {seed}")
