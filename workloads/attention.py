"""Scaled dot-product attention of one layer, from queries, keys and values to its output."""

from __future__ import annotations

from exactile.formulation.faults import Fault, InputError
from exactile.workloads.arguments import Count, Name, Spec, builder, cascade_builder
from exactile.workloads.equations import spec
from exactile.workloads.softmax import Softmax, softmax_product


@builder
def attention_spec(
    heads: Count,
    head_dim: Count,
    tokens: Count,
    kv_heads: Count | None = None,
    kv_tokens: Count | None = None,
    softmax: Softmax = "online",
    batch: Count = 1,
    bits: Count = 8,
    name: Name = "attention",
) -> Spec:
    """Scaled dot-product attention of one layer: scores `S`, softmax `P` (in place), output `O`.

    Ranks: `h` heads, `m` query tokens, `n` key tokens (`kv_tokens`, default `tokens`), `e` and `f` the head
    dimension of scores and output, `b` batch if it is above one. With fewer `kv_heads` than heads `h` counts
    key/value heads and `g` the query heads of each group. `softmax` is `online` (streamed along `n`, output
    rescaled), `row` (needs the finished row), `none` (the output reads the scores), or written out in plain
    Einsums: `3-pass`, `2-pass`, `1-pass`.
    """
    groups = head_groups(heads, kv_heads)
    ranks = {"b": batch, "h": heads // groups, "g": groups}
    ranks |= {"m": tokens, "n": kv_tokens or tokens, "e": head_dim, "f": head_dim}
    einsums = [
        "S[b,h,g,m,n] = Q[b,h,g,m,e] * K[b,h,n,e]",
        *softmax_product(softmax, "S[b,h,g,m,n]", "n", "P", "V[b,h,n,f]", "O[b,h,g,m,f]"),
    ]
    return spec(name, ranks, bits, einsums, optional="bg")


attention = cascade_builder(attention_spec)


def head_groups(heads: int, kv_heads: int | None) -> int:
    """Query heads per key/value head. Raises `InputError` if they cannot be grouped evenly."""
    if kv_heads is not None and heads % kv_heads:
        raise InputError([Fault(("kv_heads",), f"expected a divisor of heads ({heads}), got {kv_heads}")])
    return heads // (kv_heads or heads)
