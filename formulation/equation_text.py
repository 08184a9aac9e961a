"""Equations as text again, in the notation in which they are read."""

from __future__ import annotations

from exactile.formulation.einsum import Constant, Einsum, Expression, Operation, Read

_INFIX = {"mul": (" * ", 2), "add": (" + ", 1), "sub": (" - ", 1)}


def equation(einsum: Einsum) -> str:
    """`S[h,m,n] = Q[h,m,e] * K[h,n,e]`."""
    return f"{einsum.output} = {_text(einsum.expression, 0)}"


def _text(node: Expression, binding: int) -> str:
    match node:
        case Read(access):
            return str(access)
        case Constant(value):
            return str(value)
        case Operation("neg", (argument,)):
            return f"-{_text(argument, 3)}"
        case Operation(name, arguments) if name in _INFIX:
            sign, strength = _INFIX[name]
            # the right side of a difference must not lose its brackets
            parts = [_text(a, strength + (i > 0 and name == "sub")) for i, a in enumerate(arguments)]
            text = sign.join(parts)
            return f"({text})" if strength < binding else text
        case Operation(name, arguments):
            return f"{name}({', '.join(_text(a, 0) for a in arguments)})"
    raise TypeError(f"not an expression: {node!r}")
