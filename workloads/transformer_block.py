"""A transformer block in prefill: projections, attention, output projection, residuals, norms, FFN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from exactile.formulation.faults import Fault, InputError
from exactile.workloads.arguments import Count, Flag, Name, Op, Positive, Spec, builder, cascade_builder
from exactile.workloads.attention import head_groups
from exactile.workloads.equations import rewritten, spec, tensors
from exactile.workloads.ffn import activated, gate
from exactile.workloads.norm import Norm, norm_einsums
from exactile.workloads.softmax import Softmax, softmax_product

Biases = Literal["none", "qkv", "attention", "ffn", "all"]

# which products have a bias, by their outputs; gate and linear part of an FFN count as one
_BIASED: Mapping[str, str] = {"none": "", "qkv": "QKV", "attention": "QKVY", "ffn": "BLC", "all": "QKVYBLC"}


def _phase(value: object) -> str | None:
    return None if value == "prefill" else "prefill (blocks of other phases are not supported yet)"


@builder
def transformer_block_spec(
    tokens: Count,
    d_model: Count,
    heads: Count,
    head_dim: Count | None = None,
    kv_heads: Count | None = None,
    d_ff: Count | None = None,
    softmax: Softmax = "online",
    activation: Op = "gelu",
    gated: Flag = False,
    norm: Norm = "none",
    norm_first: Flag = True,
    norm_eps: Positive = 1e-5,
    biases: Biases = "none",
    layers: Count = 1,
    phase: Annotated[str, _phase] = "prefill",
    batch: Count = 1,
    bits: Count = 8,
    name: Name = "transformer-block",
) -> Spec:
    """One block, or `layers` of them in a row, from the stream `X` to the stream `O` (`NO` after a norm).

    Ranks: `t` query tokens, `u` key tokens, `d` and `o` the model dimension before and after attention, `h`
    heads (of keys and values; `g` the query heads of each if there are more), `c` and `v` the head dimension
    of scores and values, `f` the hidden dimension of the FFN, `b` the batch if it is above one. The stream is
    read through `t` and `u`, and by the residuals through the other name of the model dimension.

    Tensors: projections `Q K V`, scores `S`, weights `A`, attended values `Z`, their projection `Y`, stream
    after attention `R`, hidden `B` (gated: also `L`), activation `G`, its projection `C`. Weights are `W…`,
    biases `B…`; those of `Q K V` are added in Einsums of their own, `QB`, the others in the elementwise
    Einsum that follows. Norms are those of `norm_einsums`, before attention and FFN, or after the residuals
    unless `norm_first`. Several layers number their tensors `Q_1`, `Q_2`, ….
    """
    if head_dim is None and d_model % heads:
        message = f"expected a divisor of d_model ({d_model}) or 'head_dim' beside it, got {heads}"
        raise InputError([Fault(("heads",), message)])
    groups = head_groups(heads, kv_heads)
    size = head_dim or d_model // heads
    ranks = {"b": batch, "t": tokens, "u": tokens, "d": d_model, "h": heads // groups, "g": groups}
    ranks |= {"c": size, "v": size, "o": d_model, "f": d_ff or 4 * d_model}

    def normed(stream: str, here: bool) -> tuple[str, list[Any]]:
        """The name of a stream after its norm, and the Einsums of the norm if there is one here."""
        kind = norm if here else "none"
        einsums = norm_einsums(kind, stream, stream[-2], d_model, norm_eps, in_place=not norm_first)
        return ("N" if einsums else "") + stream[0], einsums

    biased = _BIASED[biases]
    x, before = normed("X[b,t,d]", norm_first)
    r, between = normed("R[b,t,o]", True)
    out, after = normed("O[b,t,d]", not norm_first)
    kept = "R" if norm_first else r  # what goes past the FFN
    ffn = _ffn(r, kept, activation, gated, biased)
    layer = [*before, *_attention(x, softmax, biased), *between, *ffn, *after]
    return spec(name, ranks, bits, _in_a_row(layer, layers, out), streams="X", optional="bg")


transformer_block = cascade_builder(transformer_block_spec)


def _attention(x: str, softmax: Softmax, biased: str) -> list[Any]:
    """From the (normalised) stream `x` to the stream `R`, which the first residual makes."""
    einsums: list[Any] = []
    for product, read, weight, bias in (
        ("Q[b,t,h,g,c]", "[b,t,d]", "WQ[d,h,g,c]", "BQ[h,g,c]"),
        ("K[b,u,h,c]", "[b,u,d]", "WK[d,h,c]", "BK[h,c]"),
        ("V[b,u,h,v]", "[b,u,d]", "WV[d,h,v]", "BV[h,v]"),
    ):
        einsums.append(f"{product} = {x}{read} * {weight}")
        if product[0] in biased:
            summed = f"{product[0]}B{product[1:]} = {product} + {bias}"
            einsums.append({"einsum": summed, "in_place": True})
    q, k, v = (f"{name}B" if name in biased else name for name in "QKV")
    return [
        *einsums,
        f"S[b,h,g,t,u] = {q}[b,t,h,g,c] * {k}[b,u,h,c]",
        *softmax_product(softmax, "S[b,h,g,t,u]", "u", "A", f"{v}[b,u,h,v]", "Z[b,t,h,g,v]"),
        "Y[b,t,o] = Z[b,t,h,g,v] * WO[h,g,v,o]",
        _residual("R[b,t,o]", "Y[b,t,o]", "X[b,t,o]", "BY[o]" if "Y" in biased else ""),
    ]


def _ffn(r: str, kept: str, activation: str, gated: bool, biased: str) -> list[Any]:
    """From the (normalised) stream `r` to the stream `O`, which the residual with `kept` makes."""
    biases = {product: f"B{product}[f]" if product in biased else "" for product in "BL"}
    up: list[Any] = [f"B[b,t,f] = {r}[b,t,o] * W1[o,f]"]
    if gated:
        up += [f"L[b,t,f] = {r}[b,t,o] * W3[o,f]"]
        up += gate(activation, "G[b,t,f]", "B[b,t,f]", "L[b,t,f]", biases["B"], biases["L"])
    else:
        up += activated(activation, "G[b,t,f]", "B[b,t,f]", biases["B"])
    hidden = "G" if len(up) > 1 else "B"
    return [
        *up,
        f"C[b,t,d] = {hidden}[b,t,f] * W2[f,d]",
        _residual("O[b,t,d]", "C[b,t,d]", f"{kept}[b,t,d]", "BC[d]" if "C" in biased else ""),
    ]


def _residual(out: str, product: str, stream: str, bias: str) -> Any:
    """`out = product + stream + bias` in place of the product."""
    terms = [product, stream, bias] if bias else [product, stream]
    return {"einsum": f"{out} = {' + '.join(terms)}", "in_place": True, "cost": {"add": len(terms) - 1}}


def _in_a_row(layer: list[Any], layers: int, out: str) -> list[Any]:
    """The Einsums of one layer so many times, each reading as `X` what the one before calls `out`."""
    if layers == 1:
        return layer
    einsums: list[Any] = []
    for i in range(1, layers + 1):
        stream = "X" if i == 1 else f"{out}_{i - 1}"
        names = {tensor: f"{tensor}_{i}" for einsum in layer for tensor in tensors(einsum)} | {"X": stream}
        einsums += [rewritten(einsum, names) for einsum in layer]
    return einsums
