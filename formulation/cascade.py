"""The cascade: ranks, tensors and the Einsums that connect them.

`Cascade` may be built from parsed Einsums or straight from equations; either way it is complete and
checked when the constructor returns, or `InputError` names every fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, get_args

from exactile.formulation.einsum import Access, BarrierMode, Einsum, Index, Role, Tensor
from exactile.formulation.entries import ROW_OPS, read_einsum
from exactile.formulation.equation import bad_rank_name
from exactile.formulation.faults import Fault, InputError, nearest, shown

# beyond any layer of a real network, and still exact in 64 bits where counts are screened
MAX_EXTENT = 2**40
MAX_POINTS = 2**62
MAX_BITS = 4096
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
        read = list(_read(einsums, faults))
        self.einsums = tuple(einsum for _, einsum in read)
        complete = len(read) == len(einsums)
        faults += _graph_faults(self.ranks, read, complete)
        faults += _declaration_faults(read, tensors or {}, bits, complete)
        faults += _generation_faults(self.ranks, self.einsums, generational)
        if faults:
            raise InputError(faults)
        self.tensors = _tensors(self.ranks, self.einsums, tensors or {}, bits)

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
        return prod(self.ranks[rank] for rank in einsum.ranks)


def _rank_faults(ranks: Mapping[str, Any]) -> Iterator[Fault]:
    if not ranks:
        yield Fault(("ranks",), "expected at least one rank with its extent, got none")
    for rank, extent in ranks.items():
        reason = bad_rank_name(str(rank))
        if reason:
            yield Fault(("ranks", rank), reason)
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            yield Fault(("ranks", rank), f"expected a positive integer, got {shown(extent)}")
        elif extent > MAX_EXTENT:
            yield Fault(("ranks", rank), f"expected an extent up to 2^40, got {shown(extent)}")


def _read(specs: Sequence[Any], faults: list[Fault]) -> Iterator[tuple[int, Einsum]]:
    """Every Einsum that has an equation, with its position."""
    for position, spec in enumerate(specs):
        einsum, found = read_einsum(spec)
        faults += [Fault(("einsums", position, *fault.path), fault.message) for fault in found]
        if einsum is not None:
            yield position, einsum
    if not specs:
        faults.append(Fault(("einsums",), "expected at least one Einsum, got none"))


def _graph_faults(
    ranks: Mapping[str, int], read: Sequence[tuple[int, Einsum]], complete: bool
) -> Iterator[Fault]:
    """Each Einsum by itself; tensors written twice, unequal numbers of indices, and cycles."""
    written: dict[str, int] = {}
    dimensions: dict[str, tuple[int, str]] = {}
    for position, einsum in read:
        path = ("einsums", position)
        yield from _einsum_faults(ranks, einsum, path)
        for access in (einsum.output, *einsum.inputs):
            count, first = dimensions.setdefault(access.tensor, (len(access.indices), str(access)))
            if count != len(access.indices):
                yield Fault(path, f"expected {count} indices of {access.tensor} as in {first}, got {access}")
        if einsum.name in written:
            message = f"tensor {einsum.name} is written twice (first by Einsum {written[einsum.name]})"
            yield Fault(path, message)
        written.setdefault(einsum.name, position)
    for position, einsum in read if complete else ():
        for access in einsum.inputs:
            if written.get(access.tensor, -1) >= position and not _state(access):
                yield Fault(
                    ("einsums", position),
                    f"{einsum.name} reads {access.tensor} before it is written: the Einsums must form a DAG, "
                    "written in an execution order",
                )


def _einsum_faults(ranks: Mapping[str, int], einsum: Einsum, path: tuple[str | int, ...]) -> Iterator[Fault]:
    """What is wrong with one Einsum whatever the others are."""
    unknown = [rank for rank in einsum.ranks if rank not in ranks]
    for rank in unknown:
        where = next(a for a in (einsum.output, *einsum.inputs) if rank in a.ranks)
        yield Fault(path, f"unknown rank '{rank}' in {where}{nearest(rank, ranks)}")
    if not einsum.inputs:
        yield Fault(path, f"expected at least one tensor on the right of {einsum.output}, got none")
        return
    missing = [r for r in einsum.output.ranks if all(r not in a.ranks for a in einsum.inputs)]
    if missing:
        yield Fault(path, f"rank {missing[0]} of {einsum.output} is in no input: nothing varies over it")
    if einsum.over is not None and einsum.over not in einsum.ranks:
        known = ", ".join(einsum.ranks)
        yield Fault((*path, "over"), f"expected a rank of {einsum.name} ({known}), got {shown(einsum.over)}")
    if einsum.op in ROW_OPS and einsum.over is None:
        yield Fault(
            path, f"{einsum.op} needs the rank it runs along, like 'over: n' (and 'mode': row or online)"
        )
    extents = [ranks[rank] for rank in einsum.ranks if rank not in unknown]
    if all(isinstance(extent, int) and 0 < extent <= MAX_EXTENT for extent in extents):
        points = prod(extents)
        if points > MAX_POINTS:
            yield Fault(path, f"{einsum.name} has {shown(points)} points, expected at most 2^62")


def _state(access: Access) -> bool:
    """A read of an earlier generation, `H[i-1]`, is no cycle."""
    return any(index.offset < 0 for index in access.indices)


def _tensors(
    ranks: Mapping[str, int],
    einsums: Sequence[Einsum],
    declared: Mapping[str, Mapping[str, Any]],
    bits: int,
) -> dict[str, Tensor]:
    """Every tensor that the Einsums use, with what is declared about it (checked before)."""
    written = {einsum.name for einsum in einsums}
    read = {access.tensor for einsum in einsums for access in einsum.inputs}
    tensors: dict[str, Tensor] = {}
    for name, access in _accesses(einsums).items():
        entry = declared.get(name) or {}
        default: Role = "input" if name not in written else "intermediate" if name in read else "output"
        tensors[name] = Tensor(
            name,
            tuple(_extent(index, ranks) for index in access.indices),
            entry.get("bits", bits),
            entry.get("role", default),
            entry.get("row"),
            entry.get("online"),
            entry.get("corrects"),
        )
    return tensors


def _accesses(einsums: Sequence[Einsum]) -> dict[str, Access]:
    """The first access of each tensor."""
    found: dict[str, Access] = {}
    for einsum in einsums:
        for access in (einsum.output, *einsum.inputs):
            found.setdefault(access.tensor, access)
    return found


def _declaration_faults(
    read: Sequence[tuple[int, Einsum]], declared: Mapping[str, Any], bits: object, complete: bool
) -> Iterator[Fault]:
    """What is declared about tensors; names are judged only if every Einsum could be read."""
    einsums = [einsum for _, einsum in read]
    accesses = _accesses(einsums)
    written = {einsum.name for einsum in einsums}
    if not _width(bits):
        yield Fault(("bits",), f"expected a positive integer up to {MAX_BITS}, got {shown(bits)}")
    for name, entry in declared.items():
        if name not in accesses:
            if complete:
                hint = nearest(name, accesses)
                yield Fault(("tensors", name), f"no Einsum uses a tensor of this name{hint}")
        elif entry is not None and not isinstance(entry, Mapping):
            yield Fault(("tensors", name), f"expected a mapping, got {shown(entry)}")
        elif entry is not None:
            yield from _tensor_faults(name, entry, name in written, accesses[name].ranks, accesses)
    for position, einsum in read if complete else ():
        overwritten = einsum.in_place
        if overwritten is None:
            continue
        later = [user for at, user in read if at > position and user.inputs and _reads(user, overwritten)]
        entry = declared.get(overwritten)
        output = isinstance(entry, Mapping) and entry.get("role") == "output"
        if later or output:
            message = f"{overwritten} is still needed after {einsum.name} and cannot be overwritten"
            yield Fault(("einsums", position, "in_place"), message)


def _reads(einsum: Einsum, tensor: str) -> bool:
    return any(access.tensor == tensor for access in einsum.inputs)


def _width(bits: object) -> bool:
    return isinstance(bits, int) and not isinstance(bits, bool) and 1 <= bits <= MAX_BITS


def _generation_faults(
    ranks: Mapping[str, int], einsums: Sequence[Einsum], generational: tuple[str, str] | None
) -> Iterator[Fault]:
    if generational is None:
        return
    rank, state = generational
    path = ("generational",)
    if rank not in ranks:
        yield Fault((*path, "rank"), f"unknown rank '{rank}'{nearest(rank, ranks)}")
    written = [einsum.name for einsum in einsums]
    if state not in written:
        yield Fault((*path, "state"), f"no Einsum writes a tensor '{state}'{nearest(state, written)}")


def _tensor_faults(
    name: str, entry: Mapping[str, Any], written: bool, ranks: Sequence[str], known: Iterable[str]
) -> Iterator[Fault]:
    path = ("tensors", name)
    for key in entry:
        if key not in TENSOR_KEYS:
            yield Fault((*path, key), f"unknown key{nearest(str(key), TENSOR_KEYS)}")
    if not _width(entry.get("bits", 1)):
        message = f"expected a positive integer up to {MAX_BITS}, got {shown(entry['bits'])}"
        yield Fault((*path, "bits"), message)
    role = entry.get("role")
    if role is not None and role not in get_args(Role):
        yield Fault(
            (*path, "role"),
            f"expected one of {', '.join(get_args(Role))}, got {role!r}{nearest(str(role), get_args(Role))}",
        )
    elif role in ("input", "weight") and written:
        yield Fault((*path, "role"), f"{name} is written by an Einsum, so its role cannot be {role}")
    elif role in ("output", "intermediate") and not written:
        yield Fault((*path, "role"), f"no Einsum writes {name}, so its role cannot be {role}")
    for key in ("row", "online"):
        if entry.get(key) is not None and entry[key] not in ranks:
            yield Fault((*path, key), f"expected a rank of {name} ({', '.join(ranks)}), got {entry[key]!r}")
    corrects = entry.get("corrects")
    if corrects is not None and corrects not in list(known):
        message = f"unknown tensor {shown(corrects)}{nearest(str(corrects), known)}"
        yield Fault((*path, "corrects"), message)


def _extent(index: Index, ranks: Mapping[str, int]) -> int:
    """Extent of one dimension of a tensor: the span of its index map."""
    if not index.terms:
        return 1
    return 1 + sum(abs(c) * (ranks[rank] - 1) for rank, c in index.terms)


def _barriers(cascade: Cascade) -> Iterator[Barrier]:
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
