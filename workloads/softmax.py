"""The softmax between two products: as one Einsum, or written out as plain ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Softmax = Literal["online", "row", "none", "3-pass", "2-pass", "1-pass"]

# operations per score element: max, subtract, exp, add while the row is streamed; a second pass over the
# finished row for `row` (the FLAT accounting)
SOFTMAX_COST: Mapping[str, Mapping[str, int]] = {
    "online": {"max": 1, "sub": 1, "exp": 1, "add": 1},
    "row": {"max": 1, "add": 2, "exp": 1, "div": 1},
}


def softmax_product(
    softmax: Softmax, scores: str, over: str, weights: str, values: str, out: str
) -> list[Any]:
    """`out = softmax(scores) * values` along the rank `over`, as Einsums.

    `scores`, `values` and `out` are accesses such as `S[h,m,n]`; `weights` is the name of the softmax's
    result. `online` and `row` are one elementwise Einsum with a barrier, `none` leaves it out. `3-pass`
    is maximum, exponentials, their sum, quotients; `2-pass` divides the product instead of the weights;
    `1-pass` also does without the maximum, which is safe for bounded scores only. Their barriers follow
    from the Einsums. Tensors: maximum `M`, exponentials `E`, sum `D`, product before the division `U`.
    """
    name, ranks = scores.rstrip("]").split("[")
    rows = ",".join(rank for rank in ranks.split(",") if rank != over)
    score, weight, power = f"{name}[{ranks}]", f"{weights}[{ranks}]", f"E[{ranks}]"
    undivided = f"U[{out.split('[')[1]}"
    maximum = {"einsum": f"M[{rows}] = max({score})", "reduce": "max"}
    shifted: dict[str, Any] = {"einsum": f"{power} = exp({score} - M[{rows}])", "in_place": True}
    shifted["cost"] = {"sub": 1, "exp": 1}
    plain = {"einsum": f"{power} = exp({score})", "in_place": True}
    total = {"einsum": f"D[{rows}] = {power}", "op": "add"}
    match softmax:
        case "none":
            return [f"{out} = {score} * {values}"]
        case "online" | "row":
            cost = dict(SOFTMAX_COST[softmax])
            whole = {"einsum": f"{weight} = softmax({score})", "over": over, "mode": softmax}
            return [{**whole, "in_place": True, "cost": cost}, f"{out} = {weight} * {values}"]
        case "3-pass":
            divided = {"einsum": f"{weight} = {power} / D[{rows}]", "in_place": True}
            return [maximum, shifted, total, divided, f"{out} = {weight} * {values}"]
    before = [maximum, shifted] if softmax == "2-pass" else [plain]
    divided = {"einsum": f"{out} = {undivided} / D[{rows}]", "in_place": True}
    return [*before, total, f"{undivided} = {power} * {values}", divided]
