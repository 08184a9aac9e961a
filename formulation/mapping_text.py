"""A mapping drawn as loop trees, one per fused group.

    for h in 12 × 1
    └─ for m in 8 × 64
       ├─ ▸ Q[h 1, m 64, e 64]       4 KiB  from DRAM
       └─ for n in 4 × 128
          ├─ ▸ S[h 1, m 64, n 128]   8 KiB  stays in GLB
          ├─ S[h,m,n] = Q[h,m,e] * K[h,n,e]  array, weight_stationary

A line is a list of `(text, kind)` spans, so that a front may colour what it prints; `plain` joins
them. Without a cascade the drawing is structural: no extents, so no trip counts and no sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Map
from dataclasses import dataclass
from math import prod
from typing import Literal

from exactile.formulation.cascade import Cascade
from exactile.formulation.equation_text import equation
from exactile.formulation.hardware import Hardware, Level
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.mapping_tree import Leaf, Node, Tree, build, contents
from exactile.formulation.quantity_text import size

Kind = Literal["title", "guide", "loop", "buffer", "einsum", "detail", "number", "good", "bad", "plain"]
Span = tuple[str, Kind]
Line = list[Span]

# a note that would reach further stands on a line of its own
WIDTH = 100


def plain(lines: Iterable[Line]) -> str:
    """The lines as one text without colours."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def draw(mapping: Mapping, cascade: Cascade | None = None, hardware: Hardware | None = None) -> list[Line]:
    """The loop trees of all groups, a title above each."""
    lines: list[Line] = []
    for number, group in enumerate(mapping.groups, 1):
        lines += [[]] if lines else []
        lines.append([(group_title(number, len(mapping.groups), group), "title")])
        lines += draw_group(group, cascade, hardware)
    if mapping.kept_between_groups:
        kept = ", ".join(mapping.kept_between_groups)
        lines += [[], [(f"kept on chip between groups: {kept}", "detail")]]
    return lines


def group_title(number: int, count: int, group: Group) -> str:
    """`Group 1 of 2: S, P, O fused`; the number only if there are several groups."""
    where = f"Group {number} of {count}" if count > 1 else "Group"
    return f"{where}: {', '.join(group.order)}{' fused' if len(group.order) > 1 else ''}"


def draw_group(group: Group, cascade: Cascade | None = None, hardware: Hardware | None = None) -> list[Line]:
    """The loop tree of one fused group; inner boundaries are nested below their Einsums."""
    drawing = _Drawing(cascade, hardware)
    extents = dict.fromkeys(group.order, cascade.ranks) if cascade is not None else {}
    return _aligned(list(drawing.group(group, extents, 0, "")))


def loop_text(loop: Loop, parent: int | None) -> str:
    """`m in 8 × 64 (last 61)`, or `m in steps of 64` if the extent is unknown."""
    if parent is None:
        return f"{loop.rank} in steps of {loop.tile}"
    trips = -(-parent // loop.tile)
    last = parent - (trips - 1) * loop.tile
    return f"{loop.rank} in {trips} × {loop.tile}" + (f" (last {last})" if last != loop.tile else "")


def unit_text(mapping: UnitMapping) -> str:
    """`array, weight_stationary, m 4 × n 8 over rows`: the unit and how it is used."""
    parts = [mapping.unit]
    if mapping.dataflow:
        parts.append(mapping.dataflow + (" transposed" if mapping.transposed else ""))
    spread: dict[str, list[str]] = {}
    for rank, factors in mapping.spatial.items():
        for dim, factor in factors.items():
            if factor > 1:
                spread.setdefault(dim, []).append(f"{rank} {factor}")
    parts += [f"{' × '.join(ranks)} over {dim}" for dim, ranks in spread.items()]
    if mapping.order:
        parts.append(f"steps {' '.join(mapping.order)}")
    return ", ".join(parts)


@dataclass(frozen=True)
class _Row:
    """One line before its columns are aligned; `below` is the guide under an Einsum, for a note too long."""

    guide: str
    what: tuple[Span, ...]
    size: str = ""
    note: str = ""
    below: str | None = None

    @property
    def width(self) -> int:
        return len(self.guide) + sum(len(text) for text, _ in self.what)


@dataclass(frozen=True)
class _Drawing:
    """The facts that the rows need beyond the tree itself; `None` where they are not known."""

    cascade: Cascade | None
    hardware: Hardware | None

    def group(
        self, group: Group, extents: Map[str, Map[str, int]], boundary: int, guide: str
    ) -> Iterable[_Row]:
        known = self.cascade.by_name if self.cascade is not None else {}
        tree = build(group, extents, {e: frozenset(known[e].ranks) for e in group.order if e in known})
        return self._body(tree.root, group, tree, boundary, guide, outermost=boundary == 0)

    def _body(
        self, node: Node, group: Group, tree: Tree, boundary: int, guide: str, outermost: bool = False
    ) -> Iterable[_Row]:
        for position, item in enumerate(node.body):
            last = position == len(node.body) - 1
            here = guide if outermost else guide + ("└─ " if last else "├─ ")
            below = guide if outermost else guide + ("   " if last else "│  ")
            match item:
                case Buffer():
                    yield self._buffer(item, tree, boundary, here)
                case Node(loop=Loop() as loop):
                    yield _Row(here, (("for ", "plain"), (loop_text(loop, item.parent), "loop")))
                    yield from self._body(item, group, tree, boundary, below)
                case Leaf():
                    yield from self._leaf(item, group, tree, boundary, here, below)

    def _buffer(self, buffer: Buffer, tree: Tree, boundary: int, guide: str) -> _Row:
        outer, inner = self._level(boundary), self._level(boundary + 1)
        note = self._residence(
            buffer, tree, outer.name if outer else "outside", f"in {inner.name}" if inner else "on chip"
        )
        shape = self._shape(buffer, tree)
        name: Span = (f"▸ {buffer.tensor}", "buffer")
        if shape is None:
            return _Row(guide, (name,), "", note)
        bits = self._bits(buffer, tree) * prod(shape.values())
        if inner is not None and inner.double_buffer and buffer.outside:
            bits, note = 2 * bits, f"{note}, double-buffered"
        extents = ", ".join(f"{rank} {extent}" for rank, extent in shape.items())
        return _Row(guide, (name, (f"[{extents}]", "detail")), size(bits), note)

    def _leaf(
        self, leaf: Leaf, group: Group, tree: Tree, boundary: int, guide: str, below: str
    ) -> Iterable[_Row]:
        e, inner = leaf.einsum, group.inner.get(leaf.einsum)
        known = self.cascade is not None and e in self.cascade.by_name
        text = equation(self.cascade.by_name[e]) if self.cascade is not None and known else e
        notes = [unit_text(inner)] if isinstance(inner, UnitMapping) else []
        notes += [f"in place of {b.tensor}" for b in tree.buffers if e in self._contents(b, tree)[1:]]
        if leaf.recomputed > 1:
            notes.append(f"recomputed {leaf.recomputed} times")
        yield _Row(guide, ((text, "einsum"),), "", ", ".join(notes), below)
        if isinstance(inner, Group):
            yield from self.group(inner, {e: leaf.tile}, boundary + 1, below)

    def _level(self, number: int) -> Level | None:
        levels = self.hardware.levels if self.hardware is not None else ()
        return levels[number] if number < len(levels) else None

    def _residence(self, buffer: Buffer, tree: Tree, outer: str, inner: str) -> str:
        """Where the data come from or go to; a tensor bears the name of the Einsum that writes it."""
        if buffer.tensor not in buffer.users:
            readers = f" for {', '.join(buffer.users)}" if len(buffer.users) > 1 else ""
            return f"from {outer}{readers}"
        if len(buffer.users) == 1:
            return f"to {outer}"
        leaving = "".join(
            f", {'and' if name == buffer.tensor else f'then {name}'} to {outer}"
            for name in self._contents(buffer, tree)
            if self._leaves(name, buffer)
        )
        return f"stays {inner}{leaving}"

    def _leaves(self, tensor: str, buffer: Buffer) -> bool:
        """Whether a tensor of this buffer is also needed outside its group."""
        if self.cascade is None or tensor not in self.cascade.tensors:
            return False
        readers = self.cascade.consumers[tensor]
        return self.cascade.tensors[tensor].role == "output" or any(
            reader.name not in buffer.users for reader in readers
        )

    def _contents(self, buffer: Buffer, tree: Tree) -> tuple[str, ...]:
        """The tensors that the buffer holds one after the other."""
        return (buffer.tensor,) if self.cascade is None else contents(buffer, tree.buffers, self.cascade)

    def _shape(self, buffer: Buffer, tree: Tree) -> dict[str, int] | None:
        """The tile held: the loop's tile for ranks outside the buffer, the whole block for the others."""
        user = buffer.users[0]
        found = self.cascade.by_name.get(user) if self.cascade is not None else None
        if found is None or buffer.tensor not in {a.tensor for a in (found.output, *found.inputs)}:
            return None
        inside, whole = tree.tile[user], tree.block[user]
        return {
            r: (inside if r in buffer.outside else whole).get(r, 1)
            for r in found.access_of(buffer.tensor).ranks
        }

    def _bits(self, buffer: Buffer, tree: Tree) -> int:
        """Width of a value; where a tensor is overwritten in place, the larger of the two widths."""
        assert self.cascade is not None
        return max(self.cascade.tensors[name].bits for name in self._contents(buffer, tree))


def _aligned(rows: list[_Row]) -> list[Line]:
    """Sizes and notes of buffers in columns of their own, and so the notes of Einsums."""
    noted = [row for row in rows if row.size or row.note]
    einsums = max((row.width for row in noted if row.below is not None), default=0)
    buffers = max((row.width for row in noted if row.below is None), default=0)
    sizes = max((len(row.size) for row in noted), default=0)
    lines: list[Line] = []
    for row in rows:
        line: Line = [(row.guide, "guide"), *row.what]
        lines.append(line)
        if row.below is None and (row.size or row.note):
            line.append((" " * (buffers - row.width + 2) + row.size.rjust(sizes), "number"))
            line.append((f"  {row.note}", "detail"))
        elif row.below is not None and row.note:
            if einsums + 2 + len(row.note) <= WIDTH:
                line.append((" " * (einsums - row.width + 2) + row.note, "detail"))
            else:
                lines.append([(row.below, "guide"), (f"    {row.note}", "detail")])
    return lines
