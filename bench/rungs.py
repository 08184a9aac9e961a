"""The problems of the ladder: from spaces of a few thousand pairs to ones that nobody enumerates.

Not a cross product but a selection in which each of these is met on several sizes: sequences of 128 to
131 072 tokens, divisors and every tile size, two to six ranks, the four objectives, tight and loose buffers,
single heads, many heads and grouped ones, softmax and feed-forward layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import exactile as ex

Sizes = Literal["divisors", "all"]
Softmax = Literal["online", "row", "none"]
MANY_HEADS = {"bert": (12, 64, 512), "gpt3": (32, 128, 2048)}


def machine(buffer_kib: int, name: str = "nvdla-like") -> ex.Hardware:
    """A built-in machine with a buffer of another size."""
    found = ex.hardware(name)
    outer, inner = found.levels
    return replace(found, levels=(outer, replace(inner, capacity=8 * 1024 * buffer_kib)))


def problem(
    cascade: ex.Cascade, objective: str, sizes: Sizes, buffer_kib: int, hardware: str = "nvdla-like"
) -> ex.Problem:
    """One rung, named after everything that distinguishes it."""
    short = {"dram_traffic": "traffic"}.get(objective, objective)
    name = f"{cascade.name}-{short}-{sizes}-{buffer_kib}k"
    return ex.Problem(
        cascade, machine(buffer_kib, hardware), ex.Objective(objective), ex.Mapspace(sizes), name
    )


def head(tokens: int, dim: int, softmax: Softmax = "none") -> ex.Cascade:
    """One attention head: ranks m, n, e, f."""
    kind = "" if softmax == "none" else f"-{softmax}"
    return ex.attention(1, dim, tokens, softmax=softmax, name=f"head-{tokens}x{dim}{kind}")


def single_heads() -> Iterator[ex.Problem]:
    """Divisors, traffic and energy; the first column of buffers is loose, the second tight."""
    for tokens, dim in ((128, 64), (512, 64), (2048, 128), (8192, 128), (131072, 128)):
        yield problem(head(tokens, dim), "dram_traffic", "divisors", 1024)
    for tokens, dim in ((128, 64), (512, 64), (2048, 128), (131072, 128)):
        yield problem(head(tokens, dim), "energy", "divisors", 1024)
    for tokens, dim, tight in ((512, 64, 16), (2048, 128, 64), (16384, 128, 128)):
        for objective in ("dram_traffic", "energy"):
            yield problem(head(tokens, dim), objective, "divisors", tight)
    yield problem(head(1024, 64, "row"), "dram_traffic", "divisors", 64)
    yield problem(head(1024, 64, "online"), "energy", "divisors", 64)


def every_size() -> Iterator[ex.Problem]:
    """Single heads with every tile size: the spaces grow with the product of the extents."""
    for tokens, dim, buffer in (
        (128, 64, 8),
        (512, 64, 64),
        (2048, 128, 256),
        (16384, 128, 256),
        (131072, 128, 256),
    ):
        yield problem(head(tokens, dim), "dram_traffic", "all", buffer)
    yield problem(head(197, 64, "online"), "energy", "all", 64)
    yield problem(head(512, 64), "energy", "all", 64)


def times() -> Iterator[ex.Problem]:
    """Latency, and energy × delay."""
    yield problem(head(512, 64), "latency", "divisors", 256)
    yield problem(head(256, 64), "latency", "all", 64)
    yield problem(many_heads("bert"), "latency", "divisors", 1024)
    yield problem(many_heads("gpt3"), "latency", "divisors", 4096, "tpu-like")
    yield problem(head(512, 64), "edp", "divisors", 256)
    yield problem(feed_forward("bert"), "edp", "divisors", 1024)


def many_heads(model: str) -> ex.Cascade:
    """Multi-head attention: ranks h, m, n, e, f."""
    heads, dim, tokens = MANY_HEADS[model]
    return ex.attention(heads, dim, tokens, name=f"{model}-attention")


def larger_cascades() -> Iterator[ex.Problem]:
    """Five and six ranks; a batch; one token against a cache; three and four Einsums."""
    yield problem(many_heads("bert"), "energy", "divisors", 1024)
    batched = ex.attention(12, 64, 512, batch=8, name="bert-attention-batch8")
    yield problem(batched, "latency", "divisors", 512)
    grouped = ex.attention(32, 128, 8192, kv_heads=8, name="llama3-attention")
    yield problem(grouped, "energy", "divisors", 1024)
    decode = ex.attention(32, 128, 1, kv_heads=8, kv_tokens=4096, name="llama3-decode")
    yield problem(decode, "energy", "divisors", 64)
    yield problem(feed_forward("bert"), "energy", "divisors", 1024)
    yield problem(feed_forward("gpt3"), "dram_traffic", "divisors", 256)
    gated = ex.ffn(512, 4096, 14336, "silu", gated=True, name="llama3-ffn")
    yield problem(gated, "dram_traffic", "divisors", 1024)


def feed_forward(model: str) -> ex.Cascade:
    """Two products with an activation between: ranks m, k, l, j."""
    tokens, width, hidden = {"bert": (512, 768, 3072), "gpt3": (2048, 4096, 16384)}[model]
    return ex.ffn(tokens, width, hidden, name=f"{model}-ffn")


def few_ranks() -> Iterator[ex.Problem]:
    """Two and three ranks, where every tile size is still little."""
    rows = ex.Cascade(
        {"m": 4096, "n": 4096},
        [{"einsum": "T[m,n] = A[m,n] * B[m,n]", "op": "mul"}, "Y[m] = T[m,n] * X[n]"],
        name="masked-rows",
    )
    yield problem(rows, "dram_traffic", "all", 16)
    product = ex.Cascade({"m": 4096, "k": 4096, "n": 4096}, ["C[m,n] = A[m,k] * B[k,n]"], name="product-4096")
    yield problem(product, "dram_traffic", "all", 256)
    one_token = ex.ffn(1, 4096, 16384, name="gpt3-ffn-one-token")
    yield problem(one_token, "energy", "divisors", 64)


def ladder() -> list[ex.Problem]:
    """All problems, small ones first within each part."""
    parts = (single_heads(), every_size(), times(), larger_cascades(), few_ranks())
    return [rung for part in parts for rung in part]
