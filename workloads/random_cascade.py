"""Random cascades: small connected DAGs of Einsums, the same one for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from exactile.workloads.arguments import Count, Flag, Name, Seed, Spec, builder, cascade_builder

EXTENTS = (1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16)
FUNCTIONS = ("relu", "exp", "silu", "square")
MOST_RANKS = 4  # of one Einsum

Ranks = tuple[str, ...]


@builder
def random_spec(
    seed: Seed,
    einsums: Count = 4,
    largest: Count = 8,
    renamed: Flag = False,
    bits: Count = 8,
    name: Name | None = None,
) -> Spec:
    """So many Einsums over three to six ranks of extents up to `largest`, primes and 1 among them.

    Products of two tensors and elementwise functions, each reducing no, one or two ranks, by sum or maximum.
    Every Einsum reads something that an earlier one wrote or read: chains, skips, several readers of one
    tensor or input. Some elementwise results overwrite their input, some tensors are outputs besides being
    read, some are twice as wide. `renamed`: some are read through another rank of the same extent.
    """
    draft = _Draft(random.Random(seed), largest, renamed)
    for _ in range(einsums):
        draft.step()
    return {"name": name or f"random-{seed}", "bits": bits, **draft.finished(bits)}


random_cascade = cascade_builder(random_spec)


@dataclass
class _Draft:
    """A cascade under construction: the ranks of its tensors, and the Einsums so far."""

    rng: random.Random
    largest: int
    renamed: bool
    extents: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, Ranks] = field(default_factory=dict)
    made: dict[str, Ranks] = field(default_factory=dict)
    einsums: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        sizes = [extent for extent in EXTENTS if extent <= self.largest]
        self.extents = {rank: self.rng.choice(sizes) for rank in "abcdef"[: self.rng.randint(3, 6)]}

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def step(self) -> None:
        """One more Einsum."""
        source, ranks = self._source()
        if self.chance(0.7):
            other, others = self._partner(source, ranks)
            self._product(source, ranks, other, others)
        else:
            self._unary(source, ranks)

    def _source(self) -> tuple[str, Ranks]:
        """What an Einsum reads: mostly the last result, sometimes an earlier one or an input in use."""
        if not self.made:
            return self._input(self._some(self.extents, 1, 3))
        known = self.made if self.chance(0.85) else self.inputs
        tensor = list(known)[-1] if self.chance(0.65) else self.rng.choice(list(known))
        return tensor, self._through(known[tensor])

    def _partner(self, source: str, ranks: Ranks) -> tuple[str, Ranks]:
        """The other factor: a tensor that is there (a skip, a shared input), or a new input."""
        known = {tensor: self._through(own) for tensor, own in (self.inputs | self.made).items()}
        fitting = [t for t in known if t != source and len({*ranks, *known[t]}) <= MOST_RANKS]
        if fitting and self.chance(0.4):
            other = self.rng.choice(fitting)
            return other, known[other]
        new = [rank for rank in self.extents if rank not in ranks][: MOST_RANKS - len(ranks)]
        return self._input(
            (*self._some(ranks, min(1, len(ranks)), 2), *self._some(new, int(self.chance(0.7)), 1))
        )

    def _input(self, ranks: Ranks) -> tuple[str, Ranks]:
        tensor = f"I{len(self.inputs)}"
        self.inputs[tensor] = ranks
        return tensor, ranks

    def _some(self, ranks: Any, least: int, most: int) -> Ranks:
        """A few of the ranks, in any order."""
        pool = list(ranks)
        return tuple(self.rng.sample(pool, min(len(pool), self.rng.randint(least, most))))

    def _through(self, ranks: Ranks) -> Ranks:
        """The index map of a read: the ranks themselves, or one of them exchanged for an equal one."""
        rank = self.rng.choice(ranks) if ranks else None
        equal = [r for r in self.extents if rank and r not in ranks and self.extents[r] == self.extents[rank]]
        if not self.renamed or not equal or not self.chance(0.4):
            return ranks
        other = self.rng.choice(equal)
        return tuple(other if r == rank else r for r in ranks)

    def _product(self, source: str, ranks: Ranks, other: str, others: Ranks) -> None:
        union = tuple(dict.fromkeys((*ranks, *others)))
        reduced = self._reduced(union, 2) if self.chance(0.8) else ()
        symbol = "*" if reduced else self.rng.choice("**+-")
        self._add(source, f"{_access(source, ranks)} {symbol} {_access(other, others)}", union, reduced)

    def _unary(self, source: str, ranks: Ranks) -> None:
        reduced = self._reduced(ranks, 1) if self.chance(0.4) else ()
        largest = bool(reduced) and self.chance(0.4)
        function = "max" if largest else self.rng.choice(FUNCTIONS)
        keys = {"reduce": "max"} if largest else {}
        self._add(source, f"{function}({_access(source, ranks)})", ranks, reduced, **keys)

    def _reduced(self, ranks: Ranks, most: int) -> Ranks:
        """Some ranks to reduce, seldom all of them: little can follow a scalar."""
        reduced = self._some(ranks, 1, most)
        return () if len(reduced) == len(ranks) and self.chance(0.8) else reduced

    def _add(self, source: str, right: str, ranks: Ranks, reduced: Ranks, **keys: Any) -> None:
        """The Einsum; it may overwrite its source if that is elementwise."""
        tensor = f"T{len(self.made)}"
        elementwise = not reduced and self.made.get(source) == ranks and _access(source, ranks) in right
        if elementwise and self.chance(0.6):
            keys["in_place"] = source
        kept = tuple(rank for rank in ranks if rank not in reduced)
        self.made[tensor] = kept
        self.einsums.append({"einsum": f"{_access(tensor, kept)} = {right}", **keys})

    def finished(self, bits: int) -> dict[str, Any]:
        """The Einsums, the ranks in use, widths and further outputs; nothing overwritten is needed later."""
        reads = [entry["einsum"].split(" = ")[1] for entry in self.einsums]
        for i, entry in enumerate(self.einsums):
            if any(_mentions(read, entry.get("in_place")) for read in reads[i + 1 :]):
                del entry["in_place"]
        overwritten = {entry.get("in_place") for entry in self.einsums}
        tensors: dict[str, dict[str, Any]] = {}
        for tensor in (*self.inputs, *self.made):
            if self.chance(0.2):
                tensors.setdefault(tensor, {})["bits"] = 2 * bits
            if tensor in self.made and tensor not in overwritten and self.chance(0.12):
                tensors.setdefault(tensor, {})["role"] = "output"
        text = " ".join(entry["einsum"] for entry in self.einsums)
        ranks = {rank: extent for rank, extent in self.extents.items() if _used(text, rank)}
        return {"ranks": ranks, "einsums": self.einsums, "tensors": tensors}


def _access(tensor: str, ranks: Ranks) -> str:
    return f"{tensor}[{','.join(ranks)}]" if ranks else tensor


def _mentions(text: str, tensor: str | None) -> bool:
    return tensor in text.replace("[", " ").replace("(", " ").replace(")", " ").split() if tensor else False


def _used(text: str, rank: str) -> bool:
    return any(rank in part.split("]")[0].split(",") for part in text.split("[")[1:])
