"""Einsums and tensors: the parts of a cascade.

Data only. Nothing here knows files, machines or mappings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

Role = Literal["input", "weight", "output", "intermediate", "state"]
BarrierMode = Literal["row", "online"]


@dataclass(frozen=True, slots=True)
class Index:
    """One index of an access: `sum(coefficient * rank) + offset`.

    `m` is `Index((("m", 1),))`, the window `p + 2*s` is `Index((("p", 1), ("s", 2)))`, `i - 1` has
    offset −1 and a constant has no terms.
    """

    terms: tuple[tuple[str, int], ...]
    offset: int = 0

    @property
    def plain(self) -> str | None:
        """The rank, if the index is that rank and nothing else."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and self.offset == 0:
            return self.terms[0][0]
        return None

    def __str__(self) -> str:
        parts = [rank if c == 1 else f"{c}*{rank}" for rank, c in self.terms]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return "+".join(parts).replace("+-", "-")


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor read or written through one index map, `S[h,m,n]`."""

    tensor: str
    indices: tuple[Index, ...] = ()

    @property
    def ranks(self) -> tuple[str, ...]:
        """The ranks of the index map, in order of first appearance: `R(X)`."""
        return tuple(dict.fromkeys(rank for index in self.indices for rank, _ in index.terms))

    @property
    def plain(self) -> bool:
        """Whether every index is one rank alone, each rank once (no windows, shifts, diagonals)."""
        ranks = [index.plain for index in self.indices]
        return None not in ranks and len(set(ranks)) == len(ranks)

    def __str__(self) -> str:
        return f"{self.tensor}[{','.join(map(str, self.indices))}]" if self.indices else self.tensor


def misaligned(one: Access, other: Access) -> frozenset[str]:
    """Ranks that index one tensor at other places in one index map than in the other.

    A loop over such a rank does not select the same part of the tensor for both: `X[t,d]` and `X[u,d]`
    agree in `d` alone, so they find the same values only where `t` and `u` are whole.
    """
    apart = (pair for pair in zip(one.indices, other.indices, strict=True) if pair[0] != pair[1])
    return frozenset(rank for pair in apart for index in pair for rank, _ in index.terms)


@dataclass(frozen=True, slots=True)
class Read:
    """Leaf of an expression: the value of an access."""

    access: Access


@dataclass(frozen=True, slots=True)
class Constant:
    """Leaf of an expression: a number."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Operation:
    """Inner node: `mul`, `div`, `add`, `sub`, `neg` or the name of a function, over its arguments."""

    name: str
    arguments: tuple[Expression, ...]


Expression = Read | Constant | Operation


def reads(expression: Expression) -> tuple[Access, ...]:
    """The distinct accesses of an expression, in reading order."""

    def walk(node: Expression) -> Iterable[Access]:
        if isinstance(node, Read):
            yield node.access
        elif isinstance(node, Operation):
            for argument in node.arguments:
                yield from walk(argument)

    return tuple(dict.fromkeys(walk(expression)))


@dataclass(frozen=True)
class Einsum:
    """One equation. Its name is the name of its output.

    `op` decides which compute unit may run it. `cost` is the number of operations per point of the
    iteration space, by op: `{op: 1}` unless the cascade says otherwise. `over` and `mode` are the
    barrier of a softmax-like function; `in_place` names the input that the output may overwrite.
    """

    output: Access
    expression: Expression
    op: str
    cost: Mapping[str, Fraction]
    reduce: Literal["sum", "max"] = "sum"
    in_place: str | None = None
    over: str | None = None
    mode: BarrierMode | None = None
    unit: str | None = None

    @property
    def name(self) -> str:
        return self.output.tensor

    @cached_property
    def inputs(self) -> tuple[Access, ...]:
        """Distinct accesses read, in reading order: input 1, input 2, …"""
        return reads(self.expression)

    @cached_property
    def ranks(self) -> tuple[str, ...]:
        """The iteration space `R(e)`: ranks of the output, then those that only inputs have."""
        accesses = (self.output, *self.inputs)
        return tuple(dict.fromkeys(rank for access in accesses for rank in access.ranks))

    @cached_property
    def reduction(self) -> frozenset[str]:
        """`Red(e) = R(e) \\ R(output)`."""
        return frozenset(self.ranks) - frozenset(self.output.ranks)

    def access_of(self, tensor: str) -> Access:
        """The (first) access through which the Einsum uses `tensor`."""
        for access in (self.output, *self.inputs):
            if access.tensor == tensor:
                return access
        raise KeyError(tensor)


@dataclass(frozen=True)
class Tensor:
    """A tensor: what is declared about it. Its ranks are those of its first access.

    `row` / `online` declare a softmax barrier without a softmax Einsum; `corrects` is the output
    whose partial results an online statistic rescales.
    """

    name: str
    shape: tuple[int, ...]
    bits: int
    role: Role
    row: str | None = None
    online: str | None = None
    corrects: str | None = None

    @property
    def size(self) -> int:
        """`|X|`, the number of values."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total
