"""Transformer blocks, MLP chains and softmaxes from builders: what they write, count and compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import exactile as ex
from exactile.formulation.cascade import Cascade
from exactile.solver.replay import reference
from exactile.workloads.builders import attention, build_spec, mlp, transformer_block

Array = npt.NDArray[np.float64]

PLAIN = """\
Q[t,h,c] = X[t,d] * WQ[d,h,c]
K[u,h,c] = X[u,d] * WK[d,h,c]
V[u,h,v] = X[u,d] * WV[d,h,v]
S[h,t,u] = Q[t,h,c] * K[u,h,c]
A[h,t,u] = softmax(S[h,t,u])
Z[t,h,v] = A[h,t,u] * V[u,h,v]
Y[t,o] = Z[t,h,v] * WO[h,v,o]
R[t,o] = Y[t,o] + X[t,o]
B[t,f] = R[t,o] * W1[o,f]
G[t,f] = gelu(B[t,f])
C[t,d] = G[t,f] * W2[f,d]
O[t,d] = C[t,d] + R[t,d]"""

LLAMA = """\
VX[t] = X[t,d] * X[t,d]
NX[t,d] = X[t,d] * rsqrt(VX[t] / 32 + 1e-05) * GX[d]
Q[t,h,g,c] = NX[t,d] * WQ[d,h,g,c]
K[u,h,c] = NX[u,d] * WK[d,h,c]
V[u,h,v] = NX[u,d] * WV[d,h,v]
S[h,g,t,u] = Q[t,h,g,c] * K[u,h,c]
M[h,g,t] = max(S[h,g,t,u])
E[h,g,t,u] = exp(S[h,g,t,u] - M[h,g,t])
D[h,g,t] = E[h,g,t,u]
U[t,h,g,v] = E[h,g,t,u] * V[u,h,v]
Z[t,h,g,v] = U[t,h,g,v] / D[h,g,t]
Y[t,o] = Z[t,h,g,v] * WO[h,g,v,o]
R[t,o] = Y[t,o] + X[t,o]
VR[t] = R[t,o] * R[t,o]
NR[t,o] = R[t,o] * rsqrt(VR[t] / 32 + 1e-05) * GR[o]
B[t,f] = NR[t,o] * W1[o,f]
L[t,f] = NR[t,o] * W3[o,f]
G[t,f] = silu(B[t,f]) * L[t,f]
C[t,d] = G[t,f] * W2[f,d]
O[t,d] = C[t,d] + R[t,d]"""

BERT = """\
Q[b,t,h,c] = X[b,t,d] * WQ[d,h,c]
QB[b,t,h,c] = Q[b,t,h,c] + BQ[h,c]
K[b,u,h,c] = X[b,u,d] * WK[d,h,c]
KB[b,u,h,c] = K[b,u,h,c] + BK[h,c]
V[b,u,h,v] = X[b,u,d] * WV[d,h,v]
VB[b,u,h,v] = V[b,u,h,v] + BV[h,v]
S[b,h,t,u] = QB[b,t,h,c] * KB[b,u,h,c]
A[b,h,t,u] = softmax(S[b,h,t,u])
Z[b,t,h,v] = A[b,h,t,u] * VB[b,u,h,v]
Y[b,t,o] = Z[b,t,h,v] * WO[h,v,o]
R[b,t,o] = Y[b,t,o] + X[b,t,o] + BY[o]
MR[b,t] = R[b,t,o]
VR[b,t] = R[b,t,o] * R[b,t,o]
NR[b,t,o] = (R[b,t,o] - MR[b,t] / 32) * rsqrt(VR[b,t] / 32 - MR[b,t] * MR[b,t] / 1024 + 1e-05) * GR[o] + BR[o]
B[b,t,f] = NR[b,t,o] * W1[o,f]
G[b,t,f] = gelu(B[b,t,f] + BB[f])
C[b,t,d] = G[b,t,f] * W2[f,d]
O[b,t,d] = C[b,t,d] + NR[b,t,d] + BC[d]
MO[b,t] = O[b,t,d]
VO[b,t] = O[b,t,d] * O[b,t,d]
NO[b,t,d] = (O[b,t,d] - MO[b,t] / 32) * rsqrt(VO[b,t] / 32 - MO[b,t] * MO[b,t] / 1024 + 1e-05) * GO[d] + BO[d]
""".strip()

SMALL: dict[str, Any] = {"tokens": 12, "d_model": 32, "heads": 4}
LLAMA_LIKE: dict[str, Any] = {
    "kv_heads": 2,
    "d_ff": 24,
    "activation": "silu",
    "gated": True,
    "norm": "rms",
    "softmax": "2-pass",
}
BERT_LIKE: dict[str, Any] = {"norm": "layer", "norm_first": False, "biases": "all", "batch": 2}


def equations(spec: dict[str, Any]) -> list[str]:
    return [entry if isinstance(entry, str) else entry["einsum"] for entry in spec["einsums"]]


def in_place(cascade: Cascade) -> dict[str, str]:
    return {einsum.name: einsum.in_place for einsum in cascade.einsums if einsum.in_place}


@pytest.mark.parametrize(
    ("more", "expected"),
    [({}, PLAIN), (LLAMA_LIKE, LLAMA), (BERT_LIKE, BERT)],
    ids=["plain", "llama-like", "bert-like"],
)
def test_the_einsums_of_a_block(more: dict[str, Any], expected: str) -> None:
    assert equations(build_spec("transformer_block", SMALL | more)) == expected.splitlines()


def test_elementwise_results_overwrite_what_nothing_reads_later() -> None:
    assert in_place(transformer_block(**SMALL)) == {"A": "S", "R": "Y", "G": "B", "O": "C"}
    assert in_place(transformer_block(**SMALL, **LLAMA_LIKE)) == {
        "E": "S",
        "Z": "U",
        "R": "Y",
        "G": "B",
        "O": "C",
    }
    placed = {"QB": "Q", "KB": "K", "VB": "V", "A": "S", "R": "Y", "NR": "R", "G": "B", "O": "C", "NO": "O"}
    assert in_place(transformer_block(**SMALL, **BERT_LIKE)) == placed


def test_roles_of_a_block() -> None:
    cascade = transformer_block(**SMALL, **BERT_LIKE)
    by_role = {
        role: {t.name for t in cascade.tensors.values() if t.role == role} for role in ("input", "output")
    }
    assert by_role == {"input": {"X"}, "output": {"NO"}}
    weights = {t.name for t in cascade.tensors.values() if t.role == "weight"}
    assert " ".join(sorted(weights)) == "BB BC BK BO BQ BR BV BY GO GR W1 W2 WK WO WQ WV"


@pytest.mark.parametrize("softmax", ["online", "row", "3-pass", "2-pass", "1-pass"])
def test_barriers_of_a_softmax(softmax: Any) -> None:
    """One Einsum declares them; written out, the reductions along the keys are the barriers."""
    cascade = transformer_block(**SMALL, softmax=softmax)
    declared = {barrier.mode for barrier in cascade.barriers}
    reducing = {e.name for e in cascade.einsums if "u" in e.reduction}
    whole = {"online", "row"} & {softmax}
    assert declared == whole
    assert reducing == {
        "online": {"Z"},
        "row": {"Z"},
        "3-pass": {"M", "D", "Z"},
        "2-pass": {"M", "D", "U"},
        "1-pass": {"D", "U"},
    }[softmax]  # fmt: skip


@pytest.mark.parametrize(
    ("heads", "kv_heads", "expected"),
    [(8, None, (8, None)), (8, 8, (8, None)), (8, 2, (2, 4)), (8, 1, (1, 8))],
)
def test_groups_of_queries(heads: int, kv_heads: int | None, expected: tuple[int, int | None]) -> None:
    cascade = transformer_block(tokens=16, d_model=64, heads=heads, kv_heads=kv_heads)
    shared = kv_heads or heads
    assert (cascade.ranks["h"], cascade.ranks.get("g")) == expected
    assert cascade.tensors["Q"].size == 16 * 64
    assert cascade.tensors["K"].size == cascade.tensors["V"].size == 16 * shared * 8
    assert cascade.tensors["WK"].size == 64 * shared * 8
    assert cascade.tensors["S"].size == heads * 16 * 16


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("norm", ["none", "rms", "layer"])
@pytest.mark.parametrize("layers", [1, 3])
def test_operations_of_a_block(gated: bool, norm: Any, layers: int) -> None:
    """MACs by the closed formula, and one reciprocal root for each row that is normalised."""
    t, d, heads, kv, size, f = 48, 40, 6, 3, 8, 56
    cascade = transformer_block(
        t, d, heads, head_dim=size, kv_heads=kv, d_ff=f, gated=gated, norm=norm, layers=layers, batch=5
    )
    projections = t * d * size * (2 * heads + 2 * kv)
    scores = 2 * heads * t * t * size
    ffn = (3 if gated else 2) * t * d * f
    squares = 0 if norm == "none" else 2 * t * d
    found = sum(cascade.points(e) for e in cascade.einsums if e.op == "mac")
    assert found == 5 * layers * (projections + scores + ffn + squares)
    roots = sum(cascade.points(e) * e.cost.get("rsqrt", 0) for e in cascade.einsums)
    assert roots == (0 if norm == "none" else 5 * layers * 2 * t)


def test_layers_in_a_row_are_the_layer_again() -> None:
    """Every layer is the first one with other names, and reads what the one before wrote."""
    one = equations(build_spec("transformer_block", SMALL | LLAMA_LIKE))
    three = equations(build_spec("transformer_block", SMALL | LLAMA_LIKE | {"layers": 3}))
    assert len(three) == 3 * len(one)
    for i in (1, 2, 3):
        layer = three[(i - 1) * len(one) : i * len(one)]
        stream = "X" if i == 1 else f"O_{i - 1}"
        plain = [text.replace(f"_{i}[", "[").replace(f"{stream}[", "X[") for text in layer]
        assert plain == [text.replace("_", "") for text in one]
    cascade = transformer_block(**SMALL, **LLAMA_LIKE, layers=3)
    assert [t.name for t in cascade.tensors.values() if t.role == "output"] == ["O_3"]
    assert [user.name for user in cascade.consumers["O_1"]] == ["VX_2", "NX_2", "R_2"]
    after = transformer_block(**SMALL, **BERT_LIKE, layers=2)
    assert [user.name for user in after.consumers["NO_1"]] == ["Q_2", "K_2", "V_2", "R_2"]


# what they compute


def numbers(cascade: Cascade, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    inputs = (t for t in cascade.tensors.values() if t.role in ("input", "weight"))
    return {t.name: rng.normal(size=t.shape) * (0.4 if t.role == "weight" else 1) for t in inputs}


def softmax_rows(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("softmax", ["online", "row", "3-pass", "2-pass", "1-pass"])
@pytest.mark.parametrize("kv_heads", [6, 2])
def test_attention_computes_attention(softmax: Any, kv_heads: int) -> None:
    cascade = attention(6, 5, 7, kv_heads=kv_heads, kv_tokens=9, softmax=softmax, batch=2)
    given = numbers(cascade)
    found = reference(cascade, given)["O"].reshape(2, 6, 7, 5)
    q = given["Q"].reshape(2, 6, 7, 5)
    k, v = (np.repeat(given[name], 6 // kv_heads, axis=1) for name in "KV")
    np.testing.assert_allclose(found, softmax_rows(q @ k.swapaxes(-1, -2)) @ v, rtol=1e-12)


class Block:
    """A transformer block with matrices, one sequence at a time, as textbooks write it."""

    def __init__(self, given: dict[str, Array], suffix: str, options: dict[str, Any]) -> None:
        self.given, self.suffix, self.options = given, suffix, options

    def weight(self, name: str, shape: tuple[int, ...]) -> Array:
        """A matrix, or zeros where the block has no such bias."""
        value = self.given.get(name + self.suffix)
        return np.zeros(shape) if value is None else value.reshape(shape)

    def norm(self, x: Array, name: str) -> Array:
        kind, d, eps = self.options["norm"], x.shape[-1], self.options["norm_eps"] + 1e-6
        if kind == "none":
            return x
        centred = x - x.mean(axis=-1, keepdims=True) if kind == "layer" else x
        root = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
        return np.asarray(centred / root * self.weight(f"G{name}", (d,)) + self.weight(f"B{name}", (d,)))

    def heads(self, x: Array, name: str, count: int) -> Array:
        d, size = x.shape[-1], self.options["head_dim"]
        product = x @ self.weight(f"W{name}", (d, count * size)) + self.weight(f"B{name}", (count * size,))
        split: Array = product.reshape(len(x), count, size).swapaxes(0, 1)
        return np.repeat(split, self.options["heads"] // count, axis=0)

    def attention(self, x: Array) -> Array:
        heads, kv_heads = self.options["heads"], self.options["kv_heads"]
        q, k, v = (self.heads(x, n, heads if n == "Q" else kv_heads) for n in "QKV")
        z = (softmax_rows(q @ k.swapaxes(-1, -2)) @ v).swapaxes(0, 1).reshape(len(x), -1)
        d = x.shape[-1]
        return np.asarray(z @ self.weight("WO", (z.shape[-1], d)) + self.weight("BY", (d,)))

    def ffn(self, x: Array) -> Array:
        d, f = x.shape[-1], self.options["d_ff"]
        hidden = x @ self.weight("W1", (d, f)) + self.weight("BB", (f,))
        if self.options["activation"] == "silu":
            hidden = hidden / (1 + np.exp(-hidden))
        else:
            hidden = np.maximum(hidden, 0)
        if self.options["gated"]:
            hidden = hidden * (x @ self.weight("W3", (d, f)) + self.weight("BL", (f,)))
        return np.asarray(hidden @ self.weight("W2", (f, d)) + self.weight("BC", (d,)))

    def __call__(self, x: Array) -> Array:
        if self.options["norm_first"]:
            x = x + self.attention(self.norm(x, "X"))
            return x + self.ffn(self.norm(x, "R"))
        x = self.norm(x + self.attention(x), "R")
        return self.norm(x + self.ffn(x), "O")


@pytest.mark.parametrize("softmax", ["online", "2-pass", "3-pass"])
@pytest.mark.parametrize("biases", ["none", "qkv", "attention", "ffn", "all"])
@pytest.mark.parametrize("norm", ["none", "rms", "layer"])
@pytest.mark.parametrize(
    ("norm_first", "gated"), [(True, True), (True, False), (False, False), (False, True)]
)
def test_a_block_computes_a_transformer(
    softmax: Any, biases: Any, norm: Any, norm_first: bool, gated: bool
) -> None:
    options: dict[str, Any] = {"heads": 4, "kv_heads": 2, "head_dim": 3, "d_ff": 7, "norm_eps": 0.01}
    options |= {"norm": norm, "norm_first": norm_first, "gated": gated}
    options["activation"] = "silu" if gated else "relu"
    cascade = transformer_block(5, 8, softmax=softmax, biases=biases, layers=2, batch=2, **options)
    given = numbers(cascade)
    expected = given["X"]
    for suffix in ("_1", "_2"):
        block = Block(given, suffix, options)
        expected = np.stack([block(sequence) for sequence in expected])
    (output,) = (t.name for t in cascade.tensors.values() if t.role == "output")
    np.testing.assert_allclose(reference(cascade, given)[output], expected, rtol=1e-7, atol=1e-9)


# chains of layers


def test_a_chain_of_dense_layers() -> None:
    cascade = mlp([784, 300, 100, 10], tokens=32, batch=2)
    assert [str(einsum.output) for einsum in cascade.einsums] == [
        "H1[m,k1]",
        "A1[m,k1]",
        "H2[m,k2]",
        "A2[m,k2]",
        "Y[m,k3]",
    ]
    assert cascade.ranks == {"m": 64, "k0": 784, "k1": 300, "k2": 100, "k3": 10}
    assert (
        sum(t.size for t in cascade.tensors.values() if t.role == "weight")
        == 784 * 300 + 300 * 100 + 100 * 10
    )
    given = numbers(cascade)
    hidden = np.maximum(given["X"] @ given["W1"], 0)
    expected = np.maximum(hidden @ given["W2"], 0) @ given["W3"]
    np.testing.assert_allclose(reference(cascade, given)["Y"], expected, rtol=1e-9, atol=1e-9)
    assert [e.name for e in mlp([4, 5, 6], 3, activation="none").einsums] == ["H1", "Y"]


@pytest.mark.parametrize(
    ("builder", "arguments", "expected"),
    [
        ("mlp", {"widths": [4], "tokens": 3}, ["widths: expected a list of two or more positive integers"]),
        (
            "mlp",
            {"widths": [4, -1], "tokens": 3},
            ["widths: expected a list of two or more positive integers"],
        ),
        (
            "mlp",
            {"widths": 7, "tokens": 0},
            ["widths: expected a list", "tokens: expected a positive integer"],
        ),
        (
            "random",
            {"seed": -1, "einsums": 0},
            ["seed: expected an integer from 0", "einsums: expected a positive"],
        ),
        (
            "random",
            {"sed": 7},
            ["sed: unknown argument of builder random; did you mean 'seed'?", "missing key 'seed'"],
        ),
        (
            "transformer_block",
            {"tokens": 4, "d_model": 10, "heads": 4},
            ["heads: expected a divisor of d_model (10)"],
        ),
        (
            "transformer_block",
            {"tokens": 4, "d_model": 8, "heads": 4, "kv_heads": 3},
            ["kv_heads: expected a divisor of heads (4), got 3"],
        ),
        (
            "transformer_block",
            SMALL
            | {
                "phase": "decode",
                "norm": "rsm",
                "biases": True,
                "norm_eps": 0,
                "gated": "yes",
                "layers": 1.5,
            },
            [
                "phase: expected prefill (blocks of other phases are not supported yet), got 'decode'",
                "norm: expected none or layer or rms, got 'rsm'; did you mean 'rms'?",
                "biases: expected none or qkv or attention or ffn or all, got true",
                "norm_eps: expected a positive number, got 0",
                "gated: expected true or false, got 'yes'",
                "layers: expected a positive integer, got 1.5",
            ],
        ),
        ("transformer-block", {}, ["builder: unknown builder 'transformer-block'"]),
    ],
)
def test_bad_arguments(builder: str, arguments: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(ex.InputError) as caught:
        build_spec(builder, arguments)
    found = [str(fault) for fault in caught.value.faults]
    assert len(found) == len(expected), found
    for words in expected:
        assert any(line.startswith(words) for line in found), (words, found)
