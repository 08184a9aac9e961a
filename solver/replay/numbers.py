"""The numbers: every buffer as an array that knows which values it has and how complete they are.

A value is complete when every point of its reduction has contributed once. Reading anything else, or
anything that is not in the buffer, is an error of the mapping. An online softmax leaves its values
relative to the largest value of its own tile; the outputs that use it carry that reference and the sum
of weights along, and are rescaled when a new tile brings a new reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from exactile.formulation.cascade import Cascade
from exactile.formulation.einsum import Access, Constant, Einsum, Expression, Operation, Read, reads
from exactile.formulation.mapping import Group
from exactile.solver.replay.errors import ReplayError
from exactile.solver.replay.functions import Array, apply, terms
from exactile.solver.replay.intervals import Intervals, View, length
from exactile.solver.replay.tree import Allocation

ABSENT = -1


class Store:
    """Where a tensor lives: a buffer, or the outermost level.

    Shaped as the whole tensor. `holder[i]` says which of the tensors `held` an element holds, or
    `ABSENT`; `count` how many points have contributed. `reference` and `weight` belong to values that
    are not normalised yet: `nan` for all others.
    """

    def __init__(self, held: tuple[str, ...], shape: tuple[int, ...]) -> None:
        self.held = held
        self.data = np.zeros(shape)
        self.count = np.zeros(shape, dtype=np.int64)
        self.holder = np.full(shape, ABSENT)
        self.reference = np.full(shape, np.nan)
        self.weight = np.zeros(shape)
        self.rows: dict[object, tuple[Array, Array] | None] = {}

    def copy(self, other: Store, region: Any) -> None:
        """Take a region over from another store."""
        for mine, theirs in (
            (self.data, other.data),
            (self.count, other.count),
            (self.reference, other.reference),
            (self.weight, other.weight),
        ):
            mine[region] = theirs[region]
        self.holder[region] = 0


def region(view: Mapping[str, Intervals], ranks: Iterable[str]) -> Any:
    """The index of a tile: slices, or index arrays where instances work on several blocks."""
    intervals = [view[rank] for rank in ranks]
    if all(len(parts) == 1 for parts in intervals):
        return tuple(slice(*parts[0]) for parts in intervals)
    return np.ix_(*(np.concatenate([np.arange(*part) for part in parts]) for parts in intervals))


def describe(view: Mapping[str, Intervals], ranks: Iterable[str]) -> str:
    """A tile in words, `m 0..3, n 4..7`."""
    parts = (f"{r} " + "+".join(f"{start}..{stop - 1}" for start, stop in view[r]) for r in ranks)
    return ", ".join(parts) or "scalar"


class Numbers:
    """Computes the tensors of a cascade in the order and the buffers of a mapping."""

    def __init__(self, cascade: Cascade, inputs: Mapping[str, Array]) -> None:
        self.cascade = cascade
        self.group: Group | None = None
        self.buffers: dict[tuple[str, str], Store] = {}
        self.outermost: dict[str, Store] = {}
        first: dict[str, tuple[str, ...]] = {}
        self.lazy = {b.tensor for b in cascade.barriers if b.mode == "online"}
        self.corrected = {name for b in cascade.barriers if b.mode == "online" for name in b.corrects}
        for einsum in cascade.einsums:
            for access in (einsum.output, *einsum.inputs):
                first.setdefault(access.tensor, access.ranks)
        for tensor, ranks in first.items():
            store = Store((tensor,), tuple(cascade.ranks[rank] for rank in ranks))
            if tensor not in cascade.by_name:
                store.data[...] = inputs[tensor]
                store.count[...], store.holder[...] = 1, 0
            self.outermost[tensor] = store

    def enter(self, group: Group) -> None:
        """Begin a fused group with empty buffers."""
        self.group = group
        self.buffers = {}

    def outputs(self) -> dict[str, Array]:
        """The outputs of the cascade. Raises `ReplayError` if one of them is incomplete."""
        found = {}
        for einsum in self.cascade.einsums:
            store = self.outermost[einsum.name]
            unread = not self.cascade.consumers[einsum.name]
            if unread or self.cascade.tensors[einsum.name].role == "output":
                if (store.count != self.full(einsum.name)).any():
                    raise ReplayError(f"{einsum.name} is not complete when everything has run")
                found[einsum.name] = store.data
        return found

    def full(self, tensor: str) -> int:
        """Contributions that make a value of `tensor` complete."""
        einsum = self.cascade.by_name.get(tensor)
        return 1 if einsum is None else prod(self.cascade.ranks[rank] for rank in einsum.reduction)

    # buffers

    def take(self, allocation: Allocation, view: View) -> None:
        """Allocate a buffer and fill it from the outermost level, unless its values are made here."""
        if allocation.child != 1:
            return
        tensor = allocation.tensor
        store = Store(allocation.held, self.outermost[tensor].data.shape)
        user = allocation.users[0]
        ranks = self._ranks(user, tensor)
        tile = region(view, ranks)
        outer = self.outermost[tensor]
        if tensor not in allocation.users:
            self._check_complete(outer, tensor, user, tile, describe(view, ranks))
        if tensor not in allocation.users or len(allocation.users) == 1:
            store.copy(outer, tile)
        store.holder[tile] = 0
        for user in allocation.users:
            for held in allocation.held:
                self.buffers[user, held] = store

    def give_back(self, allocation: Allocation, view: View) -> None:
        """Free a buffer; what is needed outside goes to the outermost level first."""
        if allocation.child != 1:
            return
        store = self.buffers[allocation.users[0], allocation.tensor]
        for position, tensor in enumerate(allocation.held):
            if tensor in allocation.users and (len(allocation.users) == 1 or self._leaves(tensor)):
                ranks = self._ranks(tensor, tensor)
                tile = region(view, ranks)
                if (store.holder[tile] != position).any():
                    raise ReplayError(f"{tensor} is overwritten in place but needed later")
                if len(allocation.users) > 1:
                    self._check_complete(store, tensor, tensor, tile, describe(view, ranks))
                if tensor not in self.corrected and not np.isnan(store.reference[tile]).all():
                    raise ReplayError(f"{tensor} [{describe(view, ranks)}] leaves before it is normalised")
                self.outermost[tensor].copy(store, tile)
        self.buffers = {key: kept for key, kept in self.buffers.items() if kept is not store}

    def _ranks(self, einsum: str, tensor: str) -> tuple[str, ...]:
        return self.cascade.by_name[einsum].access_of(tensor).ranks

    def _leaves(self, tensor: str) -> bool:
        assert self.group is not None
        users = self.cascade.consumers[tensor]
        outside = not users or any(user.name not in self.group.order for user in users)
        return outside or self.cascade.tensors[tensor].role == "output"

    def _check_complete(self, store: Store, tensor: str, einsum: str, tile: Any, where: str) -> None:
        if (store.holder[tile] != store.held.index(tensor)).any():
            raise ReplayError(f"{einsum} needs {tensor} [{where}], which is not there")
        if (store.count[tile] != self.full(tensor)).any():
            raise ReplayError(f"{einsum} needs {tensor} [{where}], which holds partial sums")

    # execution

    def execute(self, einsum: str, view: View) -> None:
        """Compute one tile of an Einsum from what its buffers hold."""
        statement = self.cascade.by_name[einsum]
        tile = region(view, statement.output.ranks)
        where = describe(view, statement.output.ranks)
        store = self._store(einsum, einsum)
        position = store.held.index(einsum)
        points = prod(length(view[rank]) for rank in statement.reduction)
        if points == 0 or store.count[tile].size == 0:
            return
        execution = _Execution(self, statement, view)
        relative_to: Array | None
        weight: Array | None
        if execution.unnormalised:
            value, relative_to, weight = execution.rescaled(store, tile)
        else:
            value = execution.value()
            relative_to, weight = execution.reference, None
        if position > 0:
            store.count[tile] = 0
            store.holder[tile] = position
        elif store is self.outermost[einsum]:
            store.holder[tile] = 0
        if (store.holder[tile] != position).any():
            raise ReplayError(f"{einsum} writes its tile [{where}], which has no place in its buffer")
        fresh = store.count[tile] == 0
        old = store.data[tile]
        if statement.reduce == "max":
            store.data[tile] = np.where(fresh, value, np.maximum(old, value))
        else:
            store.data[tile] = np.where(fresh, 0, old) + value
        store.count[tile] += points
        if (store.count[tile] > self.full(einsum)).any():
            raise ReplayError(f"{einsum} adds to its tile [{where}] after it was complete")
        store.reference[tile] = np.nan if relative_to is None else relative_to
        if weight is not None:
            store.weight[tile] = np.where(fresh, 0, store.weight[tile]) + weight
            self._normalise(store, tile, self.full(einsum))

    def _normalise(self, store: Store, tile: Any, full: int) -> None:
        """Divide by the sum of weights where the whole row has been seen."""
        done = (store.count[tile] == full) & ~np.isnan(store.reference[tile])
        weight = np.where(done, store.weight[tile], 1)
        store.data[tile] = store.data[tile] / weight
        store.reference[tile] = np.where(done, np.nan, store.reference[tile])

    def _store(self, einsum: str, tensor: str) -> Store:
        return self.buffers.get((einsum, tensor), self.outermost[tensor])


class _Execution:
    """The values of one tile of one Einsum, one axis per rank of its iteration space."""

    def __init__(self, numbers: Numbers, einsum: Einsum, view: View) -> None:
        self.numbers = numbers
        self.einsum = einsum
        self.view = view
        self.reference: Array | None = None
        self.scale: dict[str, Array] = {}
        self.unnormalised = [a for a in einsum.inputs if self._is_unnormalised(a)]
        if self.unnormalised and einsum.name not in numbers.corrected:
            raise ReplayError(f"{einsum.name} reads {self.unnormalised[0]} before its softmax is normalised")

    def _is_unnormalised(self, access: Access) -> bool:
        store = self.numbers._store(self.einsum.name, access.tensor)
        return not bool(np.isnan(store.reference[region(self.view, access.ranks)]).all())

    def value(self) -> Array:
        """The contribution of the tile to the output, in the order of the output's ranks."""
        parts = [self._reduced(sign, term) for sign, term in terms(self.einsum.expression)]
        total = parts[0]
        for part in parts[1:]:
            total = np.maximum(total, part) if self.einsum.reduce == "max" else total + part
        return total

    def _axes(self) -> tuple[int, ...]:
        return tuple(i for i, rank in enumerate(self.einsum.ranks) if rank in self.einsum.reduction)

    def _shape(self) -> tuple[int, ...]:
        return tuple(length(self.view[rank]) for rank in self.einsum.output.ranks)

    def _first_of(self, absent: Iterable[str]) -> bool:
        """Whether this tile is the one that speaks for the ranks that a term does not have."""
        return all(self.view[rank][0][0] == 0 for rank in absent)

    def _reduced(self, sign: int, term: Expression) -> Array:
        own = {rank for access in reads(term) for rank in access.ranks}
        whole = np.asarray(self._evaluate(term, self.view))
        whole = whole.reshape(whole.shape or (1,) * len(self.einsum.ranks))
        maximal = self.einsum.reduce == "max"
        value = sign * (whole.max(axis=self._axes()) if maximal else whole.sum(axis=self._axes()))
        if not maximal and not self._first_of(self.einsum.reduction - own):
            value = np.zeros_like(value)
        return np.broadcast_to(value, self._shape())

    def _evaluate(self, node: Expression, view: View) -> Any:
        if isinstance(node, Constant):
            return float(node.value)
        if isinstance(node, Read):
            return self._read(node.access, view) * self.scale.get(node.access.tensor, 1)
        if node.name == "softmax" and self.einsum.over is not None:
            return self._softmax(node, view)
        return apply(node.name, [self._evaluate(argument, view) for argument in node.arguments])

    def _read(self, access: Access, view: View, whole_row: bool = False) -> Array:
        numbers, name = self.numbers, self.einsum.name
        store = numbers._store(name, access.tensor)
        assert numbers.group is not None
        if whole_row and access.tensor not in numbers.group.order:
            store = numbers.outermost[access.tensor]  # the statistic of a tensor that is complete outside
        tile = region(view, access.ranks)
        numbers._check_complete(store, access.tensor, name, tile, describe(view, access.ranks))
        return self._aligned(store.data[tile], access.ranks)

    def _aligned(self, array: Any, ranks: tuple[str, ...]) -> Array:
        """One axis per rank of the iteration space, of size 1 where the tensor does not have it."""
        order = sorted(range(len(ranks)), key=lambda axis: self.einsum.ranks.index(ranks[axis]))
        moved = np.asarray(array).transpose(order)
        sizes = dict(zip((ranks[axis] for axis in order), moved.shape, strict=True))
        return moved.reshape([sizes.get(rank, 1) for rank in self.einsum.ranks])

    # softmax

    def _softmax(self, node: Operation, view: View) -> Array:
        """The tile of a softmax: exact if its rows are complete, else relative to its own maximum."""
        assert self.einsum.over is not None
        argument = np.asarray(self._evaluate(node.arguments[0], view))
        axis = self.einsum.ranks.index(self.einsum.over)
        found = self._row_statistics(node, view, axis)
        if found is not None:
            largest, total = found
            return np.asarray(np.exp(argument - largest) / total)
        largest = argument.max(axis=axis, keepdims=True)
        order = [self.einsum.ranks.index(rank) for rank in self.einsum.output.ranks]
        spread = np.broadcast_to(largest, np.broadcast_shapes(largest.shape, argument.shape))
        self.reference = np.broadcast_to(spread.transpose(order), self._shape())
        return np.asarray(np.exp(argument - largest))

    def _row_statistics(self, node: Operation, view: View, axis: int) -> tuple[Array, Array] | None:
        """Maximum and sum of the rows of a tile; `None` if they are not known yet and need not be."""
        over = self.einsum.over
        assert over is not None
        source = next(access for access in reads(node) if over in access.ranks)
        store = self.numbers._store(self.einsum.name, source.tensor)
        row = (self.einsum.name, *((rank, view[rank]) for rank in self.einsum.ranks if rank != over))
        if row not in store.rows:
            whole = {**view, over: ((0, self.numbers.cascade.ranks[over]),)}
            try:
                argument = np.asarray(self._evaluate_row(node.arguments[0], whole))
            except ReplayError:
                if self.einsum.name not in self.numbers.lazy:
                    raise
                store.rows[row] = None
            else:
                largest = argument.max(axis=axis, keepdims=True)
                store.rows[row] = largest, np.exp(argument - largest).sum(axis=axis, keepdims=True)
        return store.rows[row]

    def _evaluate_row(self, node: Expression, whole: View) -> Any:
        if isinstance(node, Constant):
            return float(node.value)
        if isinstance(node, Read):
            return self._read(node.access, whole, whole_row=True)
        return apply(node.name, [self._evaluate_row(argument, whole) for argument in node.arguments])

    def rescaled(self, store: Store, tile: Any) -> tuple[Array, Array, Array]:
        """Contribution, reference and weights of a tile that reads a softmax not yet normalised.

        Rescales what the output has so far to the new reference.
        """
        (access,) = self.unnormalised
        output, axes = self.einsum.output.ranks, self._axes()
        if len(self.einsum.reduction & set(access.ranks)) != 1:
            raise ReplayError(f"{self.einsum.name} sums rows of {access} that are not normalised")
        if not _linear(self.einsum.expression, access):
            raise ReplayError(f"{self.einsum.name} is not linear in {access}, which is not normalised")
        part = region(self.view, access.ranks)
        theirs = self._aligned(
            self.numbers._store(self.einsum.name, access.tensor).reference[part], access.ranks
        )
        old = np.where(store.count[tile] == 0, -np.inf, store.reference[tile])
        largest = np.maximum(old, np.broadcast_to(theirs.max(axis=axes), self._shape()))
        factor = np.exp(old - largest)
        store.data[tile] = store.data[tile] * factor
        store.weight[tile] = store.weight[tile] * factor
        self.scale[access.tensor] = np.exp(theirs - self._aligned(largest, output))
        weights = self._read(access, self.view) * self.scale[access.tensor]
        absent = self.einsum.reduction - set(access.ranks)
        weight = np.broadcast_to(weights.sum(axis=axes), self._shape()) * self._first_of(absent)
        return self.value(), largest, weight


def _linear(node: Expression, access: Access) -> bool:
    """Whether an expression is a product with this access as one factor."""
    if isinstance(node, Read):
        return node.access == access
    if isinstance(node, Operation) and node.name == "mul":
        having = [argument for argument in node.arguments if access in reads(argument)]
        return len(having) == 1 and _linear(having[0], access)
    return False
