"""Random problems on DAGs of two to five Einsums, small enough to try every mapping.

`problem(seed)` is the same for ever: contractions, elementwise Einsums and reductions that take what
earlier ones left or an input (often one that is read already), extents from 1 to 6, a capacity between
the least that any mapping needs and all there is, and now and then a restricted mapspace.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim
from exactile.formulation.problem import Mapspace, Objective, Problem

EXTENTS = (1, 2, 3, 3, 4, 4, 5, 5, 6, 6)
FUNCTIONS = ("relu", "exp", "silu")


@dataclass
class Draft:
    """A cascade under construction: ranks of all tensors, which of them are inputs, who was read."""

    rng: random.Random
    extents: dict[str, int]
    tensors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    einsums: list[dict[str, Any]] = field(default_factory=list)

    @property
    def made(self) -> list[str]:
        return [name for name in self.tensors if name.startswith("T")]

    @property
    def inputs(self) -> list[str]:
        return [name for name in self.tensors if name.startswith("I")]

    def text(self, tensor: str) -> str:
        ranks = self.tensors[tensor]
        return f"{tensor}[{','.join(ranks)}]" if ranks else tensor

    def source(self) -> str:
        """What to go on from: mostly a result nobody has read yet, else any result or an input."""
        fresh = [name for name in self.made if name not in self.read]
        dice = self.rng.random()
        if fresh and dice < 0.6:
            return self.rng.choice(fresh)
        if self.made and dice < 0.75:
            return self.rng.choice(self.made)
        count = min(len(self.extents), self.rng.choice((1, 2, 2)))
        return self.input(self.rng.sample(list(self.extents), count))

    def input(self, ranks: Sequence[str]) -> str:
        """An input with these ranks, mostly one that is there already."""
        same = [name for name in self.inputs if set(self.tensors[name]) == set(ranks)]
        if same and self.rng.random() < 0.7:
            return self.rng.choice(same)
        name = f"I{len(self.inputs)}"
        self.tensors[name] = tuple(ranks)
        return name

    def add(self, ranks: Sequence[str], right: str, reads: Sequence[str], **keys: Any) -> str:
        name = f"T{len(self.made)}"
        self.tensors[name] = tuple(ranks)
        self.read.update(reads)
        self.einsums.append({"einsum": f"{self.text(name)} = {right}", **keys})
        return name


def contract(draft: Draft) -> None:
    """A product of two tensors, mostly summed over a rank they share."""
    rng, one = draft.rng, draft.source()
    ranks = draft.tensors[one]
    partners = [t for t in draft.tensors if t != one and set(draft.tensors[t]) & set(ranks)]
    if partners and rng.random() < 0.4:
        two = rng.choice(partners)
    else:
        common = rng.sample(ranks, min(len(ranks), rng.choice((0, 1, 1, 1, 2))))
        others = [r for r in draft.extents if r not in ranks]
        two = draft.input(
            [*common, *rng.sample(others, min(len(others), rng.choice((0, 1, 1))))] or ranks[:1]
        )
    both = set(ranks) & set(draft.tensors[two])
    every = list(dict.fromkeys((*ranks, *draft.tensors[two])))
    summed = set(rng.sample(sorted(both), min(len(both), rng.choice((0, 1, 1, 1, 2)))))
    if one == two:
        draft.add(ranks, f"relu({draft.text(one)})", [one])
        return
    pair = [one, two] if rng.random() < 0.7 else [two, one]
    kept = [r for r in every if r not in summed]
    draft.add(kept, " * ".join(map(draft.text, pair)), pair)


def elementwise(draft: Draft) -> None:
    rng, one = draft.rng, draft.source()
    ranks = draft.tensors[one]
    partners = [t for t, r in draft.tensors.items() if t != one and set(r) <= set(ranks)]
    over = {"in_place": one} if one in draft.made and rng.random() < 0.6 else {}
    if partners and rng.random() < 0.6:
        two = rng.choice(partners)
        draft.add(ranks, f"{draft.text(one)} {rng.choice('*+-')} {draft.text(two)}", [one, two], **over)
    else:
        draft.add(ranks, f"{rng.choice(FUNCTIONS)}({draft.text(one)})", [one], **over)


def summed(draft: Draft) -> None:
    """A sum or a maximum over one or all ranks."""
    rng, one = draft.rng, draft.source()
    ranks = draft.tensors[one]
    gone = set(rng.sample(ranks, min(len(ranks), rng.choice((1, 1, 2)))))
    function = rng.choice(("copy", "max", "square"))
    right = draft.text(one) if function == "copy" else f"{function}({draft.text(one)})"
    kept = [r for r in ranks if r not in gone]
    draft.add(kept, right, [one], reduce="max" if function == "max" else "sum")


def expand(draft: Draft) -> None:
    """Much out of little, as scores are of queries and keys, summed at once: `C[i,l]`, then `E[i,j]`."""
    names = sorted(draft.extents, key=lambda rank: -draft.extents[rank])[:3]
    i, l, j = draft.rng.sample(names, 3)  # noqa: E741
    one, two, three = draft.input([i]), draft.input([l]), draft.input([l, j])
    middle = draft.add([i, l], f"{draft.text(one)} * {draft.text(two)}", [one, two])
    draft.add([i, j], f"{draft.text(middle)} * {draft.text(three)}", [middle, three])


def cascade(rng: random.Random, count: int) -> Cascade:
    names = "abcd"[: 4 if count < 4 else rng.choice((3, 4)) if count == 4 else 3]
    while True:
        draft = Draft(rng, {rank: rng.choice(EXTENTS) for rank in names})
        start = rng.randint(0, count - 2) if rng.random() < 0.8 else count
        while len(draft.einsums) < count:
            if len(draft.einsums) == start:
                expand(draft)
            else:
                rng.choices((contract, elementwise, summed), (6, 3, 1.5))[0](draft)
        if all(draft.tensors[t] for t in draft.inputs):
            return _finish(draft)


def _finish(draft: Draft) -> Cascade:
    """Overwriting only where nobody reads later; widths and extra outputs at random."""
    rng, texts = draft.rng, [entry["einsum"] for entry in draft.einsums]
    for position, entry in enumerate(draft.einsums):
        target = entry.get("in_place")
        if target and any(target in text.split("=", 1)[1] for text in texts[position + 1 :]):
            del entry["in_place"]
    used = {r: n for r, n in draft.extents.items() if any(r in ranks for ranks in draft.tensors.values())}
    tensors: dict[str, dict[str, Any]] = {t: {"bits": rng.choice((8, 8, 8, 16))} for t in draft.tensors}
    overwritten = {entry.get("in_place") for entry in draft.einsums}
    for tensor in draft.made:
        if tensor not in overwritten and rng.random() < 0.08:
            tensors[tensor]["role"] = "output"
    return Cascade(used, draft.einsums, tensors={t: s for t, s in tensors.items() if t in " ".join(texts)})


def machine(rng: random.Random, capacity: int, lively: bool) -> Hardware:
    """DRAM, a buffer and a vector unit; `lively`: sometimes also a systolic array."""

    def rate(low: int, high: int) -> Rate:
        return Rate(Fraction(rng.randint(low, high)), rng.choice(("bit", "value")))

    wide = rng.random() < 0.5
    dram = Level("DRAM", None, rate(20, 90), rate(20, 90), rate(1, 8), rate(1, 8), rng.random() < 0.6)
    buffer = Level(
        "GLB",
        capacity,
        rate(1, 6),
        rate(1, 6),
        rate(8, 40) if wide else None,
        double_buffer=rng.random() < 0.12,
        spatial=(SpatialDim("rows", 2), SpatialDim("cols", 2)),
    )
    ops = {"ew": OpCost(Fraction(2)), "mac": OpCost(Fraction(1), Fraction(rng.choice((1, 2))))}
    units = [ComputeUnit("vector", "vector", ops, lanes=rng.choice((1, 2, 3)))]
    if lively and rng.random() < 0.3:
        flows = ("weight_stationary", "output_stationary")
        units.insert(0, ComputeUnit("array", "systolic", {"mac": OpCost(Fraction(1))}, flows))
    overlap: Literal["full", "none"] = "none" if rng.random() < 0.2 else "full"
    launch = Fraction(rng.choice((0, 0, 5)))
    return Hardware("random", (dram, buffer), tuple(units), overlap=overlap, launch=launch)


def capacity_bits(rng: random.Random, work: Cascade) -> int:
    """Between one value of every tensor of the largest Einsum (or just too little) and everything."""
    bits = {name: tensor.bits for name, tensor in work.tensors.items()}
    least = max(sum(bits[t] for t in {e.name, *(a.tensor for a in e.inputs)}) for e in work.einsums)
    most = max(sum(t.bits * t.size for t in work.tensors.values()), 2 * least)
    if rng.random() < 0.04:
        return least - 1
    return int(least * (most / least) ** rng.uniform(0.1, 0.9))


def mapspace(rng: random.Random, work: Cascade) -> Mapspace:
    """All freedoms, or one of them taken away."""
    sizes: Literal["divisors", "all"] = "all" if rng.random() < 0.35 else "divisors"
    if rng.random() < 0.8:
        return Mapspace(sizes)
    order: Literal["search", "given"] = "given" if rng.random() < 0.25 else "search"
    without = rng.choice(("recomputation", "shared_inputs", "fused_outputs", "nothing"))
    return Mapspace(
        sizes,
        recomputation=without != "recomputation",
        shared_inputs=without != "shared_inputs",
        fused_outputs=without != "fused_outputs",
        order=order,
    )


def problem(seed: int) -> Problem:
    """The random problem of a seed."""
    rng = random.Random(seed)
    work = cascade(rng, 2 + seed % 4)
    goal = rng.choices(("dram_traffic", "energy", "latency"), (7, 2, 1.5))[0]
    hardware = machine(rng, capacity_bits(rng, work), goal != "dram_traffic" and len(work.einsums) < 5)
    return Problem(work, hardware, Objective(goal, ()), mapspace(rng, work), name=f"random {seed}")
