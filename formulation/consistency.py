"""Do cascade, machine and mapspace fit each other? Every contradiction that can be told without a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from exactile.formulation.cascade import Cascade
from exactile.formulation.einsum import Role
from exactile.formulation.faults import Fault, nearest
from exactile.formulation.hardware import Hardware
from exactile.formulation.problem import OBJECTIVES, QUANTITIES, Mapspace, Objective, Problem
from exactile.formulation.units import NoUnitError, candidates, correction_unit

ROLES: tuple[Role, ...] = ("input", "weight", "output", "intermediate", "state")


def problem_faults(problem: Problem) -> list[Fault]:
    """Everything that does not fit, with paths such as `mapspace.tiles.m`.

    For problems built in Python too: names of quantities and options are judged as a file's are.
    """
    return [
        *_option_faults(problem.objective, problem.mapspace),
        *misfits(problem.cascade, problem.hardware, problem.mapspace),
    ]


def misfits(cascade: Cascade, hardware: Hardware | None, mapspace: Mapspace | None) -> list[Fault]:
    """The same of the parts that are there: a broken part does not hide the faults of the others."""
    faults: list[Fault] = []
    if hardware is not None:
        faults += [*_unit_faults(cascade, hardware), *_holds_faults(cascade, hardware)]
    if mapspace is not None:
        faults += [*_pin_faults(cascade, mapspace), *_fusion_faults(cascade, mapspace)]
    return faults


def _option_faults(objective: Objective, mapspace: Mapspace) -> Iterator[Fault]:
    yield from _unknown([objective.minimize], OBJECTIVES, ("objective", "minimize"), "objective")
    yield from _unknown(objective.then, QUANTITIES, ("objective", "then"), "quantity")
    yield from _unknown(objective.subject_to, QUANTITIES, ("objective", "subject_to"), "quantity")
    yield from _unknown([mapspace.tile_sizes], ("divisors", "all"), ("mapspace", "tile_sizes"), "value")
    yield from _unknown([mapspace.order], ("search", "given"), ("mapspace", "order"), "value")
    if isinstance(mapspace.fusion, str):
        yield from _unknown([mapspace.fusion], ("free", "none"), ("mapspace", "fusion"), "value")


def _unit_faults(cascade: Cascade, hardware: Hardware) -> Iterator[Fault]:
    """Einsums that no unit can run, and online statistics that nothing can rescale."""
    units = [unit.name for unit in hardware.compute]
    for position, einsum in enumerate(cascade.einsums):
        path = ("workload", "einsums", position)
        if einsum.unit is not None and einsum.unit not in units:
            hint = nearest(str(einsum.unit), units) or f"; {hardware.name} has {', '.join(units)}"
            yield Fault((*path, "unit"), f"unknown unit '{einsum.unit}'{hint}")
            continue
        try:
            candidates(hardware, einsum)
        except NoUnitError as error:
            yield Fault(path, str(error))
    if any(barrier.mode == "online" for barrier in cascade.barriers):
        try:
            correction_unit(hardware)
        except NoUnitError as error:
            yield Fault(("hardware", "compute"), str(error))


def _holds_faults(cascade: Cascade, hardware: Hardware) -> Iterator[Fault]:
    """A name in `holds` that is nearly a role or a tensor is a slip; others may be for another workload."""
    known = (*ROLES, *cascade.tensors)
    for position, level in enumerate(hardware.levels):
        for name in sorted(level.holds or ()):
            if name not in known and (hint := nearest(name, known)):
                yield Fault(
                    ("hardware", "levels", position, "holds"),
                    f"no role and no tensor is called '{name}'{hint}",
                )


def _unknown(names: Iterable[str], known: Iterable[str], path: tuple[str, ...], what: str) -> Iterator[Fault]:
    known = list(known)
    for name in names:
        if name not in known:
            hint = nearest(name, known) or f"; there are {', '.join(known)}"
            yield Fault(path, f"unknown {what} '{name}'{hint}")


def _pin_faults(cascade: Cascade, mapspace: Mapspace) -> Iterator[Fault]:
    for einsum, order in mapspace.orders.items():
        path = ("mapspace", "orders", einsum)
        yield from _unknown([einsum], cascade.by_name, path, "Einsum")
        yield from _unknown(order, cascade.ranks, path, "rank")
        if einsum in cascade.by_name and set(order) <= set(cascade.ranks):
            yield from _order_faults(cascade, mapspace, einsum, order)
    for tensor, ranks in mapspace.residency.items():
        path = ("mapspace", "residency", tensor)
        yield from _unknown([tensor], cascade.tensors, path, "tensor")
        yield from _unknown(sorted(ranks), cascade.ranks, path, "rank")
        if tensor in cascade.tensors and not mapspace.recomputation:
            yield from _foreign_faults(cascade, tensor, ranks, path)
    for rank, tile in mapspace.tiles.items():
        path = ("mapspace", "tiles", rank)
        yield from _unknown([rank], cascade.ranks, path, "rank")
        extent = cascade.ranks.get(rank, tile)
        if not 1 <= tile <= extent:
            yield Fault(path, f"expected a tile from 1 to the extent of {rank} ({extent}), got {tile}")
        elif extent % tile and mapspace.tile_sizes == "divisors":
            yield Fault(
                path, f"{tile} does not divide the extent of {rank} ({extent}), but tile_sizes is divisors"
            )


def _order_faults(cascade: Cascade, mapspace: Mapspace, name: str, order: tuple[str, ...]) -> Iterator[Fault]:
    """An order names every rank of its Einsum once; others only where recomputation may bring them in."""
    path = ("mapspace", "orders", name)
    ranks = cascade.by_name[name].ranks
    twice = sorted({rank for rank in order if order.count(rank) > 1})
    missing = [rank for rank in ranks if rank not in order and cascade.ranks[rank] > 1]
    foreign = [rank for rank in order if rank not in ranks]
    if twice:
        yield Fault(path, f"rank {twice[0]} stands twice in the order")
    if missing:
        yield Fault(
            path,
            f"expected every rank of {name} ({', '.join(ranks)}) in the order, {', '.join(missing)} missing",
        )
    if foreign and (not mapspace.recomputation or mapspace.fusion == "none"):
        why = "fusion is none" if mapspace.fusion == "none" else "recomputation is off"
        yield Fault(path, f"{foreign[0]} is no rank of {name} ({', '.join(ranks)}), and {why}")


def _foreign_faults(
    cascade: Cascade, tensor: str, ranks: frozenset[str], path: tuple[str, ...]
) -> Iterator[Fault]:
    """A loop that is no rank of any user re-executes all of them."""
    users = [einsum for einsum in cascade.einsums if tensor in _tensors(cascade, einsum.name)]
    own = {rank for user in users for rank in user.ranks}
    for rank in sorted(ranks - own):
        if cascade.ranks.get(rank, 1) > 1:
            names = ", ".join(user.name for user in users)
            yield Fault(path, f"{rank} is no rank of a user of {tensor} ({names}), and recomputation is off")


def _fusion_faults(cascade: Cascade, mapspace: Mapspace) -> Iterator[Fault]:
    """Pinned groups: every Einsum once, each group connected, all in an execution order."""
    if isinstance(mapspace.fusion, str):
        return
    path = ("mapspace", "fusion")
    listed = [einsum for group in mapspace.fusion for einsum in group]
    unknown = list(_unknown(listed, cascade.by_name, path, "Einsum"))
    yield from unknown
    for einsum in dict.fromkeys(listed):
        if listed.count(einsum) > 1:
            yield Fault(path, f"Einsum {einsum} is listed twice")
    missing = [einsum for einsum in cascade.by_name if einsum not in listed]
    if missing:
        yield Fault(
            path,
            f"Einsum {', '.join(missing)} in no group (an unfused one is a group of its own: [{missing[0]}])",
        )
    if unknown or missing or len(set(listed)) < len(listed):
        return
    yield from _sequence_faults(cascade, mapspace, listed)
    for position, group in enumerate(mapspace.fusion):
        where = (*path, position)
        apart = _unconnected(cascade, mapspace, group)
        if apart:
            names = f"[{', '.join(group)}] is not connected: {', '.join(apart)}"
            yield Fault(where, f"the group {names} and the rest share no tensor that may be fused")
        if not mapspace.fused_outputs:
            yield from _leaving(cascade, group, where)


def _sequence_faults(cascade: Cascade, mapspace: Mapspace, listed: list[str]) -> Iterator[Fault]:
    place = {einsum: position for position, einsum in enumerate(listed)}
    path = ("mapspace", "fusion")
    for einsum in cascade.einsums:
        for access in einsum.inputs:
            if place.get(access.tensor, -1) > place[einsum.name] and access.plain:
                yield Fault(
                    path, f"no execution order: {einsum.name} reads {access.tensor}, which is listed after it"
                )
    written = {name: position for position, name in enumerate(cascade.by_name)}
    if mapspace.order == "given":
        for group in mapspace.fusion:
            if sorted(group, key=written.__getitem__) != list(group):
                yield Fault(path, f"order is given, but [{', '.join(group)}] is not in the written order")


def _unconnected(cascade: Cascade, mapspace: Mapspace, group: tuple[str, ...]) -> list[str]:
    """The members that no chain of shareable tensors joins to the first one."""
    reached, front = {group[0]} if group else set(), list(group[:1])
    while front:
        here = front.pop()
        for other in group:
            if other not in reached and _shareable(cascade, mapspace, here, other):
                reached.add(other)
                front.append(other)
    return [einsum for einsum in group if einsum not in reached]


def _shareable(cascade: Cascade, mapspace: Mapspace, one: str, other: str) -> bool:
    """Producer and consumer, or two readers of one tensor where readers may share."""
    common = _tensors(cascade, one) & _tensors(cascade, other)
    return bool(common) if mapspace.shared_inputs else bool(common & {one, other})


def _tensors(cascade: Cascade, name: str) -> set[str]:
    einsum = cascade.by_name[name]
    return {einsum.name, *(access.tensor for access in einsum.inputs)}


def _leaving(cascade: Cascade, group: tuple[str, ...], path: tuple[str | int, ...]) -> Iterator[Fault]:
    """Tensors that would be fused and needed outside, where that is switched off."""
    for one, other in combinations(group, 2):
        if one not in _tensors(cascade, other):
            continue
        outside = [user.name for user in cascade.consumers[one] if user.name not in group]
        if outside or cascade.tensors[one].role == "output":
            needed = f"by {outside[0]}" if outside else "as an output"
            yield Fault(
                path,
                f"{one} is fused in the group but needed outside it ({needed}), and fused_outputs is off",
            )
