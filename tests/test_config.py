"""A model's `config.json` as the source of a block: its parameters add up, and its faults are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import exactile as ex

# as published with the models, without keys that say nothing about a block's shape
GPT2: dict[str, Any] = {
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
BERT: dict[str, Any] = {
    "hidden_act": "gelu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "vocab_size": 30522,
}
DISTILBERT: dict[str, Any] = {
    "activation": "gelu",
    "dim": 768,
    "hidden_dim": 3072,
    "max_position_embeddings": 512,
    "model_type": "distilbert",
    "n_heads": 12,
    "n_layers": 6,
    "vocab_size": 30522,
}
VIT: dict[str, Any] = {
    "hidden_act": "gelu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "model_type": "vit",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "patch_size": 16,
}
OPT: dict[str, Any] = {
    "activation_function": "relu",
    "do_layer_norm_before": True,
    "ffn_dim": 3072,
    "hidden_size": 768,
    "is_encoder_decoder": False,
    "max_position_embeddings": 2048,
    "model_type": "opt",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "vocab_size": 50272,
}
LLAMA: dict[str, Any] = {
    "attention_bias": False,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
QWEN: dict[str, Any] = {
    "hidden_act": "silu",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "model_type": "qwen2",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "vocab_size": 152064,
}
GEMMA: dict[str, Any] = {
    "head_dim": 256,
    "hidden_act": "gelu",
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "model_type": "gemma",
    "num_attention_heads": 8,
    "num_hidden_layers": 18,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-06,
    "vocab_size": 256000,
}

# layers, parameters outside the blocks, and all of them as the models' libraries count them
COUNTS = [
    ("gpt2", GPT2, 12, (50257 + 1024) * 768 + 2 * 768, 124_439_808),
    ("bert-base", BERT, 12, (30522 + 512 + 2) * 768 + 2 * 768 + 768 * 768 + 768, 109_482_240),
    ("distilbert", DISTILBERT, 6, (30522 + 512) * 768 + 2 * 768, 66_362_880),
    ("vit-b16", VIT, 12, (768 + 1 + 1 + 197) * 768 + 2 * 768 + 768 * 1000 + 1000, 86_567_656),
    ("opt-125m", OPT, 12, (50272 + 2050) * 768 + 2 * 768, 125_239_296),
    ("llama3-8b", LLAMA, 32, 2 * 128256 * 4096 + 4096, 8_030_261_248),
    ("qwen2-7b", QWEN, 28, 2 * 152064 * 3584 + 3584, 7_615_616_512),
    ("gemma-2b", GEMMA, 18, 256000 * 2048 + 2048, 2_506_172_416),
]


def block(folder: Path, content: Any, /, **arguments: Any) -> ex.Cascade:
    """The block of a configuration, both as files."""
    (folder / "config.json").write_text(
        content if isinstance(content, str) else json.dumps(content, indent=2)
    )
    fields = {"builder": "transformer_block", "config": "config.json", "tokens": 128} | arguments
    (folder / "work.yaml").write_text(
        "\n".join(f"{key}: {json.dumps(value)}" for key, value in fields.items())
    )
    return ex.workload(folder / "work.yaml")


def faults(folder: Path, content: Any, /, **arguments: Any) -> list[str]:
    with pytest.raises(ex.LoadError) as caught:
        block(folder, content, **arguments)
    return [str(fault).removeprefix(f"{folder}/") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("config", "layers", "others", "total"), [row[1:] for row in COUNTS], ids=[r[0] for r in COUNTS]
)
def test_the_blocks_and_the_embeddings_are_the_whole_model(
    config: dict[str, Any], layers: int, others: int, total: int, tmp_path: Path
) -> None:
    one = block(tmp_path, config)
    weights = sum(tensor.size for tensor in one.tensors.values() if tensor.role == "weight")
    assert layers * weights + others == total
    assert layers == next(
        config[key] for key in ("num_hidden_layers", "n_layer", "n_layers") if key in config
    )


def test_what_the_keys_say(tmp_path: Path) -> None:
    llama = block(tmp_path, LLAMA)
    assert llama.ranks == {
        "t": 128, "u": 128, "d": 4096, "h": 8, "g": 4, "c": 128, "v": 128, "o": 4096, "f": 14336,
    }  # fmt: skip
    assert str(llama.by_name["G"].expression).count("silu") == 1
    assert list(llama.by_name)[:2] == ["VX", "NX"]
    bert = block(tmp_path, BERT)
    assert next(iter(bert.by_name)) == "Q"
    assert list(bert.by_name)[-1] == "NO"
    assert "MR" in bert.by_name
    gemma = block(tmp_path, GEMMA)
    assert (gemma.ranks["h"], gemma.ranks["g"], gemma.ranks["c"]) == (1, 8, 256)
    assert "gelu" in str(gemma.by_name["G"].expression)
    assert "relu" in str(block(tmp_path, OPT).by_name["G"].expression)
    assert block(tmp_path, OPT | {"do_layer_norm_before": False}).einsums[-1].name == "NO"
    assert {"BQ", "BY"} <= block(tmp_path, LLAMA | {"attention_bias": True}).tensors.keys()
    assert {"BB", "BL"} <= block(tmp_path, LLAMA | {"mlp_bias": True}).tensors.keys()
    assert block(tmp_path, LLAMA | {"num_key_value_heads": None}).ranks["h"] == 32
    assert block(tmp_path, GPT2 | {"n_inner": 1000}).ranks["f"] == 1000
    assert block(tmp_path, GPT2 | {"multi_query": True}).ranks["h"] == 1


def test_a_model_without_a_known_type_is_told_by_its_norm(tmp_path: Path) -> None:
    for config in (LLAMA, GPT2, BERT):
        unnamed = {key: value for key, value in config.items() if key != "model_type"}
        assert block(tmp_path, unnamed).einsums == block(tmp_path, config).einsums
    assert block(tmp_path, LLAMA | {"model_type": "new"}).einsums == block(tmp_path, LLAMA).einsums


def test_arguments_beside_the_config_win(tmp_path: Path) -> None:
    given = {
        "d_ff": 512,
        "norm": "none",
        "biases": "none",
        "layers": 2,
        "softmax": "3-pass",
        "phase": "prefill",
    }
    cascade = block(tmp_path, BERT, **given, ranks={"t": 64}, tensors={"K_1": {"bits": 4}})
    assert cascade.ranks["f"] == 512
    assert cascade.ranks["t"] == 64
    assert cascade.tensors["K_1"].bits == 4
    assert len(cascade.einsums) == 2 * 15
    # what is given need not be known of the model
    odd = {"model_type": "odd", "hidden_size": 64, "num_attention_heads": 4}
    whole = {"d_ff": 128, "norm": "none", "norm_first": True, "gated": False, "biases": "none"}
    assert len(block(tmp_path, odd, **whole).einsums) == 12


def test_attention_and_ffn_take_a_config_too(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"num_local_experts": 8}))
    (tmp_path / "work.yaml").write_text("{builder: attention, config: config.json, tokens: 8192}")
    expected = ex.workload("llama3-8b-attention")
    found = ex.workload(tmp_path / "work.yaml")
    assert (found.ranks, found.einsums) == (expected.ranks, expected.einsums)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "work.yaml").write_text("{builder: ffn, config: config.json, tokens: 8192}")
    expected, found = ex.workload("llama3-8b-ffn"), ex.workload(tmp_path / "work.yaml")
    assert (found.ranks, found.einsums) == (expected.ranks, expected.einsums)


def test_the_path_is_relative_to_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, config in (("works/models", GPT2), ("elsewhere", LLAMA)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text(json.dumps(config))
    inside = "{builder: transformer_block, config: %s, phase: prefill, tokens: 64}"
    (tmp_path / "works" / "work.yaml").write_text(inside % "models/config.json")
    (tmp_path / "p.yaml").write_text("workload: works/work.yaml\nhardware: nvdla-like\n")
    (tmp_path / "inline.yaml").write_text(
        f"workload: {inside % 'works/models/config.json'}\nhardware: nvdla-like\n"
    )
    monkeypatch.chdir(tmp_path.parent)
    for name in ("p.yaml", "inline.yaml"):
        assert ex.load_problem(tmp_path / name).cascade.ranks["d"] == 768
        override = f"workload.config={tmp_path.name}/elsewhere/config.json"
        assert ex.load_problem(tmp_path / name, [override]).cascade.ranks["d"] == 4096
    override = f"workload={tmp_path.name}/works/work.yaml"
    assert ex.load_problem("bert-base-attention", [override]).cascade.ranks["d"] == 768


def test_every_fault_of_a_config_has_its_line(tmp_path: Path) -> None:
    bad = {
        "hiden_size": 768,
        "n_head": "twelve",
        "hidden_act": 5,
        "model_type": "bret",
        "num_local_experts": 8,
        "layer_norm_eps": -1,
        "num_key_value_heads": True,
    }
    lines = faults(tmp_path, bad, phase="decode", laiers=2)
    expected = [
        "config.json:1: missing key 'hidden_size' (or n_embd, d_model, dim); did you mean 'hiden_size'?",
        "config.json:3: n_head: expected a positive integer, got 'twelve'",
        "config.json:4: hidden_act: expected the name of an op like gelu, or none, got 5",
        "config.json:5: model_type: expected one of bert, roberta",
        "config.json:6: num_local_experts: mixtures of experts are not supported",
        "config.json:7: layer_norm_eps: expected a positive number, got -1",
        "config.json:8: num_key_value_heads: expected a positive integer, got true",
        "work.yaml:4: phase: expected prefill (blocks of other phases are not supported yet), got 'decode'",
        "work.yaml:5: laiers: unknown argument of builder transformer_block; did you mean 'layers'?",
    ]
    assert len(lines) == len(expected), lines
    for line, words in zip(lines, expected, strict=True):
        assert line.startswith(words)
    assert lines[3].endswith("got 'bret'; did you mean 'bert'?")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("{", "config.json:1: not valid JSON: Expecting property name enclosed in double quotes"),
        ('{"hidden_size": 768,\n"a": tru}', "config.json:2: not valid JSON: Expecting value"),
        ("[1, 2]", "config.json:1: expected a mapping (keys and values), got a list"),
        ("", "config.json:1: not valid JSON: Expecting value"),
        ("[" * 100_000, "config.json: not valid JSON: nested too deeply"),
        ("null", "config.json: is empty, expected a mapping"),
        ('{"hidden_size": 768, "hidden_size": 64}', "config.json:1: hidden_size: duplicate key"),
        (LLAMA | {"num_attention_heads": 30}, "config.json:8: num_attention_heads: expected a divisor of 40"),
        (LLAMA | {"num_key_value_heads": 7}, "work.yaml:2: config: kv_heads: expected a divisor of heads"),
        (LLAMA | {"is_encoder_decoder": True}, "config.json:15: is_encoder_decoder: blocks with cross"),
        ({**LLAMA, "intermediate_size": None}, "config.json:1: missing key 'intermediate_size' (or n_inner"),
        ({"hidden_size": 64, "n_head": 4}, "config.json:1: missing key 'model_type'"),
    ],
)  # fmt: skip
def test_unusable_configs(config: Any, expected: str, tmp_path: Path) -> None:
    (line,) = faults(tmp_path, config)
    assert line.startswith(expected)


def test_the_file_of_a_config(tmp_path: Path) -> None:
    assert faults(tmp_path, LLAMA, config="none.json")[0].startswith("work.yaml:2: config: no such file: ")
    assert faults(tmp_path, LLAMA, config=3) == [
        "work.yaml:2: config: expected the path of a model's config.json, got 3"
    ]
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    (line,) = faults(tmp_path, LLAMA, config="binary.json")
    assert line == "binary.json: is not text (UTF-8), expected a JSON file"
    (line,) = faults(tmp_path, LLAMA, builder="mlp", widths=[3, 4])
    assert line == "work.yaml:2: config: unknown argument of builder mlp"


@pytest.mark.parametrize(
    "value", [None, True, -1, 0, 1.5, 10**30, "x", "", "gelu_new", [], [1], {"a": 1}], ids=str
)
def test_no_wrong_value_makes_a_traceback(value: Any, tmp_path: Path) -> None:
    for config in (GPT2, LLAMA):
        for key in (*config, "head_dim", "num_experts", "multi_query", "do_layer_norm_before"):
            try:
                cascade = block(tmp_path, config | {key: value})
            except ex.LoadError as error:
                assert all(fault.line or fault.file for fault in error.faults)
            else:
                assert len(cascade.einsums) >= 17
