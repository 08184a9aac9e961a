"""The built-in workloads against the published shapes, and the builders that make them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import exactile as ex
from exactile import catalogue

# model: heads, key/value heads, head size, tokens, d_model, d_ff, gated
SHAPES = {
    "bert-small": (8, 8, 64, 512, 512, 2048, False),
    "bert-base": (12, 12, 64, 512, 768, 3072, False),
    "bert-large": (16, 16, 64, 512, 1024, 4096, False),
    "vit-b14": (12, 12, 64, 256, 768, 3072, False),
    "vit-l14": (16, 16, 64, 256, 1024, 4096, False),
    "vit-h14": (16, 16, 80, 256, 1280, 5120, False),
    "vit-b16": (12, 12, 64, 197, 768, 3072, False),
    "gpt3-6.7b": (32, 32, 128, 2048, 4096, 16384, False),
    "gpt3-13b": (40, 40, 128, 2048, 5120, 20480, False),
    "gpt3-175b": (96, 96, 128, 2048, 12288, 49152, False),
    "llama3-8b": (32, 8, 128, 8192, 4096, 14336, True),
    "palm-62b": (32, 1, 256, 2048, 8192, 32768, True),
}


def macs(cascade: ex.Cascade) -> int:
    return sum(cascade.points(einsum) for einsum in cascade.einsums if einsum.op == "mac")


# PaLM computes attention and FFN side by side
BLOCKS = [model for model in SHAPES if model != "palm-62b"]


def test_every_built_in_workload_is_a_row_of_the_table() -> None:
    names = {entry.name for entry in catalogue.entries("workload")}
    layers = {f"{model}-{part}" for model in SHAPES for part in ("attention", "ffn")}
    assert names == layers | {f"{model}-block" for model in BLOCKS} | {"transformer-block-1k"}


@pytest.mark.parametrize("model", SHAPES)
def test_attention(model: str) -> None:
    heads, kv_heads, size, tokens, *_ = SHAPES[model]
    cascade = ex.workload(f"{model}-attention")
    assert cascade.name == f"{model}-attention"
    assert [einsum.name for einsum in cascade.einsums] == ["S", "P", "O"]
    assert macs(cascade) == 2 * heads * tokens * tokens * size
    assert cascade.tensors["Q"].size == cascade.tensors["O"].size == heads * tokens * size
    assert cascade.tensors["K"].size == cascade.tensors["V"].size == kv_heads * tokens * size
    assert cascade.tensors["S"].size == cascade.tensors["P"].size == heads * tokens * tokens
    assert cascade.ranks["m"] == cascade.ranks["n"] == tokens
    assert cascade.ranks["h"] * cascade.ranks.get("g", 1) == heads
    assert ("g" in cascade.ranks) == (kv_heads != heads)
    softmax = cascade.by_name["P"]
    assert (softmax.over, softmax.mode, softmax.in_place) == ("n", "online", "S")
    assert softmax.cost == {"max": 1, "sub": 1, "exp": 1, "add": 1}


@pytest.mark.parametrize("model", SHAPES)
def test_ffn(model: str) -> None:
    *_, tokens, d_model, d_ff, gated = SHAPES[model]
    cascade = ex.workload(f"{model}-ffn")
    products = 3 if gated else 2
    assert macs(cascade) == products * tokens * d_model * d_ff
    weights = [tensor for tensor in cascade.tensors.values() if tensor.role == "weight"]
    assert sorted(tensor.size for tensor in weights) == [d_model * d_ff] * products
    assert cascade.tensors["Y"].size == cascade.tensors["X"].size == tokens * d_model
    activation = cascade.by_name["A"]
    assert activation.in_place == ("G" if gated else "H")
    assert cascade.points(activation) == tokens * d_ff


@pytest.mark.parametrize("model", BLOCKS)
def test_block(model: str) -> None:
    heads, kv_heads, size, tokens, d_model, d_ff, gated = SHAPES[model]
    cascade = ex.workload(f"{model}-block")
    weights = sum(tensor.size for tensor in cascade.tensors.values() if tensor.role == "weight")
    products = d_model * size * 2 * (heads + kv_heads) + (3 if gated else 2) * d_model * d_ff
    norms = 2 if model == "llama3-8b" else 0
    assert weights == products + norms * d_model
    assert macs(cascade) == tokens * (products + 2 * heads * size * tokens + norms * d_model)
    (read,) = (tensor for tensor in cascade.tensors.values() if tensor.role == "input")
    (written,) = (tensor for tensor in cascade.tensors.values() if tensor.role == "output")
    assert read.size == written.size == tokens * d_model
    assert len(cascade.einsums) == (17 if model == "llama3-8b" else 12)


def test_the_written_out_block_is_the_built_one_with_more_names() -> None:
    """Three inputs instead of one stream, and a rank of its own for every model dimension."""
    written = ex.workload("transformer-block-1k")
    built = ex.transformer_block(2048, 1024, 16, bits=16)
    assert [e.name for e in written.einsums[:-1]] == [e.name for e in built.einsums[:-1]]
    for one, other in zip(written.einsums, built.einsums, strict=True):
        assert (one.op, one.in_place, written.points(one)) == (other.op, other.in_place, built.points(other))
    compulsory = [t for t in written.tensors.values() if t.role in ("input", "weight", "output")]
    assert sum(tensor.size for tensor in compulsory) == 20_971_520
    assert sum(tensor.role == "input" for tensor in compulsory) == 3


def test_vit_b16_has_a_prime_number_of_tokens() -> None:
    assert ex.workload("vit-b16-attention").ranks["m"] == 197


@pytest.mark.parametrize("model", SHAPES)
def test_head_size_times_heads_is_the_model_size_of_the_classic_ones(model: str) -> None:
    heads, _, size, _, d_model, *_ = SHAPES[model]
    assert heads * size == d_model


def test_row_softmax_reads_the_finished_row() -> None:
    cascade = ex.attention(heads=2, head_dim=4, tokens=8, softmax="row")
    assert cascade.by_name["P"].cost == {"max": 1, "add": 2, "exp": 1, "div": 1}
    assert {(barrier.tensor, barrier.mode) for barrier in cascade.barriers} == {("S", "row"), ("P", "row")}


def test_without_softmax_the_output_reads_the_scores() -> None:
    cascade = ex.attention(heads=2, head_dim=4, tokens=8, kv_tokens=16, softmax="none", bits=16, batch=3)
    assert [einsum.name for einsum in cascade.einsums] == ["S", "O"]
    assert cascade.ranks == {"b": 3, "h": 2, "m": 8, "n": 16, "e": 4, "f": 4}
    assert not cascade.barriers
    assert {tensor.bits for tensor in cascade.tensors.values()} == {16}
    assert macs(cascade) == 2 * 3 * 2 * 8 * 16 * 4


def test_grouped_queries_share_keys() -> None:
    cascade = ex.attention(heads=6, kv_heads=2, head_dim=4, tokens=8)
    assert cascade.ranks["h"] == 2
    assert cascade.ranks["g"] == 3
    assert str(cascade.by_name["S"].inputs[0]) == "Q[h,g,m,e]"
    assert str(cascade.by_name["S"].inputs[1]) == "K[h,n,e]"


def test_gated_activation_costs_both_operations() -> None:
    cascade = ex.ffn(tokens=4, d_model=8, d_ff=16, activation="silu", gated=True)
    assert cascade.by_name["A"].cost == {"silu": Fraction(1), "mul": Fraction(1)}
    assert ex.ffn(tokens=4, d_model=8, d_ff=16, activation="none").by_name.keys() == {"H", "Y"}


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"heads": 0, "head_dim": -4, "tokens": 8}, {"heads", "head_dim"}),
        ({"heads": 3, "head_dim": 4, "tokens": 8, "kv_heads": 2}, {"kv_heads"}),
        ({"heads": 3, "head_dim": 4, "tokens": 8, "softmax": "onlin"}, {"softmax"}),
        ({"heads": True, "head_dim": 4, "tokens": "8", "bits": 1.5}, {"heads", "tokens", "bits"}),
    ],
)
def test_bad_arguments_are_all_reported(arguments: dict[str, Any], paths: set[str]) -> None:
    with pytest.raises(ex.InputError) as caught:
        ex.attention(**arguments)
    assert {fault.path[0] for fault in caught.value.faults} == paths
