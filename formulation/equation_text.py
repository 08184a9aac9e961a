"""Equations as text again, in the notation in which they are read."""

from __future__ import annotations

from fractions import Fraction

from exactile.formulation.einsum import Constant, Einsum, Expression, Operation, Read

_INFIX = {"mul": (" * ", 2), "add": (" + ", 1), "sub": (" - ", 1), "div": (" / ", 2)}


def equation(einsum: Einsum) -> str:
    """`S[h,m,n] = Q[h,m,e] * K[h,n,e]`."""
    return f"{einsum.output} = {_text(einsum.expression, 0)}"


def _text(node: Expression, binding: int) -> str:
    match node:
        case Read(access):
            return str(access)
        case Constant(value):
            return _number(value)
        case Operation("neg", (argument,)):
            return f"-{_text(argument, 3)}"
        case Operation(name, (left, right)) if name in _INFIX:
            sign, strength = _INFIX[name]
            # the right side keeps its brackets: a - (b - c), a * (b / c)
            text = f"{_text(left, strength)}{sign}{_text(right, strength + 1)}"
            return f"({text})" if strength < binding else text
        case Operation(name, arguments):
            return f"{name}({', '.join(_text(a, 0) for a in arguments)})"
    raise TypeError(f"not an expression: {node!r}")


def _number(value: Fraction) -> str:
    """As it may stand in an equation: a decimal where there is one that is exact."""
    if value.denominator == 1:
        return str(value)
    decimal = repr(float(value))
    return decimal if Fraction(decimal) == value else str(value)
