"""Arguments of builders: what each may be is its annotation, and all faults are told at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Annotated, Any, Literal, ParamSpec, get_args, get_origin, get_type_hints

from exactile.formulation.cascade import Cascade
from exactile.formulation.faults import Fault, InputError, nearest, shown

Spec = dict[str, Any]  # the content of a workload file, the arguments of `Cascade`
Check = Callable[[object], str | None]  # what was expected, or nothing if the value is right
Arguments = ParamSpec("Arguments")


def is_count(value: object) -> str | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return None if right else "a positive integer"


def _seed(value: object) -> str | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if right else "an integer from 0"


def is_positive(value: object) -> str | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    return None if right else "a positive number"


def _flag(value: object) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _name(value: object) -> str | None:
    return None if isinstance(value, str) and value.strip() else "a name"


def is_op(value: object) -> str | None:
    right = isinstance(value, str) and value.isidentifier()
    return None if right else "the name of an op like gelu, or none"


def _counts(value: object) -> str | None:
    right = isinstance(value, list | tuple) and len(value) > 1 and not any(map(is_count, value))
    return None if right else "a list of two or more positive integers"


Count = Annotated[int, is_count]
Counts = Annotated[list[int], _counts]
Seed = Annotated[int, _seed]
Positive = Annotated[float, is_positive]
Flag = Annotated[bool, _flag]
Name = Annotated[str, _name]
Op = Annotated[str, is_op]


def builder(make: Callable[Arguments, Spec]) -> Callable[Arguments, Spec]:
    """Let `make` judge its arguments by their annotations first. Raises `InputError` with every fault."""

    @functools.wraps(make)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Spec:
        given = inspect.signature(make).bind(*args, **kwargs).arguments
        if faults := value_faults(make, given):
            raise InputError(faults)
        return make(*args, **kwargs)

    return checked


def cascade_builder(make: Callable[Arguments, Spec]) -> Callable[Arguments, Cascade]:
    """The same builder for Python: with the cascade itself as the result."""

    @functools.wraps(make)
    def built(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Cascade:
        return Cascade(**make(*args, **kwargs))

    return built


def value_faults(make: Callable[..., Spec], arguments: Mapping[str, object]) -> list[Fault]:
    """What is wrong with the value of each argument that the builder has."""
    hints = get_type_hints(make, include_extras=True)
    return [
        Fault((key,), fault)
        for key, value in arguments.items()
        if key in hints and (fault := _value_fault(hints[key], value)) is not None
    ]


def _value_fault(hint: Any, value: object) -> str | None:
    parts = get_args(hint)
    if NoneType in parts:  # an argument that may be left out
        return None if value is None else _value_fault(parts[0], value)
    if get_origin(hint) is Literal:
        return None if value in parts else _choice(value, parts)
    check: Check = hint.__metadata__[0]
    expected = check(value)
    return None if expected is None else f"expected {expected}, got {shown(value)}"


def _choice(value: object, allowed: Iterable[str]) -> str:
    allowed = list(allowed)
    return f"expected {' or '.join(allowed)}, got {shown(value)}{nearest(str(value), allowed)}"
