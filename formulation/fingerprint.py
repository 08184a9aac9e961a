"""The hash of a problem: what a mapping file carries to say which problem it is for.

It covers what decides whether a mapping is legal and what it costs: cascade, machine and mapspace. Names
of the cascade and the machine, sources and the objective are left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from exactile.formulation.problem import Problem

_LEFT_OUT = {"sources"}


def problem_hash(problem: Problem) -> str:
    """The first 16 hex digits of a SHA-256, stable across runs and versions."""
    cascade, hardware = problem.cascade, problem.hardware
    content = {
        "ranks": dict(cascade.ranks),
        "einsums": [_canonical(einsum) for einsum in cascade.einsums],
        "tensors": {name: _canonical(tensor) for name, tensor in cascade.tensors.items()},
        "generational": _canonical(cascade.generational),
        "hardware": {**_canonical(hardware), "name": ""},
        "mapspace": _canonical(problem.mapspace),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _counts(field: dataclasses.Field[Any], value: Any) -> bool:
    """Defaults are left out: an option added later does not change the hash of problems without it."""
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return field.name not in _LEFT_OUT and getattr(value, field.name) != default


def _canonical(value: Any) -> Any:
    """The value in JSON's types; mappings and sets lose their order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if _counts(field, value)
        }
        return {"": type(value).__name__, **{name: _canonical(item) for name, item in fields.items()}}
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(_canonical(item) for item in value)
    if isinstance(value, tuple | list):
        return [_canonical(item) for item in value]
    if isinstance(value, Fraction):
        return str(value)
    return value
