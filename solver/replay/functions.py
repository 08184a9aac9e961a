"""Named functions of equations on numbers, and how an expression falls into additive terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from exactile.formulation.einsum import Expression, Operation

Array = npt.NDArray[Any]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


# Functions that are not defined everywhere are continued, so that random integers can be fed to them.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": lambda x, y: x / np.where(y == 0, 1, y),
    "neg": np.negative,
    "copy": lambda x: x,
    "exp": lambda x: np.exp(np.clip(x, -50, 50)),
    "log": lambda x: np.log(np.abs(x) + 1e-6),
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x) + 1e-6),
    "square": np.square,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": _gelu,
    "softplus": lambda x: np.logaddexp(x, 0),
}


def apply(name: str, arguments: Sequence[Any]) -> Any:
    """The value of a named function; `max` and `min` take any number of arguments.

    A name that is not known here has a stand-in that depends on the name and on every argument, so
    that a wrong operand shows.
    """
    if name in ("max", "min"):
        value = arguments[0]
        for other in arguments[1:]:
            value = np.maximum(value, other) if name == "max" else np.minimum(value, other)
        return value
    if name in FUNCTIONS:
        return FUNCTIONS[name](*arguments)
    seed = sum(map(ord, name))
    return sum((seed % 5 + i + 1) * argument for i, argument in enumerate(arguments)) + seed % 7


def terms(expression: Expression, sign: int = 1) -> Iterator[tuple[int, Expression]]:
    """The additive terms, each with its sign; ranks missing on the left are summed term by term."""
    match expression:
        case Operation(name="add", arguments=(left, right)):
            yield from terms(left, sign)
            yield from terms(right, sign)
        case Operation(name="sub", arguments=(left, right)):
            yield from terms(left, sign)
            yield from terms(right, -sign)
        case Operation(name="neg", arguments=(only,)):
            yield from terms(only, -sign)
        case _:
            yield sign, expression
