"""Arguments of builders from the `config.json` of a transformer, with the keys of Hugging Face's models."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from exactile.formulation.faults import Fault, nearest, shown
from exactile.workloads.arguments import Check, is_count, is_op, is_positive

# the keys that stand for an argument, the usual one first
SIZES: Mapping[str, tuple[str, ...]] = {
    "d_model": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "d_ff": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim"),
}
REQUIRED = ("d_model", "heads")
ACTIVATION = ("hidden_act", "activation_function", "hidden_activation", "activation")
OPS: Mapping[str, str] = {
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "quick_gelu": "gelu",
    "swish": "silu",
}


class Family(NamedTuple):
    """What a model's kind decides and no key says."""

    norm: str
    norm_first: bool
    gated: bool
    biases: str
    expansion: int | None = None  # of the FFN if no key gives its width


_BERT = Family("layer", norm_first=False, gated=False, biases="all")
_VIT = Family("layer", norm_first=True, gated=False, biases="all")
_GPT = Family("layer", norm_first=True, gated=False, biases="all", expansion=4)
_LLAMA = Family("rms", norm_first=True, gated=True, biases="none")

FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert"), _BERT),
    **dict.fromkeys(("vit", "deit", "opt"), _VIT),
    **dict.fromkeys(("gpt2", "bloom"), _GPT),
    **dict.fromkeys(("llama", "mistral", "gemma", "phi3"), _LLAMA),
    "qwen2": _LLAMA._replace(biases="qkv"),
}
DECIDED = ("norm", "norm_first", "gated", "biases")
CONFIGURED = frozenset((*SIZES, *DECIDED, "activation", "norm_eps"))
# of a family without biases: whether attention and FFN have them after all
BIASES = {(False, False): "none", (True, False): "attention", (False, True): "ffn", (True, True): "all"}
# the epsilon of the norm, and the family of a model that does not name its type
EPSILONS: Mapping[str, Family] = {"rms_norm_eps": _LLAMA, "layer_norm_epsilon": _GPT, "layer_norm_eps": _BERT}

# blocks of other forms than the builders', by the key that tells them (if it is neither absent, false, 0 nor
# 1), with the argument that could not stand for them
OTHER_FORMS: Mapping[str, tuple[str, str]] = {
    "is_encoder_decoder": ("heads", "blocks with cross-attention"),
    "kv_lora_rank": ("heads", "compressed keys and values"),
    "num_local_experts": ("d_ff", "mixtures of experts"),
    "num_experts": ("d_ff", "mixtures of experts"),
    "n_routed_experts": ("d_ff", "mixtures of experts"),
    "use_parallel_residual": ("norm", "attention and FFN side by side"),
    "parallel_attn": ("norm", "attention and FFN side by side"),
}


def model_arguments(config: Mapping[str, Any], wanted: Container[str]) -> tuple[dict[str, Any], list[Fault]]:
    """The `wanted` arguments of a builder, and every fault; paths of faults are keys of the configuration.

    Keys that no wanted argument needs are not looked at; one that is null is as good as absent.
    """
    reader = _Reader({key: value for key, value in config.items() if value is not None}, wanted)
    reader.forms()
    reader.sizes()
    reader.kind()
    reader.named()
    return {name: value for name, value in reader.arguments.items() if name in wanted}, reader.faults


class _Reader:
    """Collects arguments and faults; a fault of an argument that nobody wants is none."""

    def __init__(self, config: Mapping[str, Any], wanted: Container[str]) -> None:
        self.config = config
        self.wanted = wanted
        self.arguments: dict[str, Any] = {}
        self.faults: list[Fault] = []

    def fault(self, argument: str, path: tuple[str, ...], message: str) -> None:
        if argument in self.wanted:
            self.faults.append(Fault(path, message))

    def find(self, keys: Iterable[str]) -> str | None:
        """The first of the keys that the configuration has."""
        return next((key for key in keys if key in self.config), None)

    def missing(self, argument: str, keys: Sequence[str]) -> None:
        others = f" (or {', '.join(keys[1:])})" if keys[1:] else ""
        self.fault(argument, (), f"missing key '{keys[0]}'{others}{nearest(keys[0], self.config)}")

    def checked(self, argument: str, key: str, check: Check) -> Any:
        """The value of a key, `None` (and a fault) if the argument cannot be that."""
        value = self.config[key]
        if (expected := check(value)) is None:
            return value
        self.fault(argument, (key,), f"expected {expected}, got {shown(value)}")
        return None

    def forms(self) -> None:
        for key, (argument, what) in OTHER_FORMS.items():
            value = self.config.get(key, False)
            if value is True or value not in (False, 0, 1):
                self.fault(argument, (key,), f"{what} are not supported")

    def sizes(self) -> None:
        """Numbers and widths; a head is an equal share of the model dimension unless a key says more."""
        for argument, keys in SIZES.items():
            if (key := self.find(keys)) is not None:
                self.arguments[argument] = self.checked(argument, key, is_count)
            elif argument in REQUIRED:
                self.missing(argument, keys)
        if self.config.get("multi_query") is True:
            self.arguments.setdefault("kv_heads", 1)
        d_model, heads = self.arguments.get("d_model"), self.arguments.get("heads")
        if d_model and heads and "head_dim" not in self.arguments:
            if d_model % heads:
                key = str(self.find(SIZES["heads"]))
                self.fault("heads", (key,), f"expected a divisor of {d_model}, got {heads}")
            self.arguments["head_dim"] = max(1, d_model // heads)

    def kind(self) -> None:
        """What follows from the type of the model."""
        family = self.family()
        if family is None:
            return
        biases = family.biases
        if biases == "none":
            biases = BIASES[self.config.get("attention_bias") is True, self.config.get("mlp_bias") is True]
        first = family.norm_first and self.config.get("do_layer_norm_before") is not False
        self.arguments |= {"norm": family.norm, "norm_first": first, "gated": family.gated, "biases": biases}
        self.arguments["activation"] = "silu" if family.gated else "gelu"
        if "d_ff" not in self.arguments:
            if family.expansion is None:
                self.missing("d_ff", SIZES["d_ff"])
            elif self.arguments.get("d_model"):
                self.arguments["d_ff"] = family.expansion * self.arguments["d_model"]

    def family(self) -> Family | None:
        """By the type of the model; if it has none, by the name of its norm's epsilon."""
        kind = self.config.get("model_type")
        if isinstance(kind, str) and kind in FAMILIES:
            return FAMILIES[kind]
        epsilon = self.find(EPSILONS)
        if epsilon is not None and (kind is None or epsilon == "rms_norm_eps"):
            return EPSILONS[epsilon]
        decided = next((name for name in DECIDED if name in self.wanted), "")
        if kind is None:
            self.missing(decided, ["model_type"])
        else:
            known = f"one of {', '.join(FAMILIES)}, or a model with rms_norm_eps"
            hint = nearest(str(kind), FAMILIES) or f"; or give {', '.join(DECIDED)} beside the config"
            self.fault(decided, ("model_type",), f"expected {known}, got {shown(kind)}{hint}")
        return None

    def named(self) -> None:
        """The activation and the epsilon of the norm."""
        if (key := self.find(ACTIVATION)) is not None:
            op = self.checked("activation", key, is_op)
            self.arguments["activation"] = OPS.get(str(op), op)
        if (key := self.find(EPSILONS)) is not None:
            self.arguments["norm_eps"] = self.checked("norm_eps", key, is_positive)
