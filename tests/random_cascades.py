"""Random cascades of two to four Einsums: contractions, elementwise Einsums, reductions, softmaxes."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from exactile.formulation.cascade import Cascade

FUNCTIONS = ("relu", "exp", "tanh", "silu", "mystery")


@dataclass
class _Draft:
    """Equations under construction; `made` maps tensors to their ranks, `inputs` those not written."""

    rng: random.Random
    extents: dict[str, int]
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    einsums: list[dict[str, Any]] = field(default_factory=list)
    must_reduce: tuple[str, str] | None = None
    aliases: dict[str, str] = field(default_factory=dict)

    def ranks(self, tensor: str) -> tuple[str, ...]:
        return self.made[tensor] if tensor in self.made else self.inputs[tensor]

    def text(self, tensor: str) -> str:
        ranks = self.ranks(tensor)
        name = self.aliases.get(tensor, tensor)
        return f"{name}[{','.join(ranks)}]" if ranks else name

    def source(self) -> str:
        """A tensor to go on from: mostly the last one written, sometimes an earlier one or an input."""
        choices = list(self.made)
        if not choices or self.rng.random() < 0.12:
            return self.input(tuple(self.rng.sample(list(self.extents), self.rng.randint(1, 3))))
        return choices[-1] if self.rng.random() < 0.7 else self.rng.choice(choices)

    def input(self, ranks: tuple[str, ...]) -> str:
        """An input with these ranks, an old one if there is any and the dice say so."""
        same = [t for t, r in self.inputs.items() if set(r) == set(ranks)]
        if self.rng.random() < 0.1 and (renamed := self._renamed(ranks)):
            return renamed
        if same and self.rng.random() < 0.6:
            return self.rng.choice(same)
        name = f"I{len(self.inputs)}"
        self.inputs[name] = ranks
        return name

    def _renamed(self, ranks: tuple[str, ...]) -> str | None:
        """An input of the same shape under another index map, as in `X[m,e]` and `X[n,e]`."""
        shape = [self.extents[rank] for rank in ranks]
        for tensor, own in list(self.inputs.items()):
            if [self.extents[rank] for rank in own] == shape and own != ranks:
                alias = f"{tensor}~{len(self.aliases)}"
                self.aliases[alias], self.inputs[alias] = self.aliases.get(tensor, tensor), ranks
                return alias
        return None

    def add(self, ranks: Sequence[str], right: str, **keys: Any) -> str:
        name = f"T{len(self.made)}"
        self.made[name] = tuple(ranks)
        self.einsums.append({"einsum": f"{self.text(name)} = {right}", **keys})
        return name


def _contract(draft: _Draft) -> None:
    rng = draft.rng
    source, forced = draft.must_reduce or (draft.source(), None)
    draft.must_reduce = None
    ranks = draft.ranks(source)
    reduced = {forced} if forced else set(rng.sample(ranks, min(len(ranks), rng.choice((0, 1, 1, 1, 2)))))
    others = [r for r in draft.extents if r not in ranks]
    new = rng.sample(others, min(len(others), rng.choice((0, 1, 1, 1))))
    batch = [r for r in ranks if r not in reduced and rng.random() < 0.35]
    weight_ranks = [*sorted(reduced), *new, *batch]
    if not forced and rng.random() < 0.15 and others:
        extra = rng.choice(others)  # a rank that both inputs or only the weight has, summed at once
        if extra not in new:
            weight_ranks.append(extra)
    rng.shuffle(weight_ranks)
    candidates_ = [t for t, r in draft.made.items() if t != source and set(r) <= {*ranks, *weight_ranks}]
    if candidates_ and not forced and rng.random() < 0.3:
        other = rng.choice(candidates_)  # a skip: two intermediates meet
        new = []
        reduced &= set(draft.made[other]) | set(ranks)
    elif weight_ranks:
        other = draft.input(tuple(weight_ranks))
    else:
        other = ""
    output = [r for r in ranks if r not in reduced]
    if other:
        output += [r for r in new if r not in output]
    right = f"{draft.text(source)} * {draft.text(other)}" if other else draft.text(source)
    if other and rng.random() < 0.3:
        right = f"{draft.text(other)} * {draft.text(source)}"
    draft.add(output, right)


def _elementwise(draft: _Draft) -> None:
    rng = draft.rng
    source = draft.source()
    ranks = draft.ranks(source)
    partners = [t for t, r in (draft.made | draft.inputs).items() if t != source and set(r) <= set(ranks)]
    if partners and rng.random() < 0.5:
        right = f"{draft.text(source)} {rng.choice('*+-')} {draft.text(rng.choice(partners))}"
    else:
        right = f"{rng.choice(FUNCTIONS)}({draft.text(source)})"
    draft.add(ranks, right, in_place=source if source in draft.made and rng.random() < 0.5 else None)


def _reduce(draft: _Draft) -> None:
    source = draft.source()
    ranks = draft.ranks(source)
    rank = draft.rng.choice(ranks) if ranks else None
    function = draft.rng.choice(("copy", "max", "square"))
    right = draft.text(source) if function == "copy" else f"{function}({draft.text(source)})"
    draft.add([r for r in ranks if r != rank], right, reduce="max" if function == "max" else "sum")


def _softmax(draft: _Draft) -> None:
    source = draft.source()
    ranks = draft.ranks(source)
    if not ranks:
        _elementwise(draft)
        return
    over = draft.rng.choice(ranks)
    mode = draft.rng.choice(("row", "online", "online"))
    in_place = source if source in draft.made and draft.rng.random() < 0.6 else None
    name = draft.add(ranks, f"softmax({draft.text(source)})", over=over, mode=mode, in_place=in_place)
    draft.must_reduce = (name, over)


def random_cascade(rng: random.Random) -> Cascade:
    """Two to four Einsums: chains, skips, several consumers, shared inputs, reductions anywhere."""
    names = "abcdef"[: rng.randint(3, 5)]
    draft = _Draft(rng, {rank: rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8)) for rank in names})
    count = rng.choice((2, 3, 3, 4))
    while len(draft.made) < count:
        if draft.must_reduce or not draft.made:
            _contract(draft)
        else:
            rng.choices((_contract, _elementwise, _reduce, _softmax), (6, 3, 1.5, 2))[0](draft)
    texts = [entry["einsum"].split("=", 1)[1] for entry in draft.einsums]
    for position, entry in enumerate(draft.einsums):
        target = entry.pop("in_place", None)
        if target and not any(re.search(rf"\b{target}\b", text) for text in texts[position + 1 :]):
            entry["in_place"] = target
    used = {r: n for r, n in draft.extents.items() if any(_mentions(e["einsum"], r) for e in draft.einsums)}
    tensors: dict[str, dict[str, Any]] = {
        t: {"bits": rng.choice((8, 8, 16))} for t in draft.made | draft.inputs
    }
    overwritten = {entry.get("in_place") for entry in draft.einsums}
    for tensor in draft.made:
        if rng.random() < 0.12 and tensor not in overwritten:
            tensors[tensor]["role"] = "output"
    tensors = {t: spec for t, spec in tensors.items() if any(t in e["einsum"] for e in draft.einsums)}
    return Cascade(used, draft.einsums, tensors=tensors)


def _mentions(equation: str, rank: str) -> bool:
    inside = [part.split("]")[0].split(",") for part in equation.split("[")[1:]]
    return any(rank in ranks for ranks in inside)
