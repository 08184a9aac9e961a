"""The cascade: ranks, tensors and the Einsums that connect them.

`Cascade` may be built from parsed Einsums or straight from equations; either way it is complete and
checked when the constructor returns, or `InputError` names every fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, get_args

from exactile.formulation.einsum import BarrierMode, Einsum, Role, Tensor
from exactile.formulation.equation import EquationError, bad_rank_name, default_op, parse
from exactile.formulation.faults import Fault, InputError, nearest

EINSUM_KEYS = ("einsum", "op", "cost", "unit", "reduce", "in_place", "over", "mode")
TENSOR_KEYS = ("bits", "role", "row", "online", "corrects")


@dataclass(frozen=True, slots=True)
class Barrier:
    """Where a statistic over `rank` stands between the producer of `tensor` and its consumers.

    `row`: `rank` must not be a shared loop of the two sides of `tensor`. `online`: it may be, at the
    price of `trips(rank) · |X|` vector operations for each corrected output `X` whose Einsum reads
    `tensor`. The exemption needs every corrected Einsum in the group; otherwise the barrier is `row`.
    """

    tensor: str
    rank: str
    mode: BarrierMode
    corrects: tuple[str, ...] = ()


class Cascade:
    """A DAG of Einsums in the written order, which must be an execution order.

    `ranks` maps names to extents. `einsums` are equations, mappings with the keys `einsum`, `op`,
    `cost`, `unit`, `reduce`, `in_place`, `over`, `mode`, or `Einsum` objects. `tensors` may declare
    `bits`, `role`, `row`, `online`, `corrects` per tensor; `bits` is the default width of a value.

    Raises `InputError` with every fault, each with the path of the offending entry.
    """

    name: str
    ranks: Mapping[str, int]
    einsums: tuple[Einsum, ...]
    tensors: Mapping[str, Tensor]
    generational: tuple[str, str] | None

    def __init__(
        self,
        ranks: Mapping[str, int],
        einsums: Sequence[str | Mapping[str, Any] | Einsum],
        *,
        name: str = "cascade",
        tensors: Mapping[str, Mapping[str, Any]] | None = None,
        bits: int = 8,
        generational: tuple[str, str] | None = None,
    ) -> None:
        faults: list[Fault] = []
        self.name = name
        self.ranks = dict(ranks)
        self.generational = generational
        faults += _rank_faults(self.ranks)
        self.einsums = tuple(_einsums(einsums, faults))
        faults += _graph_faults(self.ranks, self.einsums, unread=len(self.einsums) < len(einsums))
        if faults:
            raise InputError(faults)
        self.tensors = _tensors(self.ranks, self.einsums, tensors or {}, bits, faults)
        faults += _einsum_faults(self)
        if faults:
            raise InputError(faults)

    def __repr__(self) -> str:
        return f"Cascade({self.name!r}, ranks={dict(self.ranks)}, einsums={[e.name for e in self.einsums]})"

    @cached_property
    def by_name(self) -> Mapping[str, Einsum]:
        """Einsums by their output; also: the producer of each tensor that has one."""
        return {einsum.name: einsum for einsum in self.einsums}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Einsum, ...]]:
        """The Einsums that read a tensor, in the written order; outputs may have none."""
        found: dict[str, list[Einsum]] = {name: [] for name in self.tensors}
        for einsum in self.einsums:
            for name in dict.fromkeys(access.tensor for access in einsum.inputs):
                found[name].append(einsum)
        return {name: tuple(users) for name, users in found.items()}

    @cached_property
    def barriers(self) -> tuple[Barrier, ...]:
        """All declared barriers, those of softmax-like Einsums spelled out per tensor.

        A softmax Einsum `P = softmax(S)` over `n` puts a barrier on its input `S` and one on its
        output `P`. `online` corrects the outputs that reduce `n` out of `P`. A `P` that leaves the
        cascade, or one of whose consumers keeps `n`, cannot be corrected later: `row`.
        """
        return tuple(_barriers(self))

    def points(self, einsum: Einsum) -> int:
        """Size of the iteration space, exact."""
        total = 1
        for rank in einsum.ranks:
            total *= self.ranks[rank]
        return total


def _rank_faults(ranks: Mapping[str, Any]) -> Iterable[Fault]:
    if not ranks:
        yield Fault(("ranks",), "expected at least one rank with its extent, got none")
    for rank, extent in ranks.items():
        reason = bad_rank_name(str(rank)) if not isinstance(rank, bool) else "a YAML boolean cannot be a rank (quote it)"
        if reason:
            yield Fault(("ranks", rank), reason)
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            yield Fault(("ranks", rank), f"expected a positive integer, got {extent}")


def _einsums(specs: Sequence[Any], faults: list[Fault]) -> Iterable[Einsum]:
    for position, spec in enumerate(specs):
        if isinstance(spec, Einsum):
            yield spec
            continue
        path = ("einsums", position)
        entry = {"einsum": spec} if isinstance(spec, str) else spec
        if not isinstance(entry, Mapping) or not isinstance(entry.get("einsum"), str):
            faults.append(Fault(path, f"expected an equation or a mapping with the key 'einsum', got {spec!r}"))
            continue
        for key in entry:
            if key not in EINSUM_KEYS:
                faults.append(Fault((*path, key), f"unknown key{nearest(str(key), EINSUM_KEYS)}"))
        try:
            yield _einsum(entry)
        except EquationError as error:
            faults.append(Fault(path, str(error)))
        except InputError as error:
            faults += [Fault((*path, *fault.path), fault.message) for fault in error.faults]
    if not specs:
        faults.append(Fault(("einsums",), "expected at least one Einsum, got none"))


def _einsum(entry: Mapping[str, Any]) -> Einsum:
    output, expression = parse(entry["einsum"])
    faults: list[Fault] = []

    def choice(key: str, allowed: tuple[str, ...]) -> Any:
        value = entry.get(key)
        if value is not None and value not in allowed:
            faults.append(Fault((key,), f"expected {' or '.join(allowed)}, got {value!r}{nearest(str(value), allowed)}"))
        return value

    op = entry.get("op") or default_op(output, expression)
    cost: dict[str, Fraction] = {}
    declared = entry.get("cost", {op: 1})
    if not isinstance(declared, Mapping):
        faults.append(Fault(("cost",), f"expected operations per point by op, got {declared!r}"))
        declared = {}
    for name, count in declared.items():
        try:
            cost[str(name)] = Fraction(str(count))
            if cost[str(name)] < 0:
                raise ValueError
        except ValueError:
            faults.append(Fault(("cost", str(name)), f"expected a count of operations, got {count!r}"))
    mode = choice("mode", get_args(BarrierMode))
    over = entry.get("over")
    if mode is not None and over is None:
        faults.append(Fault(("mode",), "expected 'over' (the rank of the statistic) beside 'mode'"))
    if over is not None and mode is None:
        mode = "row"
    einsum = Einsum(
        output, expression, str(op), cost, choice("reduce", ("sum", "max")) or "sum",
        None, over, mode, entry.get("unit"),
    )
    in_place = entry.get("in_place")
    if in_place:
        same = [a.tensor for a in einsum.inputs if a.indices == output.indices and a.tensor != output.tensor]
        target = same[0] if in_place is True and same else in_place
        if target not in same or einsum.reduction or not output.plain:
            faults.append(Fault(("in_place",), f"expected an input with the ranks of {output} to overwrite, got {in_place}"))
        einsum = Einsum(output, expression, einsum.op, cost, einsum.reduce, str(target), over, mode, einsum.unit)
    if faults:
        raise InputError(faults)
    return einsum


def _graph_faults(ranks: Mapping[str, int], einsums: Sequence[Einsum], unread: bool) -> Iterable[Fault]:
    """Unknown ranks, tensors written twice, unequal numbers of indices, and cycles."""
    written: dict[str, int] = {}
    dimensions: dict[str, tuple[int, str]] = {}
    for position, einsum in enumerate(einsums):
        path = ("einsums", position)
        for access in (einsum.output, *einsum.inputs):
            for rank in access.ranks:
                if rank not in ranks:
                    yield Fault(path, f"unknown rank '{rank}' in {access}{nearest(rank, ranks)}")
            count, first = dimensions.setdefault(access.tensor, (len(access.indices), str(access)))
            if count != len(access.indices):
                yield Fault(path, f"expected {count} indices of {access.tensor} as in {first}, got {access}")
        if not einsum.inputs:
            yield Fault(path, f"expected at least one tensor on the right of {einsum.output}, got none")
        if einsum.name in written:
            yield Fault(path, f"tensor {einsum.name} is written twice (first by Einsum {written[einsum.name]})")
        written.setdefault(einsum.name, position)
    if unread:
        return
    for position, einsum in enumerate(einsums):
        for access in einsum.inputs:
            if written.get(access.tensor, -1) >= position and not _state(access):
                yield Fault(
                    ("einsums", position),
                    f"{einsum.name} reads {access.tensor} before it is written: the Einsums must form a DAG, "
                    "written in an execution order",
                )


def _state(access: Any) -> bool:
    """A read of an earlier generation, `H[i-1]`, is no cycle."""
    return any(index.offset < 0 for index in access.indices)


def _tensors(
    ranks: Mapping[str, int],
    einsums: Sequence[Einsum],
    declared: Mapping[str, Mapping[str, Any]],
    bits: int,
    faults: list[Fault],
) -> dict[str, Tensor]:
    accesses = {}
    for einsum in einsums:
        for access in (einsum.output, *einsum.inputs):
            accesses.setdefault(access.tensor, access)
    written = {einsum.name for einsum in einsums}
    read = {access.tensor for einsum in einsums for access in einsum.inputs}
    for name in declared:
        if name not in accesses:
            faults.append(Fault(("tensors", name), f"no Einsum uses a tensor of this name{nearest(name, accesses)}"))
    if isinstance(bits, bool) or not isinstance(bits, int) or bits < 1:
        faults.append(Fault(("bits",), f"expected a positive integer, got {bits!r}"))
    tensors: dict[str, Tensor] = {}
    for name, access in accesses.items():
        entry = declared.get(name, {})
        if not isinstance(entry, Mapping):
            faults.append(Fault(("tensors", name), f"expected a mapping, got {entry!r}"))
            entry = {}
        default: Role = "input" if name not in written else "intermediate" if name in read else "output"
        faults += _tensor_faults(name, entry, name in written, access.ranks, accesses)
        shape = tuple(_extent(index, ranks) for index in access.indices)
        tensors[name] = Tensor(
            name, shape, entry.get("bits", bits), entry.get("role", default),
            entry.get("row"), entry.get("online"), entry.get("corrects"),
        )
    return tensors


def _tensor_faults(
    name: str, entry: Mapping[str, Any], written: bool, ranks: Sequence[str], known: Iterable[str]
) -> Iterable[Fault]:
    path = ("tensors", name)
    for key in entry:
        if key not in TENSOR_KEYS:
            yield Fault((*path, key), f"unknown key{nearest(str(key), TENSOR_KEYS)}")
    width = entry.get("bits", 1)
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        yield Fault((*path, "bits"), f"expected a positive integer, got {width!r}")
    role = entry.get("role")
    if role is not None and role not in get_args(Role):
        yield Fault((*path, "role"), f"expected one of {', '.join(get_args(Role))}, got {role!r}{nearest(str(role), get_args(Role))}")
    elif role in ("input", "weight") and written:
        yield Fault((*path, "role"), f"{name} is written by an Einsum and cannot be an {role}")
    elif role in ("output", "intermediate") and not written:
        yield Fault((*path, "role"), f"no Einsum writes {name}, so it cannot be an {role}")
    for key in ("row", "online"):
        if entry.get(key) is not None and entry[key] not in ranks:
            yield Fault((*path, key), f"expected a rank of {name} ({', '.join(ranks)}), got {entry[key]!r}")
    corrects = entry.get("corrects")
    if corrects is not None and corrects not in known:
        yield Fault((*path, "corrects"), f"unknown tensor '{corrects}'{nearest(str(corrects), known)}")


def _extent(index: Any, ranks: Mapping[str, int]) -> int:
    """Extent of one dimension of a tensor: the span of its index map."""
    if not index.terms:
        return 1
    return 1 + sum(abs(c) * (ranks[rank] - 1) for rank, c in index.terms)


def _einsum_faults(cascade: Cascade) -> Iterable[Fault]:
    for position, einsum in enumerate(cascade.einsums):
        path = ("einsums", position)
        missing = [r for r in einsum.output.ranks if all(r not in a.ranks for a in einsum.inputs)]
        if missing:
            yield Fault(path, f"rank {missing[0]} of {einsum.output} is in no input: nothing varies over it")
        if einsum.over is not None and einsum.over not in einsum.ranks:
            yield Fault((*path, "over"), f"expected a rank of {einsum.name} ({', '.join(einsum.ranks)}), got {einsum.over!r}")
        if einsum.in_place:
            later = cascade.consumers[einsum.in_place]
            if later[-1] is not einsum or cascade.tensors[einsum.in_place].role == "output":
                yield Fault((*path, "in_place"), f"{einsum.in_place} is still needed after {einsum.name} and cannot be overwritten")


def _barriers(cascade: Cascade) -> Iterable[Barrier]:
    for tensor in cascade.tensors.values():
        if tensor.row is not None:
            yield Barrier(tensor.name, tensor.row, "row")
        if tensor.online is not None:
            named = (tensor.corrects,) if tensor.corrects else _reducers(cascade, tensor.name, tensor.online)
            yield Barrier(tensor.name, tensor.online, "online" if named else "row", named)
    for einsum in cascade.einsums:
        if einsum.over is None or einsum.mode is None:
            continue
        corrected = _reducers(cascade, einsum.name, einsum.over) if einsum.mode == "online" else ()
        mode: BarrierMode = "online" if corrected else "row"
        for access in (*einsum.inputs, einsum.output):
            if einsum.over in access.ranks:
                yield Barrier(access.tensor, einsum.over, mode, corrected)


def _reducers(cascade: Cascade, tensor: str, rank: str) -> tuple[str, ...]:
    """Outputs of the consumers of `tensor`, if it is internal and all of them reduce `rank`."""
    users = cascade.consumers[tensor]
    if cascade.tensors[tensor].role == "output" or not all(rank in user.reduction for user in users):
        return ()
    return tuple(user.name for user in users)
