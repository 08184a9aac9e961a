"""The builders by name: small functions that make families of cascades.

A file names one with `{builder: attention, heads: 12, …}`; in Python `attention(…)` and the others return a
`Cascade`. Wrong arguments raise `InputError` with every fault, each with the path of the argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping

from exactile.formulation.faults import Fault, InputError, nearest
from exactile.workloads.arguments import Spec, value_faults
from exactile.workloads.attention import attention, attention_spec
from exactile.workloads.ffn import ffn, ffn_spec, mlp, mlp_spec
from exactile.workloads.random_cascade import random_cascade, random_spec
from exactile.workloads.transformer_block import transformer_block, transformer_block_spec

__all__ = [
    "BUILDERS",
    "argument_faults",
    "attention",
    "build_spec",
    "ffn",
    "mlp",
    "parameters",
    "random_cascade",
    "transformer_block",
]

BUILDERS: Mapping[str, Callable[..., Spec]] = {
    "attention": attention_spec,
    "ffn": ffn_spec,
    "mlp": mlp_spec,
    "random": random_spec,
    "transformer_block": transformer_block_spec,
}


def build_spec(builder: object, arguments: Mapping[str, object]) -> Spec:
    """What the named builder makes of `arguments`: the content of a workload file.

    Raises `InputError`: an unknown builder or argument, a missing one, a wrong value.
    """
    if faults := argument_faults(builder, arguments):
        raise InputError(faults)
    return BUILDERS[str(builder)](**arguments)


def argument_faults(
    builder: object, arguments: Mapping[str, object], elsewhere: Container[str] = ()
) -> list[Fault]:
    """What is wrong with each argument alone; those that come from `elsewhere` are not missing."""
    if not isinstance(builder, str) or builder not in BUILDERS:
        known = ", ".join(BUILDERS)
        hint = nearest(str(builder), BUILDERS)
        return [Fault(("builder",), f"unknown builder {builder!r}, expected one of {known}{hint}")]
    known_here = parameters(builder)
    unknown = [
        Fault((key,), f"unknown argument of builder {builder}{nearest(str(key), known_here)}")
        for key in arguments
        if key not in known_here
    ]
    missing = [
        Fault((), f"missing key '{key}' of builder {builder}")
        for key, parameter in known_here.items()
        if parameter.default is inspect.Parameter.empty and key not in arguments and key not in elsewhere
    ]
    return unknown + missing + value_faults(BUILDERS[builder], arguments)


def parameters(builder: object) -> Mapping[str, inspect.Parameter]:
    """The arguments of a builder by name; none of an unknown one."""
    if not isinstance(builder, str) or builder not in BUILDERS:
        return {}
    return inspect.signature(BUILDERS[builder]).parameters
