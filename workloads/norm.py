"""LayerNorm and RMSNorm as plain Einsums: their barriers follow from the reductions."""

from __future__ import annotations

from typing import Any, Literal

Norm = Literal["none", "layer", "rms"]


def norm_einsums(norm: Norm, stream: str, rank: str, size: int, eps: float, in_place: bool) -> list[Any]:
    """The Einsums that normalise the access `stream`, such as `X[t,d]`, along `rank` of extent `size`.

    RMSNorm of `X`: sum of squares `VX`, result `NX` with the gains `GX`. LayerNorm: also the sum `MX` and
    the offsets `BX`; the variance is the mean square less the squared mean, so that one pass over `X` gives
    both statistics. One reciprocal root per row is part of the last Einsum: `1/size` of one per point.
    `in_place`: the result overwrites `stream`, which nothing else reads later.
    """
    name, ranks = stream.rstrip("]").split("[")
    rows = ",".join(r for r in ranks.split(",") if r != rank)
    total, squares, result = f"M{name}[{rows}]", f"V{name}[{rows}]", f"N{name}[{ranks}]"
    gain, offset = f"G{name}[{rank}]", f"B{name}[{rank}]"
    placed = {"in_place": True} if in_place else {}
    root = {"rsqrt": f"1/{size}"}
    squared = f"{squares} = {stream} * {stream}"
    match norm:
        case "none":
            return []
        case "rms":
            scaled = f"{result} = {stream} * rsqrt({squares} / {size} + {eps}) * {gain}"
            return [squared, {"einsum": scaled, **placed, "cost": {"mul": 2, **root}}]
    variance = f"{squares} / {size} - {total} * {total} / {size * size}"
    centred = f"({stream} - {total} / {size})"
    scaled = f"{result} = {centred} * rsqrt({variance} + {eps}) * {gain} + {offset}"
    return [
        {"einsum": f"{total} = {stream}", "op": "add"},
        squared,
        {"einsum": scaled, **placed, "cost": {"sub": 1, "mul": 2, "add": 1, **root}},
    ]
