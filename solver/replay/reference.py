"""What a cascade computes, whole tensors at a time: the oracle for the numbers of the replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from exactile.formulation.cascade import Cascade
from exactile.formulation.einsum import Access, Constant, Einsum, Expression, Operation, Read, reads
from exactile.solver.replay.errors import ReplayError
from exactile.solver.replay.functions import Array, apply, terms


def reference(cascade: Cascade, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """All tensors of the cascade, given its inputs, by numpy. Raises `ReplayError` for index maps
    other than plain ranks."""
    values = {name: np.asarray(array, dtype=float) for name, array in inputs.items()}
    for einsum in cascade.einsums:
        for access in (einsum.output, *einsum.inputs):
            if not access.plain:
                raise ReplayError(f"{access} of {einsum.name}: numbers need plain ranks as indices")
        values[einsum.name] = _einsum(cascade, einsum, values)
    return values


def _einsum(cascade: Cascade, einsum: Einsum, values: Mapping[str, Array]) -> Array:
    shape = tuple(cascade.ranks[rank] for rank in einsum.output.ranks)
    result: Array | None = None
    for sign, term in terms(einsum.expression):
        value = sign * _term(einsum, term, values)
        if result is None:
            result = value
        else:
            result = np.maximum(result, value) if einsum.reduce == "max" else result + value
    return np.array(np.broadcast_to(np.asarray(result), shape))


def _term(einsum: Einsum, term: Expression, values: Mapping[str, Array]) -> Array:
    """One additive term over the ranks of the output; ranks it does not have get size 1."""
    output = einsum.output.ranks
    factors = _factors(term)
    own = tuple(dict.fromkeys(rank for access in reads(term) for rank in access.ranks))
    kept = [rank for rank in output if rank in own]
    if factors is not None and einsum.reduce == "sum":
        letters = {rank: chr(ord("a") + i) for i, rank in enumerate(own)}
        spec = ",".join("".join(letters[rank] for rank in access.ranks) for access in factors)
        spec += "->" + "".join(letters[rank] for rank in kept)
        value = np.asarray(np.einsum(spec, *(values[access.tensor] for access in factors)))
    else:
        order = [*kept, *(rank for rank in own if rank not in kept)]
        whole = np.asarray(_evaluate(einsum, term, values, order))
        axes = tuple(range(len(kept), len(order)))
        value = whole.max(axis=axes) if einsum.reduce == "max" else whole.sum(axis=axes)
    return value.reshape([value.shape[kept.index(rank)] if rank in kept else 1 for rank in output])


def _factors(term: Expression) -> list[Access] | None:
    """The factors of a product of tensors, or `None` if it is something else."""
    if isinstance(term, Read):
        return [term.access]
    if isinstance(term, Operation) and term.name == "mul":
        parts = [_factors(argument) for argument in term.arguments]
        if all(part is not None for part in parts):
            return [access for part in parts if part is not None for access in part]
    return None


def _evaluate(einsum: Einsum, node: Expression, values: Mapping[str, Array], order: Sequence[str]) -> Any:
    """A subexpression with one axis per rank of `order`."""
    if isinstance(node, Constant):
        return float(node.value)
    if isinstance(node, Read):
        ranks = node.access.ranks
        missing = [rank for rank in order if rank not in ranks]
        array = values[node.access.tensor]
        array = array.reshape(array.shape + (1,) * len(missing))
        return np.moveaxis(array, range(len(order)), [order.index(rank) for rank in (*ranks, *missing)])
    arguments = [_evaluate(einsum, argument, values, order) for argument in node.arguments]
    if node.name == "softmax" and einsum.over is not None:
        axis = order.index(einsum.over)
        powers = np.exp(arguments[0] - arguments[0].max(axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)
    return apply(node.name, arguments)
