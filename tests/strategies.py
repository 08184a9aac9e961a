"""Random cascades, machines and legal mappings, from a seed.

A mapping is drawn top-down: a random loop tree over a random fused group, then buffers somewhere above
or at the place where the paths of their users part, own loops below, units at the end. What turns out
illegal is drawn again, so everything the model allows has a chance to come up.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import violations
from exactile.formulation.einsum import Einsum
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim, UnitKind
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.formulation.problem import Problem
from exactile.formulation.units import candidates

FUNCTIONS = ("relu", "exp", "tanh", "silu", "mystery")
MAX_POINTS = 600
MAX_PASSES = 160


@dataclass(frozen=True)
class Case:
    """A legal mapping of a cascade on a machine."""

    cascade: Cascade
    hardware: Hardware
    mapping: Mapping

    @property
    def problem(self) -> Problem:
        return Problem(self.cascade, self.hardware)


# cascades


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


# machines


def random_hardware(rng: random.Random, cascade: Cascade) -> Hardware:
    """Two or three levels; a systolic or free array with a vector unit, or a vector unit alone."""
    levels = [Level("DRAM", read_energy=Rate(Fraction(rng.randint(1, 9))))]
    for position in range(rng.choice((1, 1, 1, 2))):
        holds = None
        bypass = [t for t in cascade.tensors.values() if t.role in ("input", "output")]
        if bypass and rng.random() < 0.2:
            skipped = rng.choice(bypass).name
            holds = frozenset(t for t in cascade.tensors if t != skipped)
        levels.append(
            Level(
                f"L{position + 1}",
                capacity=10**9,
                read_bandwidth=rng.choice((None, Rate(Fraction(8)))),
                double_buffer=rng.random() < 0.3,
                holds=holds,
            )
        )
    for position in range(len(levels) - 1):
        if rng.random() < 0.25:
            dims = (_dim(rng, "x"), _dim(rng, "y"))[: rng.randint(1, 2)]
            levels[position] = _with_spatial(levels[position], dims)
    kind: UnitKind = rng.choice(("systolic", "free", "vector"))
    if kind != "vector":
        levels[-1] = _with_spatial(levels[-1], (_dim(rng, "rows"), _dim(rng, "cols")))
    return Hardware("machine", tuple(levels), tuple(_units(rng, kind)))


def _dim(rng: random.Random, name: str) -> SpatialDim:
    return SpatialDim(name, rng.choice((1, 2, 2, 3, 4)), rng.random() < 0.7, rng.random() < 0.7)


def _with_spatial(level: Level, dims: tuple[SpatialDim, ...]) -> Level:
    return Level(
        level.name, level.capacity, level.read_energy, level.write_energy, level.read_bandwidth,
        level.write_bandwidth, level.shared_port, level.double_buffer, level.holds, dims,
    )  # fmt: skip


def _units(rng: random.Random, kind: UnitKind) -> list[ComputeUnit]:
    flows = ("weight_stationary", "output_stationary", "input_stationary")
    cost = OpCost(Fraction(rng.randint(1, 5)), Fraction(rng.choice((1, 1, 2))))
    units = []
    if kind == "systolic":
        units.append(ComputeUnit("array", kind, {"mac": cost}, flows, instances=_dim(rng, "instances")))
    if kind == "free":
        held = tuple(name for name in ("input", "weight", "output") if rng.random() < 0.4)
        units.append(
            ComputeUnit("array", kind, {"mac": cost}, ("free",), held, instances=_dim(rng, "instances"))
        )
    ops = {"ew": OpCost(Fraction(1)), "mac": OpCost(Fraction(2)), "softmax": OpCost(Fraction(2), Fraction(4))}
    units.append(
        ComputeUnit("vector", "vector", ops, lanes=rng.choice((1, 3, 4)), instances=_dim(rng, "instances"))
    )
    return units


# mappings


@dataclass(frozen=True)
class _Tree:
    """The shared part of a loop tree: the loops on the way to every Einsum, and where paths part."""

    paths: dict[str, tuple[Loop, ...]]
    meets: dict[frozenset[str], int]

    def meet(self, users: Sequence[str]) -> int:
        pairs = [frozenset((one, two)) for one in users for two in users if one != two]
        return min((self.meets[pair] for pair in pairs), default=0)


class MappingDraw:
    """Draws mappings of one cascade on one machine; most are legal, fewer if `reckless`."""

    def __init__(
        self, rng: random.Random, cascade: Cascade, hardware: Hardware, reckless: bool = False
    ) -> None:
        self.reckless = reckless
        self.rng = rng
        self.cascade = cascade
        self.hardware = hardware

    def mapping(self) -> Mapping:
        return Mapping(tuple(self.group(order) for order in self._partition()))

    def _partition(self) -> list[list[str]]:
        """A random execution order, cut into groups."""
        waiting, done, order = list(self.cascade.einsums), set[str](), list[str]()
        while waiting:
            ready = [
                e
                for e in waiting
                if all(a.tensor in done or a.tensor not in self.cascade.by_name for a in e.inputs)
            ]
            chosen = ready[0] if self.rng.random() < 0.7 else self.rng.choice(ready)
            waiting.remove(chosen)
            order.append(chosen.name)
            done.add(chosen.name)
        groups = [[order[0]]]
        cut = self.rng.choice((0.0, 0.0, 0.0, 0.3))
        for name in order[1:]:
            if self.rng.random() < cut:
                groups.append([])
            groups[-1].append(name)
        return groups

    def group(self, order: list[str]) -> Group:
        """A group at boundary 0."""
        spatial: dict[str, dict[str, dict[str, int]]] = {}
        dims = self.hardware.levels[0].spatial
        if len(order) == 1:
            spatial = {order[0]: self._factors(self._einsum(order[0]), dims)}
        elif dims and self.rng.random() < 0.6:
            spatial = self._common_factors(order, dims[0])
        extents = {e: self._block(self.cascade.ranks, spatial.get(e, {})) for e in order}
        tree = self._tree(order)
        shared = [b for b in self._shared_buffers(order, tree) if self._holds(1, b.tensor)]
        nests = {e: self._nest(e, tree.paths[e], shared, extents[e]) for e in order}
        served = {(user, tensor) for b in shared for user in b.users for tensor in self._stored(b, shared)}
        private = [
            Buffer(tensor, (e,), self._prefix(nests[e], shared))
            for e in order
            for tensor in self._tensors(e)
            if (e, tensor) not in served and self._holds(1, tensor)
        ]
        inner = {e: self._below(e, 1, self._tile(extents[e], nests[e])) for e in order}
        return Group(tuple(order), nests, (*shared, *private), inner, spatial)

    def _einsum(self, name: str) -> Einsum:
        return self.cascade.by_name[name]

    def _tensors(self, name: str) -> list[str]:
        einsum = self._einsum(name)
        return [*dict.fromkeys(access.tensor for access in einsum.inputs), name]

    def _holds(self, level: int, tensor: str) -> bool:
        holds = self.hardware.levels[level].holds
        return holds is None or tensor in holds

    def _loop(self, rank: str, extent: int) -> Loop:
        """A loop with few trips, ragged or not, sometimes with one trip only."""
        if self.rng.random() < 0.1:
            return Loop(rank, extent)
        trips = self.rng.choice((2, 2, 2, 3, 3, 4, extent))
        return Loop(rank, max(1, -(-extent // trips)))

    def _tree(self, order: list[str]) -> _Tree:
        paths: dict[str, tuple[Loop, ...]] = {}
        meets: dict[frozenset[str], int] = {}

        def grow(members: list[str], path: tuple[Loop, ...]) -> None:
            for one in members:
                paths[one] = path
                for two in members:
                    if one != two:
                        meets[frozenset((one, two))] = len(path)
            if len(members) == 1:
                return
            ranks = self._loopable(members, {loop.rank for loop in path})
            if ranks and self.rng.random() < (0.85 if len(path) < 2 else 0.5):
                rank = self.rng.choice(ranks)
                grow(members, (*path, self._loop(rank, self.cascade.ranks[rank])))
            elif len(members) > 2 or self.rng.random() < 0.3:
                at = self.rng.randint(1, len(members) - 1)
                grow(members[:at], path)
                grow(members[at:], path)

        grow(order, ())
        return _Tree(paths, meets)

    def _loopable(self, members: list[str], used: set[str]) -> list[str]:
        """Ranks that the members may share a loop over without reading partial sums."""
        banned = set(used)
        for name in members if not self.reckless else ():
            if any(consumer.name in members for consumer in self.cascade.consumers[name]):
                banned |= self._einsum(name).reduction
                banned |= {b.rank for b in self.cascade.barriers if b.tensor == name and b.mode == "row"}
                for barrier in self.cascade.barriers:
                    if barrier.tensor == name and not set(barrier.corrects) <= set(members):
                        banned.add(barrier.rank)
        return [
            r
            for r in self.cascade.ranks
            if r not in banned and any(r in self._einsum(m).ranks for m in members)
        ]

    def _shared_buffers(self, order: list[str], tree: _Tree) -> list[Buffer]:
        found: list[Buffer] = []
        home: dict[str, int] = {}  # tensor to the position of the buffer that holds it
        for name in order:
            readers = [e.name for e in self.cascade.consumers[name] if e.name in order]
            target = self._einsum(name).in_place
            if target in home and self._holds(1, name) and self.rng.random() < 0.8:
                position = home[name] = home[target]
                users = [*found[position].users, name, *readers]
                found[position] = Buffer(found[position].tensor, self._sorted(users, order), frozenset())
            elif readers:
                home[name] = len(found)
                found.append(Buffer(name, self._sorted([name, *readers], order), frozenset()))
        made = {tensor for tensor in self.cascade.tensors if tensor in order}
        for tensor in self.cascade.tensors:
            readers = [e.name for e in self.cascade.consumers[tensor] if e.name in order]
            if tensor not in made and len(readers) > 1 and self.rng.random() < 0.7:
                chosen = self.rng.sample(readers, self.rng.randint(2, len(readers)))
                found.append(Buffer(tensor, self._sorted(chosen, order), frozenset()))
        placed = []
        for buffer in found:
            meet = tree.meet(buffer.users)
            depth = meet if self.rng.random() < 0.75 else self.rng.randint(0, meet)
            outside = frozenset(loop.rank for loop in tree.paths[buffer.users[0]][:depth])
            placed.append(Buffer(buffer.tensor, buffer.users, outside))
        return placed

    @staticmethod
    def _sorted(users: Sequence[str], order: list[str]) -> tuple[str, ...]:
        return tuple(sorted(dict.fromkeys(users), key=order.index))

    def _stored(self, buffer: Buffer, shared: Sequence[Buffer]) -> list[str]:
        own = {other.tensor for other in shared}
        stored = [buffer.tensor]
        for user in buffer.users:
            if user not in own and self._einsum(user).in_place == stored[-1]:
                stored.append(user)
        return stored

    def _nest(
        self, name: str, path: tuple[Loop, ...], shared: Sequence[Buffer], extents: dict[str, int]
    ) -> tuple[Loop, ...]:
        """The shared path, without foreign loops that no buffer makes it share, and own loops."""
        depth = max((len(b.outside) for b in shared if name in b.users), default=0)
        einsum = self._einsum(name)
        kept = [loop for i, loop in enumerate(path) if i < depth or loop.rank in einsum.ranks]
        free = [rank for rank in einsum.ranks if rank not in {loop.rank for loop in kept}]
        own = [self._loop(rank, extents[rank]) for rank in free if self.rng.random() < 0.55]
        self.rng.shuffle(own)
        return (*kept, *own)

    def _prefix(self, nest: tuple[Loop, ...], shared: Sequence[Buffer]) -> frozenset[str]:
        return frozenset(loop.rank for loop in nest[: self.rng.randint(0, len(nest))])

    # what lies inside a tile

    def _block(self, extents: Any, factors: dict[str, dict[str, int]]) -> dict[str, int]:
        return {r: -(-n // prod(factors.get(r, {}).values())) for r, n in extents.items()}

    def _tile(self, block: dict[str, int], nest: tuple[Loop, ...]) -> dict[str, int]:
        return {**block, **{loop.rank: loop.tile for loop in nest}}

    def _factors(self, einsum: Einsum, dims: Sequence[SpatialDim]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for dim in dims:
            left = dim.size
            for rank in self.rng.sample(einsum.ranks, min(len(einsum.ranks), 2)):
                factor = self.rng.randint(1, left)
                if factor > 1 and self.rng.random() < 0.7:
                    found.setdefault(rank, {})[dim.name] = factor
                    left //= factor
        return found

    def _common_factors(self, order: list[str], dim: SpatialDim) -> dict[str, dict[str, dict[str, int]]]:
        """One rank that all members have, spread alike."""
        common = [r for r in self.cascade.ranks if all(r in self._einsum(e).ranks for e in order)]
        if not common or dim.size == 1:
            return {}
        rank, factor = self.rng.choice(common), self.rng.randint(2, dim.size)
        return {e: {rank: {dim.name: factor}} for e in order}

    def _below(self, name: str, level: int, tile: dict[str, int]) -> Group | UnitMapping:
        einsum = self._einsum(name)
        if level == len(self.hardware.levels) - 1:
            return self._unit(einsum)
        tile = {rank: tile[rank] for rank in einsum.ranks}
        factors = self._factors(einsum, self.hardware.levels[level].spatial)
        block = self._block(tile, factors)
        own = [self._loop(rank, block[rank]) for rank in einsum.ranks if self.rng.random() < 0.6]
        self.rng.shuffle(own)
        nest = tuple(own)
        buffers = tuple(
            Buffer(tensor, (name,), self._prefix(nest, ()))
            for tensor in self._tensors(name)
            if self._holds(level + 1, tensor)
        )
        inner = {name: self._below(name, level + 1, self._tile(block, nest))}
        return Group((name,), {name: nest}, buffers, inner, {name: factors})

    def _unit(self, einsum: Einsum) -> UnitMapping:
        unit = self.rng.choice(candidates(self.hardware, einsum))
        dims = [unit.instances]
        if unit.kind == "free":
            dims += self.hardware.levels[-1].spatial
        spatial = self._factors(einsum, dims)
        if unit.kind == "systolic":
            flow = self.rng.choice(unit.dataflows)
            return UnitMapping(unit.name, flow, self.rng.random() < 0.3, spatial)
        order = list(einsum.ranks)
        self.rng.shuffle(order)
        given = order[: self.rng.randint(0, len(order))] if unit.kind == "free" else []
        return UnitMapping(unit.name, "free" if unit.kind == "free" else None, False, spatial, tuple(given))


def small(cascade: Cascade, mapping: Mapping | None = None) -> bool:
    """Whether a case is small enough to be executed loop by loop in a test."""
    if mapping is None:
        return all(cascade.points(einsum) <= MAX_POINTS for einsum in cascade.einsums)
    passes = 0
    for group in mapping.groups:
        for nest in group.nests.values():
            passes += prod(-(-cascade.ranks[loop.rank] // loop.tile) for loop in nest)
    return passes <= MAX_PASSES


def correctable(cascade: Cascade) -> bool:
    """Whether every online softmax goes only into products that sum one row of it at a time.

    The model does not ask for more than a sum over the row, but the numbers of anything else cannot be
    put right later.
    """
    for barrier in cascade.barriers:
        softmax = cascade.by_name.get(barrier.tensor)
        if barrier.mode != "online" or softmax is None or softmax.over is None:
            continue
        for user in cascade.consumers[barrier.tensor]:
            rows = user.reduction & set(user.access_of(barrier.tensor).ranks)
            if user.op != "mac" or rows != {barrier.rank}:
                return False
    return True


def _draws(rng: random.Random, reckless: bool) -> Iterator[tuple[Case, tuple[str, ...]]]:
    """Small cases with their violations, without end."""
    while True:
        cascade = random_cascade(rng)
        if not small(cascade) or not correctable(cascade):
            continue
        hardware = random_hardware(rng, cascade)
        draw = MappingDraw(rng, cascade, hardware, reckless)
        for _ in range(6):
            mapping = draw.mapping()
            if small(cascade, mapping):
                yield Case(cascade, hardware, mapping), violations(cascade, hardware, mapping)


@cache
def random_case(seed: int) -> Case:
    """A legal mapping of two to four Einsums; the same one for the same seed."""
    return next(case for case, broken in _draws(random.Random(seed), False) if not broken)


def broken_case(seed: int, reasons: Sequence[str]) -> Case:
    """A mapping that is illegal for nothing but `reasons` (parts of the sentences that say so)."""
    for case, broken in _draws(random.Random(seed), True):
        if broken and all(any(reason in sentence for reason in reasons) for sentence in broken):
            return case
    raise AssertionError("draws never end")


def random_inputs(cascade: Cascade, seed: int) -> dict[str, npt.NDArray[np.float64]]:
    """Small whole numbers for every input, so that sums are exact."""
    rng = np.random.default_rng(seed)
    return {
        tensor.name: rng.integers(-3, 4, size=tensor.shape).astype(float)
        for tensor in cascade.tensors.values()
        if tensor.name not in cascade.by_name
    }


cases = st.integers(min_value=0, max_value=2**32 - 1).map(random_case)
