"""Equations: one assignment of Python's own grammar, `O[h,m,f] = P[h,m,n] * V[h,n,f]`.

Subscripted tensors, `*`, `/`, `+`, `-`, calls of named functions and numbers; an index is a rank, a sum of
ranks (a window, `p + 2*s`), a shift (`i - 1`) or a constant; a scalar tensor is a bare name.
"""

from __future__ import annotations

import ast
import keyword
from fractions import Fraction
from math import isfinite

from exactile.formulation.einsum import Access, Constant, Expression, Index, Operation, Read, reads
from exactile.formulation.faults import shown

YAML_BOOLEANS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false"})
MAX_LENGTH = 500
_BINARY: dict[type[ast.operator], str] = {ast.Mult: "mul", ast.Add: "add", ast.Sub: "sub", ast.Div: "div"}


class EquationError(ValueError):
    """The equation cannot be read; the message says what was expected and what was found."""


def bad_rank_name(name: str) -> str | None:
    """Why `name` cannot be a rank, or `None`. YAML reads `no`, `on`, `yes`, `off` as booleans."""
    if keyword.iskeyword(name):
        return f"'{name}' is a Python keyword and cannot be a rank"
    if name.lower() in YAML_BOOLEANS - {"y", "n"}:
        return f"'{name}' is a YAML boolean and cannot be a rank"
    if not name.isidentifier():
        return f"expected a rank name (letters, digits, _), got '{name}'"
    return None


def parse(text: str) -> tuple[Access, Expression]:
    """The output access and the right-hand side of an equation. Raises `EquationError`."""
    expected = f"expected one equation like 'Z[m,n] = A[m,k] * B[k,n]', got {shown(text)}"
    if len(text) > MAX_LENGTH:
        raise EquationError(f"{expected}: longer than {MAX_LENGTH} characters")
    try:
        module = ast.parse(text.strip(), mode="exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        words = [word for word in keyword.kwlist if _subscripted(text, word)]
        hint = f" ('{words[0]}' is a Python keyword and cannot be a rank)" if words else ""
        detail = error.msg if isinstance(error, SyntaxError) else "nested too deeply"
        raise EquationError(f"{expected}: {detail}{hint}") from None
    match module.body:
        case [ast.Assign(targets=[target], value=value)]:
            try:
                return _access(target), _expression(value)
            except RecursionError:
                raise EquationError(f"{expected}: nested too deeply") from None
    raise EquationError(expected)


def _subscripted(text: str, word: str) -> bool:
    compact = "".join(text.split())
    return any(f"{left}{word}{right}" in compact for left in "[," for right in "],")


def _access(node: ast.expr) -> Access:
    match node:
        case ast.Name(id=name):
            return Access(name)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=elements)):
            return Access(name, tuple(_index(element) for element in elements))
        case ast.Subscript(value=ast.Name(id=name), slice=element):
            return Access(name, (_index(element),))
    raise EquationError(f"expected a tensor like 'A[m,k]', got '{ast.unparse(node)}'")


def _index(node: ast.expr) -> Index:
    terms, offset = _linear(node)
    return Index(tuple((rank, c) for rank, c in terms.items() if c), offset)


def _linear(node: ast.expr) -> tuple[dict[str, int], int]:
    """An index expression as coefficients by rank and an offset."""
    match node:
        case ast.Name(id=name):
            return {name: 1}, 0
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return {}, number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            terms, offset = _linear(operand)
            return {rank: -c for rank, c in terms.items()}, -offset
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            sign = 1 if isinstance(operator, ast.Add) else -1
            terms, offset = _linear(left)
            for rank, c in (other := _linear(right))[0].items():
                terms[rank] = terms.get(rank, 0) + sign * c
            return terms, offset + sign * other[1]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, two = _linear(left), _linear(right)
            for (terms, offset), (others, factor) in ((one, two), (two, one)):
                if not others:
                    return {rank: c * factor for rank, c in terms.items()}, offset * factor
    raise EquationError(
        f"expected an index (a rank, 'i-1', 'p+2*s' or a constant), got '{ast.unparse(node)}'"
    )


def _expression(node: ast.expr) -> Expression:
    match node:
        case ast.Name() | ast.Subscript():
            return Read(_access(node))
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return Constant(_fraction(number))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Operation("neg", (_expression(operand),))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            return Operation(_BINARY[type(operator)], (_expression(left), _expression(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if arguments:
            return Operation(name, tuple(_expression(argument) for argument in arguments))
    raise EquationError(f"expected a product, sum or call of tensors, got '{ast.unparse(node)}'")


def _fraction(number: int | float) -> Fraction:
    if isinstance(number, float) and not isfinite(number):
        raise EquationError(f"expected a finite number, got {number}")
    return Fraction(str(number)) if isinstance(number, float) else Fraction(number)


def default_op(output: Access, expression: Expression) -> str:
    """`mac` for a product or bare read with a reduction rank, `mul` / `add` without, else the function.

    A sum is `mac` if one of its terms reduces, since the terms are summed one by one.
    """
    kept = set(output.ranks)
    reducing = any(set(access.ranks) - kept for access in reads(expression))
    match expression:
        case Operation(name="mul"):
            return "mac" if reducing else "mul"
        case Operation(name="add" | "sub", arguments=arguments):
            return "mac" if any(default_op(output, a) == "mac" for a in arguments) else "add"
        case Operation(name="neg", arguments=(argument,)):
            inner = default_op(output, argument)
            return inner if inner == "mac" else "neg"
        case Operation(name=name):
            return name
        case Read():
            return "mac" if reducing else "copy"
    return "copy"
