"""Builders: small functions that make families of cascades.

`attention` and `ffn` return a `Cascade`; a file names them with `{builder: attention, heads: 12, …}`. Wrong
arguments raise `InputError` with every fault, each with the path of the argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from exactile.formulation.cascade import Cascade
from exactile.formulation.faults import Fault, InputError, nearest, shown

Softmax = Literal["online", "row", "none"]

# operations per score element: max, subtract, exp, add while the row is streamed; a second pass over the
# finished row for `row` (the FLAT accounting)
SOFTMAX_COST: Mapping[str, Mapping[str, int]] = {
    "online": {"max": 1, "sub": 1, "exp": 1, "add": 1},
    "row": {"max": 1, "add": 2, "exp": 1, "div": 1},
}


def attention(
    heads: int,
    head_dim: int,
    tokens: int,
    kv_heads: int | None = None,
    kv_tokens: int | None = None,
    softmax: Softmax = "online",
    batch: int = 1,
    bits: int = 8,
    name: str = "attention",
) -> Cascade:
    """Scaled dot-product attention of one layer: scores `S`, softmax `P` (in place), output `O`.

    Ranks: `h` heads, `m` query tokens, `n` key tokens (`kv_tokens`, default `tokens`), `e` and `f` the head
    dimension of scores and output, `b` batch if it is above one. With fewer `kv_heads` than heads `h` counts
    key/value heads and `g` the query heads of each group. `softmax` is `online` (streamed along `n`, output
    rescaled), `row` (needs the finished row) or `none` (the output reads the scores).
    """
    spec = attention_spec(heads, head_dim, tokens, kv_heads, kv_tokens, softmax, batch, bits, name)
    return Cascade(**spec)


def attention_spec(
    heads: int,
    head_dim: int,
    tokens: int,
    kv_heads: int | None = None,
    kv_tokens: int | None = None,
    softmax: Softmax = "online",
    batch: int = 1,
    bits: int = 8,
    name: str = "attention",
) -> dict[str, Any]:
    """The arguments of `Cascade` for `attention`, in the form of a workload file."""
    counts = {"heads": heads, "head_dim": head_dim, "tokens": tokens, "batch": batch, "bits": bits}
    optional = {"kv_heads": kv_heads, "kv_tokens": kv_tokens}
    faults = _count_faults(counts | {key: value for key, value in optional.items() if value is not None})
    faults += _choice_faults("softmax", softmax, get_args(Softmax))
    kv_heads = heads if kv_heads is None else kv_heads
    kv_tokens = tokens if kv_tokens is None else kv_tokens
    if not faults and heads % kv_heads:
        faults.append(Fault(("kv_heads",), f"expected a divisor of heads ({heads}), got {kv_heads}"))
    if faults:
        raise InputError(faults)

    grouped = kv_heads != heads
    ranks = {"b": batch} if batch > 1 else {}
    ranks |= {"h": kv_heads, "g": heads // kv_heads} if grouped else {"h": heads}
    ranks |= {"m": tokens, "n": kv_tokens, "e": head_dim, "f": head_dim}
    outer = "b,h" if batch > 1 else "h"
    query = f"{outer},g" if grouped else outer

    einsums: list[Any] = [f"S[{query},m,n] = Q[{query},m,e] * K[{outer},n,e]"]
    if softmax != "none":
        equation = f"P[{query},m,n] = softmax(S[{query},m,n])"
        cost = dict(SOFTMAX_COST[softmax])
        einsums.append({"einsum": equation, "over": "n", "mode": softmax, "in_place": True, "cost": cost})
    weights = "S" if softmax == "none" else "P"
    einsums.append(f"O[{query},m,f] = {weights}[{query},m,n] * V[{outer},n,f]")
    return {"name": name, "ranks": ranks, "bits": bits, "einsums": einsums}


def ffn(
    tokens: int,
    d_model: int,
    d_ff: int,
    activation: str = "gelu",
    gated: bool = False,
    batch: int = 1,
    bits: int = 8,
    name: str = "ffn",
) -> Cascade:
    """The feed-forward layer: up projection `H`, activation `A` (in place), down projection `Y`.

    Ranks: `m` tokens times batch, `k` the model dimension going in, `l` the hidden one, `j` the model
    dimension coming out. `gated` adds a second up projection: `A = activation(G) * U`. `activation` is the
    name of an op, or `none`.
    """
    return Cascade(**ffn_spec(tokens, d_model, d_ff, activation, gated, batch, bits, name))


def ffn_spec(
    tokens: int,
    d_model: int,
    d_ff: int,
    activation: str = "gelu",
    gated: bool = False,
    batch: int = 1,
    bits: int = 8,
    name: str = "ffn",
) -> dict[str, Any]:
    """The arguments of `Cascade` for `ffn`, in the form of a workload file."""
    faults = _count_faults({"tokens": tokens, "d_model": d_model, "d_ff": d_ff, "batch": batch, "bits": bits})
    if not isinstance(activation, str) or not activation.isidentifier():
        faults.append(
            Fault(("activation",), f"expected the name of an op like gelu, or none, got {shown(activation)}")
        )
    if not isinstance(gated, bool):
        faults.append(Fault(("gated",), f"expected true or false, got {shown(gated)}"))
    if faults:
        raise InputError(faults)

    identity = activation == "none"
    if gated:
        gate = "G[m,l]" if identity else f"{activation}(G[m,l])"
        cost = {"mul": 1} if identity else {activation: 1, "mul": 1}
        einsums: list[Any] = ["G[m,l] = X[m,k] * WG[k,l]", "U[m,l] = X[m,k] * WU[k,l]"]
        einsums.append({"einsum": f"A[m,l] = {gate} * U[m,l]", "in_place": "G", "cost": cost})
        weights = ["WG", "WU", "WD"]
    else:
        einsums = ["H[m,l] = X[m,k] * WU[k,l]"]
        if not identity:
            einsums.append({"einsum": f"A[m,l] = {activation}(H[m,l])", "in_place": True})
        weights = ["WU", "WD"]
    hidden = "H" if identity and not gated else "A"
    einsums.append(f"Y[m,j] = {hidden}[m,l] * WD[l,j]")
    ranks = {"m": tokens * batch, "k": d_model, "l": d_ff, "j": d_model}
    tensors = {weight: {"role": "weight"} for weight in weights}
    return {"name": name, "ranks": ranks, "bits": bits, "einsums": einsums, "tensors": tensors}


BUILDERS: Mapping[str, Callable[..., dict[str, Any]]] = {"attention": attention_spec, "ffn": ffn_spec}


def build_spec(builder: object, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the named builder makes of `arguments`: the content of a workload file.

    Raises `InputError`: an unknown builder or argument, a missing one, a wrong value.
    """
    if not isinstance(builder, str) or builder not in BUILDERS:
        known = ", ".join(BUILDERS)
        raise InputError(
            [
                Fault(
                    ("builder",),
                    f"unknown builder {builder!r}, expected one of {known}{nearest(str(builder), BUILDERS)}",
                )
            ]
        )
    parameters = inspect.signature(BUILDERS[builder]).parameters
    faults = [
        Fault((key,), f"unknown argument of builder {builder}{nearest(str(key), parameters)}")
        for key in arguments
        if key not in parameters
    ]
    faults += [
        Fault((), f"missing key '{key}' of builder {builder}")
        for key, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and key not in arguments
    ]
    given = {key: value for key, value in arguments.items() if key in parameters}
    if faults:
        # the values that are there are judged too: all faults at once
        faults += _count_faults(
            {key: value for key, value in given.items() if parameters[key].annotation.startswith("int")}
        )
        raise InputError(faults)
    return BUILDERS[builder](**given)


def _count_faults(values: Mapping[str, object]) -> list[Fault]:
    return [
        Fault((key,), f"expected a positive integer, got {shown(value)}")
        for key, value in values.items()
        if isinstance(value, bool) or not isinstance(value, int) or value < 1
    ]


def _choice_faults(key: str, value: object, allowed: tuple[str, ...]) -> list[Fault]:
    if value in allowed:
        return []
    return [
        Fault((key,), f"expected {' or '.join(allowed)}, got {shown(value)}{nearest(str(value), allowed)}")
    ]
