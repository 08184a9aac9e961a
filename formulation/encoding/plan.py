"""Plans: the structures of a group arranged so that every Einsum can be scored on its own.

All structures whose shared slots have the same residencies share the same loops; they form one plan.
In it a *skeleton* fixes what sits inside the shared loops (and is live beyond its Einsum). Given a
skeleton and the tiles of the shared loops, the rest of each Einsum (residencies below the shared
loops, tiles of its own loops, use of its unit) is independent of the other Einsums: a tensor that
is live outside its Einsum has only shared loops outside its buffer. So the least cost of a group is

    min over skeletons, shared tiles:  shared cost + Σ_e  min over own rows, own tiles, unit uses

and the enumeration visits a sum instead of a product.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from exactile.formulation.encoding.shape import GroupSpec, Shape
from exactile.formulation.encoding.sharing import Masks, Sharing, live, loops_of, sharing, visited


@dataclass(frozen=True, slots=True)
class Variable:
    """A shared loop: a rank (bit) and the nodes that share it, with one tile for all of them."""

    bit: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """One slot in one row: its residency and the loops that multiply its visits (bit sets)."""

    slot: int
    outside: int
    visits: int


@dataclass(frozen=True, slots=True)
class Row:
    """One choice of residencies of a node's own slots below the shared loops, in one skeleton.

    `own` are those slots; `live` all slots that are live while the node runs.
    """

    skeleton: int
    own: tuple[Term, ...]
    live: tuple[Term, ...]
    sets: tuple[int, ...]


@dataclass(frozen=True)
class NodePlan:
    """What one Einsum adds: `variables` are its shared loops, `private` the ranks of its own loops."""

    node: int
    variables: tuple[int, ...]
    private: tuple[int, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Plan:
    """All structures with the same shared loops. `placed[s]` are the slots inside them in skeleton s."""

    sharing: Sharing
    variables: tuple[Variable, ...]
    placed: tuple[tuple[Term, ...], ...]
    nodes: tuple[NodePlan, ...]


def plans(spec: GroupSpec, structures: Masks) -> list[Plan]:
    """The plans of a group; together they cover exactly `structures` and products of their parts."""
    shape = spec.shape
    shared = [p for p, slot in enumerate(shape.slots) if len(slot.users) > 1]
    by_sharing: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for row in structures.tolist():
        by_sharing.setdefault(tuple(row[p] for p in shared), []).append(tuple(row))
    return [_plan(shape, rows) for rows in by_sharing.values()]


def _plan(shape: Shape, rows: Sequence[tuple[int, ...]]) -> Plan:
    is_shared = [len(slot.users) > 1 for slot in shape.slots]
    found = sharing(shape, [s if many else None for s, many in zip(rows[0], is_shared, strict=True)])
    assert found is not None
    below = [
        tuple(
            not many and found.own[slot.users[0]] & ~s == 0
            for s, slot, many in zip(row, shape.slots, is_shared, strict=True)
        )
        for row in rows
    ]
    skeletons: dict[tuple[int | None, ...], int] = {}
    own_rows: list[dict[tuple[int, tuple[int, ...]], tuple[int, ...]]] = [{} for _ in shape.node_ranks]
    for row, is_below in zip(rows, below, strict=True):
        base = tuple(None if b else s for s, b in zip(row, is_below, strict=True))
        skeleton = skeletons.setdefault(base, len(skeletons))
        for node, ranks in enumerate(own_rows):
            mine = tuple(
                s
                for s, b, slot in zip(row, is_below, shape.slots, strict=True)
                if b and slot.users == (node,)
            )
            ranks.setdefault((skeleton, mine), row)
    variables = tuple(_variables(shape, found))
    placed = []
    for base in skeletons:
        full = tuple(s if s is not None else -1 for s in base)
        placed.append(tuple(_term(shape, found, full, p) for p, s in enumerate(base) if s is not None))
    nodes = tuple(
        _node_plan(shape, found, node, list(own.items()), variables) for node, own in enumerate(own_rows)
    )
    return Plan(found, variables, tuple(placed), nodes)


def _term(shape: Shape, found: Sharing, sets: Sequence[int], position: int) -> Term:
    return Term(position, sets[position], visited(shape, found, sets, position))


def _variables(shape: Shape, found: Sharing) -> Iterable[Variable]:
    """Per rank, the classes of nodes that share its loop."""
    nodes = range(len(shape.node_ranks))
    for bit in range(shape.ranks):
        seen: set[int] = set()
        for e in nodes:
            if e in seen:
                continue
            block = tuple(f for f in nodes if f == e or found.pair[e][f] >> bit & 1)
            seen.update(block)
            if len(block) > 1:
                yield Variable(bit, block)


def _node_plan(
    shape: Shape,
    found: Sharing,
    node: int,
    rows: Sequence[tuple[tuple[int, tuple[int, ...]], tuple[int, ...]]],
    variables: Sequence[Variable],
) -> NodePlan:
    built, loops = [], 0
    for (skeleton, _), row in rows:
        alive = live(shape, found, row, node)
        terms = [_term(shape, found, row, p) for p in range(len(row))]
        own = tuple(
            terms[p]
            for p, slot in enumerate(shape.slots)
            if slot.users == (node,) and found.own[node] & ~row[p] == 0
        )
        built.append(Row(skeleton, own, tuple(t for t in terms if alive >> t.slot & 1), row))
        loops |= loops_of(shape, found, row, node)
    private = loops & ~found.own[node]
    return NodePlan(
        node,
        tuple(v for v, variable in enumerate(variables) if node in variable.nodes),
        tuple(bit for bit in range(shape.ranks) if private >> bit & 1),
        tuple(built),
    )
