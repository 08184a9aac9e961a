"""What becomes of each tensor under a mapping, and what that saves.

A tensor is *fused* if its producer and readers use one buffer of it on chip, *shared* if several readers
take it from one fetch; everything else moves between DRAM and the buffer for each of its users.

What a fate saves is held against the same mapping without it:

- a fused tensor, against going through DRAM in full, once for its write and once for each fused reader:
  `|X|` values read per fused reader, and `|X|` written unless it is written out anyway;
- a shared tensor, against a fetch for every reader at the same residency: as many values as its one fetch
  moves, for each further reader.

The energy is that of these transfers at both ends, DRAM and the level behind it. Operations that a fate
costs on top (points computed again, partial results rescaled for an online softmax) stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate
from exactile.formulation.cost import Cost, Traffic
from exactile.formulation.mapping import Buffer, Mapping
from exactile.formulation.mapping_tree import contents
from exactile.formulation.problem import Problem

FateKind = Literal["fused", "fused and written", "shared", "through DRAM", "from DRAM", "to DRAM"]


@dataclass(frozen=True, slots=True)
class Shared:
    """One fetch for several readers; groups are numbered from 1, in execution order."""

    group: int
    readers: tuple[str, ...]


@dataclass(frozen=True)
class Fate:
    """What becomes of one tensor; groups are numbered from 1, in execution order.

    `written_in`: the group of its producer, `None` for an input. `fused`: the readers that take it from
    the producer's buffer. `read_in`: the groups that read it from DRAM. `overwrites`: the tensor whose
    place it takes on chip. `moved`: values read from and written to DRAM. `saved_bytes` and
    `saved_energy` (in the machine's unit): see the module. `extra_operations`: spent on computing it
    again, or on rescaling it.
    """

    tensor: str
    kind: FateKind
    written_in: int | None
    fused: tuple[str, ...]
    read_in: tuple[int, ...]
    shared: tuple[Shared, ...]
    overwrites: str | None
    moved: Traffic
    dram_bytes: Fraction
    saved_bytes: Fraction
    saved_energy: Fraction
    extra_operations: Fraction


def fates(problem: Problem, mapping: Mapping, cost: Cost | None = None) -> tuple[Fate, ...]:
    """The fate of every tensor, in the order of their first use.

    `cost` is that of the mapping, if it is known already. The DRAM bytes of all tensors add up to the
    DRAM traffic of the mapping, which must be legal.
    """
    known = evaluate(problem.cascade, problem.hardware, mapping) if cost is None else cost
    judge = _Judge(problem, mapping, known)
    return tuple(judge.fate(tensor) for tensor in _in_order_of_use(problem.cascade, mapping))


def _in_order_of_use(cascade: Cascade, mapping: Mapping) -> Iterable[str]:
    einsums = [cascade.by_name[name] for group in mapping.groups for name in group.order]
    return dict.fromkeys(a.tensor for einsum in einsums for a in (*einsum.inputs, einsum.output))


@dataclass(frozen=True)
class _Judge:
    """Looks up what the mapping does with a tensor."""

    problem: Problem
    mapping: Mapping
    cost: Cost

    @cached_property
    def group_of(self) -> dict[str, int]:
        """The number of the group of every Einsum."""
        return {name: at for at, group in enumerate(self.mapping.groups, 1) for name in group.order}

    @cached_property
    def places(self) -> list[tuple[int, Buffer, tuple[str, ...]]]:
        """Every buffer behind DRAM: its group, and the tensors that it holds one after the other."""
        cascade = self.problem.cascade
        return [
            (at, buffer, contents(buffer, group.buffers, cascade))
            for at, group in enumerate(self.mapping.groups, 1)
            for buffer in group.buffers
        ]

    def fate(self, tensor: str) -> Fate:
        cascade = self.problem.cascade
        readers = {einsum.name for einsum in cascade.consumers[tensor]}
        fused, overwrites = self._home(tensor, readers)
        shared = tuple(self._shared(tensor, readers))
        moved = self._moved(tensor, 0)
        bits = cascade.tensors[tensor].bits
        saved = self._saved(tensor, fused, shared, written=moved.writes > 0)
        written_in = self.group_of.get(tensor)
        return Fate(
            tensor,
            _kind(written_in is not None, bool(readers), fused, shared, moved),
            written_in,
            fused,
            tuple(sorted({self.group_of[name] for name in readers.difference(fused)})),
            shared,
            overwrites,
            moved,
            Fraction((moved.reads + moved.writes) * bits, 8),
            Fraction(sum(at_dram.reads + at_dram.writes for at_dram, _ in saved) * bits, 8),
            self._energy(bits, saved),
            self._extra(tensor),
        )

    def _home(self, tensor: str, readers: set[str]) -> tuple[tuple[str, ...], str | None]:
        """Readers from the producer's own buffer, and the tensor that stood there before."""
        for _, buffer, held in self.places:
            if tensor in held and tensor in buffer.users:
                before = self.problem.cascade.by_name[tensor].in_place if tensor != buffer.tensor else None
                return tuple(user for user in buffer.users if user in readers), before
        return (), None

    def _shared(self, tensor: str, readers: set[str]) -> Iterator[Shared]:
        for at, buffer, _ in self.places:
            if buffer.tensor == tensor and tensor not in buffer.users:
                served = tuple(user for user in buffer.users if user in readers)
                if len(served) > 1:
                    yield Shared(at, served)

    def _moved(self, tensor: str, level: int, einsum: str | None = None) -> Traffic:
        """Values of a tensor moved at a level, for one Einsum or for all."""
        name = self.problem.hardware.levels[level].name
        found = [
            moved
            for group in self.cost.groups
            for (at, user, what), moved in group.traffic.items()
            if (at, what) == (name, tensor) and einsum in (None, user)
        ]
        return sum(found, Traffic())

    def _saved(
        self, tensor: str, fused: tuple[str, ...], shared: tuple[Shared, ...], written: bool
    ) -> list[tuple[Traffic, Traffic]]:
        """Transfers spared, each as what DRAM and what the level behind it would move."""
        values = self.problem.cascade.tensors[tensor].size
        read, write = values * len(fused), values if fused and not written else 0
        spared = [(Traffic(read, write), Traffic(write, read))]
        for fetch in shared:
            further, first = len(fetch.readers) - 1, fetch.readers[0]
            reads = self._moved(tensor, 0, first).reads
            fills = self._moved(tensor, 1, first).writes
            spared.append((Traffic(further * reads, 0), Traffic(0, further * fills)))
        return spared

    def _energy(self, bits: int, saved: list[tuple[Traffic, Traffic]]) -> Fraction:
        total = Fraction(0)
        for transfer in saved:
            for level, moved in zip(self.problem.hardware.levels, transfer, strict=False):
                for count, rate in ((moved.reads, level.read_energy), (moved.writes, level.write_energy)):
                    total += count * rate.weight(bits) * rate.amount
        return total

    def _extra(self, tensor: str) -> Fraction:
        cascade = self.problem.cascade
        if tensor not in cascade.by_name:
            return Fraction(0)
        executed = sum(group.executions.get(tensor, 0) for group in self.cost.groups)
        corrected = sum(group.corrections.get(tensor, 0) for group in self.cost.groups)
        einsum = cascade.by_name[tensor]
        again = executed - cascade.points(einsum)
        return again * sum(einsum.cost.values(), Fraction(0)) + corrected


def _kind(
    written: bool, read: bool, fused: tuple[str, ...], shared: tuple[Shared, ...], moved: Traffic
) -> FateKind:
    if not written:
        return "shared" if shared else "from DRAM"
    if fused:
        return "fused and written" if moved.writes else "fused"
    return "through DRAM" if read else "to DRAM"
