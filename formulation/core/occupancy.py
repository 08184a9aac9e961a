"""Who fills a level: the tensors that live while one Einsum runs, for messages and reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exactile.formulation.cascade import Cascade
from exactile.formulation.core.facts import Facts, facts_of
from exactile.formulation.core.footprint import live_sets
from exactile.formulation.core.tree import Tree, tree_of
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Group, Mapping


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What lives at a level while an Einsum runs: per tensor its bits, in the order of the buffers."""

    level: str
    group: tuple[str, ...]
    einsum: str
    tensors: tuple[tuple[str, int], ...]

    @property
    def bits(self) -> int:
        return sum(bits for _, bits in self.tensors)

    def __str__(self) -> str:
        parts = ", ".join(f"{tensor} {size(bits)}" for tensor, bits in self.tensors)
        return f"{size(self.bits)} B while {self.einsum} runs ({parts})"


def size(bits: int) -> str:
    """Bytes of a number of bits, thousands apart, with eighths where they are not whole."""
    whole, rest = divmod(bits, 8)
    return f"{whole:,}".replace(",", " ") + (f"{rest / 8:.3f}".rstrip("0")[1:] if rest else "")


def occupancies(cascade: Cascade, hardware: Hardware, mapping: Mapping) -> tuple[Occupancy, ...]:
    """What lives at every level while every Einsum runs. The mapping must be legal but for its capacity."""
    facts = facts_of(cascade, hardware)
    return tuple(item for group in mapping.groups for item in group_occupancies(facts, group))


def fullest(cascade: Cascade, hardware: Hardware, mapping: Mapping) -> dict[str, Occupancy]:
    """The fullest moment of every level behind the outermost."""
    found: dict[str, Occupancy] = {}
    for item in occupancies(cascade, hardware, mapping):
        if item.level not in found or item.bits > found[item.level].bits:
            found[item.level] = item
    return found


def group_occupancies(facts: Facts, group: Group) -> Iterator[Occupancy]:
    """The same for one group."""
    tree = tree_of(facts, group, facts.cascade.ranks)
    yield from _way(facts, [tree], group)


def _way(facts: Facts, way: list[Tree], group: Group) -> Iterator[Occupancy]:
    level = facts.hardware.levels[len(way)].name
    tree = way[-1]
    for einsum, tensors in live_sets(facts, way).items():
        yield Occupancy(level, group.order, einsum, tensors)
        inner = tree.group.inner[einsum]
        if isinstance(inner, Group):
            yield from _way(facts, [*way, tree_of(facts, inner, tree.nests[einsum].tile)], group)
