"""Feed-forward layers: the one of a transformer, and chains of dense layers."""

from __future__ import annotations

from typing import Any

from exactile.workloads.arguments import Count, Counts, Flag, Name, Op, Spec, builder, cascade_builder
from exactile.workloads.equations import spec


@builder
def ffn_spec(
    tokens: Count,
    d_model: Count,
    d_ff: Count,
    activation: Op = "gelu",
    gated: Flag = False,
    batch: Count = 1,
    bits: Count = 8,
    name: Name = "ffn",
) -> Spec:
    """The feed-forward layer: up projection `H`, activation `A` (in place), down projection `Y`.

    Ranks: `m` tokens times batch, `k` the model dimension going in, `l` the hidden one, `j` the model
    dimension coming out. `gated` adds a second up projection: `A = activation(G) * U`. `activation` is the
    name of an op, or `none`.
    """
    ranks = {"m": tokens * batch, "k": d_model, "l": d_ff, "j": d_model}
    if gated:
        up = ["G[m,l] = X[m,k] * WG[k,l]", "U[m,l] = X[m,k] * WU[k,l]"]
        up += gate(activation, "A[m,l]", "G[m,l]", "U[m,l]")
    else:
        up = ["H[m,l] = X[m,k] * WU[k,l]", *activated(activation, "A[m,l]", "H[m,l]")]
    hidden = "H" if activation == "none" and not gated else "A"
    return spec(name, ranks, bits, [*up, f"Y[m,j] = {hidden}[m,l] * WD[l,j]"], streams="X")


ffn = cascade_builder(ffn_spec)


@builder
def mlp_spec(
    widths: Counts,
    tokens: Count,
    activation: Op = "relu",
    batch: Count = 1,
    bits: Count = 8,
    name: Name = "mlp",
) -> Spec:
    """A chain of dense layers: `widths` are the sizes of the input, the hidden layers and the output.

    Layer `i` multiplies by `W{i}`, which gives `H{i}`, and all but the last apply `activation` (an op, or
    `none`) in place: `A{i}`. The last output is `Y`. Ranks: `m` tokens times batch, `k0`, `k1`, … the widths.
    """
    last = len(widths) - 1
    ranks = {"m": tokens * batch} | {f"k{i}": width for i, width in enumerate(widths)}
    einsums: list[Any] = []
    read = "X"
    for i in range(1, last + 1):
        made = "Y" if i == last else f"H{i}"
        einsums.append(f"{made}[m,k{i}] = {read}[m,k{i - 1}] * W{i}[k{i - 1},k{i}]")
        applied = activated(activation, f"A{i}[m,k{i}]", f"{made}[m,k{i}]") if i < last else []
        einsums += applied
        read = f"A{i}" if applied else made
    return spec(name, ranks, bits, einsums, streams="X")


mlp = cascade_builder(mlp_spec)


def activated(activation: str, out: str, hidden: str, bias: str = "") -> list[Any]:
    """`out = activation(hidden + bias)` in place; nothing if there is neither. All are accesses, or empty."""
    if activation == "none" and not bias:
        return []
    equation = f"{out} = {_applied(activation, hidden, bias)}"
    cost = {"cost": _cost(activation, bias)} if bias else {}
    return [{"einsum": equation, "in_place": True, **cost}]


def gate(activation: str, out: str, gating: str, linear: str, *biases: str) -> list[Any]:
    """`out = activation(gating) * linear` in place of `gating`, with a bias of each; all are accesses."""
    first, second = biases or ("", "")
    factor = f"({linear} + {second})" if second else linear
    left = _applied(activation, gating, first)
    left = f"({left})" if activation == "none" and first else left
    cost = {"mul": 1, **_cost(activation, first, second)}
    return [{"einsum": f"{out} = {left} * {factor}", "in_place": gating.split("[")[0], "cost": cost}]


def _applied(activation: str, hidden: str, bias: str) -> str:
    summed = f"{hidden} + {bias}" if bias else hidden
    return summed if activation == "none" else f"{activation}({summed})"


def _cost(activation: str, *biases: str) -> dict[str, int]:
    """Operations per point of the activation and the biases that are there."""
    sums = sum(1 for bias in biases if bias)
    return {op: count for op, count in ((activation, int(activation != "none")), ("add", sums)) if count}
