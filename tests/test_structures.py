"""Structures: how many there are, which must be among them, that nothing better is dropped, their cache."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from core_tools import UNIT, machine

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.encoding.overwriting import never_worse
from exactile.formulation.encoding.shape import GroupSpec, Shape, group_specs
from exactile.formulation.encoding.structures import TooManyStructures, structures
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping
from exactile.formulation.problem import Mapspace
from exactile.solver.engine import Stopped
from exactile.solver.mmee import cache

HEAD = ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"]
EXTENTS = {"i": 6, "l": 6, "k": 4, "j": 4}


def spec_of(cascade: Cascade, mapspace: Mapspace | None = None) -> GroupSpec:
    """All Einsums in one group, inputs shared as much as possible."""
    names = [einsum.name for einsum in cascade.einsums]
    return min(group_specs(cascade, names, mapspace or Mapspace()), key=lambda spec: len(spec.slots))


def attention(**tensors: dict[str, str]) -> Cascade:
    return Cascade(EXTENTS, HEAD, tensors=tensors)


# the two-operator case of `docs/model.md`


@pytest.mark.parametrize(
    ("mapspace", "tensors", "count"),
    [
        (Mapspace(), {}, 73),
        (Mapspace(recomputation=False), {}, 37),
        (Mapspace(), {"C": {"row": "l"}}, None),
    ],
)
def test_the_number_of_structures(
    mapspace: Mapspace, tensors: dict[str, dict[str, str]], count: int | None
) -> None:
    """With own sub-nest orders 79 are left; without recomputation 37; a row softmax leaves fewer still."""
    found = len(structures(spec_of(attention(**tensors), mapspace).shape))
    assert found == count if count is not None else 0 < found < 79


def known(**outside: str) -> dict[str, frozenset[str]]:
    return {tensor: frozenset(ranks) for tensor, ranks in outside.items()}


FLASH = known(A="i", B="ilk", C="il", D="ilj", E="i")
FLAT = known(A="i", B="ilk", C="i", D="ilj", E="i")


@pytest.mark.parametrize("chosen", [FLASH, FLAT], ids=["FlashAttention-2", "FLAT"])
def test_known_dataflows_are_points(chosen: dict[str, frozenset[str]]) -> None:
    """Pinned, each is a structure; free, one that is as good for every tiling is kept."""
    cascade = attention()
    spec = spec_of(cascade, Mapspace(residency=chosen))
    masks = [tuple(spec.mask(chosen[slot.tensor]) for slot in spec.slots)]
    assert masks[0] in set(map(tuple, structures(spec.shape).tolist()))
    tiles = {"C": {"i": 2, "l": 2, "k": 2}, "E": {"i": 2, "l": 2, "j": 2}}
    mapping = next(built(cascade, spec, masks[0], tiles))
    assert as_good(cascade, spec_of(cascade), structures(spec_of(cascade).shape).tolist(), mapping)


# nothing better was dropped: plain loop orders and levels against the structures kept

MACHINE: Hardware = machine(1 << 30)
CASCADES = {
    "attention": Cascade(EXTENTS, HEAD),
    "row softmax": Cascade(EXTENTS, HEAD, tensors={"C": {"row": "l"}}),
    "online softmax": Cascade(EXTENTS, HEAD, tensors={"C": {"online": "l", "corrects": "E"}}),
    "heads": Cascade({"h": 3, "i": 4, "l": 4, "j": 2}, ["C[h,i,l] = A[h,i] * B[l]",
                                                         "E[h,i,j] = C[h,i,l] * D[l,j]"]),
    "output": Cascade(EXTENTS, HEAD, tensors={"C": {"role": "output"}}),
    "shared input": Cascade(EXTENTS, ["C[i,l] = A[i,k] * B[l,k]", "E[i,k] = C[i,l] * B[l,k]"]),
    "two readers": Cascade({"i": 4, "k": 4, "l": 4}, ["C[i,k] = A[i,l] * B[l,k]", "E[i,l] = A[i,l] * D[l]"]),
    "in place": Cascade(EXTENTS, [HEAD[0], {"einsum": "P[i,l] = exp(C[i,l])", "in_place": True},
                                  "E[i,j] = P[i,l] * D[l,j]"]),
    "skip": Cascade({"i": 4, "k": 4, "l": 4}, ["C[i,k] = A[i,l] * B[l,k]", "G[i,l] = C[i,k] * D[k,l]",
                                               "E[i,k] = G[i,l] * C[i,k]"]),
    "chain": Cascade({"i": 4, "k": 4, "l": 4}, ["C[i,k] = A[i] * B[k]", "G[i,l] = C[i,k] * D[k,l]",
                                                "E[i] = G[i,l] * F[l]"]),
}  # fmt: skip
Tiles = dict[str, dict[str, int]]


def tilings(cascade: Cascade, rng: random.Random) -> Tiles:
    """A tile below the extent per rank, mostly the same in every Einsum."""
    common = {rank: rng.randint(1, extent - 1) for rank, extent in cascade.ranks.items()}
    found = {einsum.name: dict(common) for einsum in cascade.einsums}
    if rng.random() < 0.5:
        rank = rng.choice(list(common))
        found[rng.choice(list(found))][rank] = rng.randint(1, cascade.ranks[rank] - 1)
    return found


def drawn(cascade: Cascade, spec: GroupSpec, tiles: Tiles, rng: random.Random) -> Mapping | None:
    """A random legal mapping of the group: loop orders and levels, no thought of sets. `None`: try again."""
    shared = [rank for rank in rng.sample(list(cascade.ranks), len(cascade.ranks)) if rng.random() < 0.6]
    depths = [rng.randint(0, len(shared)) for slot in spec.slots if len(slot.users) > 1]
    around: dict[str, int] = {einsum.name: 0 for einsum in spec.einsums}
    buffers, free = [], []
    for slot in spec.slots:
        if len(slot.users) > 1:
            depth = depths.pop()
            buffers.append(Buffer(slot.tensor, slot.users, frozenset(shared[:depth])))
            around |= {user: max(around[user], depth) for user in slot.users}
        else:
            free.append(slot)
    nests = {}
    for einsum in spec.einsums:
        first = shared[: around[einsum.name]]
        own = [rank for rank in einsum.ranks if rank not in first and rng.random() < 0.7]
        order = first + rng.sample(own, len(own))
        nests[einsum.name] = tuple(Loop(rank, tiles[einsum.name][rank]) for rank in order)
    for slot in free:
        nest = [loop.rank for loop in nests[slot.users[0]]]
        buffers.append(Buffer(slot.tensor, slot.users, frozenset(nest[: rng.randint(0, len(nest))])))
    return legal(cascade, spec, nests, buffers)


def legal(
    cascade: Cascade, spec: GroupSpec, nests: dict[str, tuple[Loop, ...]], buffers: Sequence[Buffer]
) -> Mapping | None:
    order = tuple(einsum.name for einsum in spec.einsums)
    mapping = Mapping((Group(order, nests, tuple(buffers), dict.fromkeys(order, UNIT)),))
    return None if violations(cascade, MACHINE, mapping) else mapping


def built(cascade: Cascade, spec: GroupSpec, row: Sequence[int], tiles: Tiles) -> Iterator[Mapping]:
    """The legal mappings with the residencies of a structure; `tiles[e]` are the loops of `e` (others have
    one trip). None if some Einsums would have to share a loop that only one of them has."""
    sets = [frozenset(spec.names(mask)) for mask in row]
    buffers = []
    for slot, chosen in zip(spec.slots, sets, strict=True):
        kept = {chosen.intersection(tiles[user]) for user in slot.users}
        if len(kept) > 1:
            return
        buffers.append(Buffer(slot.tensor, slot.users, kept.pop()))
    seen = []
    for order in permutations(sorted(frozenset().union(*sets))):
        nests = {}
        for einsum in spec.einsums:
            mine = [b.outside for b in buffers if einsum.name in b.users]
            depth = {rank: sum(rank in outside for outside in mine) for rank in order}
            loops = sorted((rank for rank in order if depth[rank]), key=lambda rank, d=depth: -d[rank])
            nests[einsum.name] = tuple(Loop(rank, tiles[einsum.name][rank]) for rank in loops)
        if nests not in seen:
            seen.append(nests)
            mapping = legal(cascade, spec, nests, buffers)
            if mapping is not None:
                yield mapping


def vector(cascade: Cascade, mapping: Mapping) -> tuple[Fraction, ...]:
    """Everything an objective or a capacity can ask about."""
    cost = evaluate(cascade, MACHINE, mapping)
    return (
        *(cost.quantity(name) for name in ("dram_traffic", "energy", "latency", "operations")),
        Fraction(cost.peak["GLB"]),
    )


def loops_used(cascade: Cascade, group: Group) -> dict[str, set[str]]:
    """Per Einsum the loops outside some buffer, when private buffers have moved outward."""
    used: dict[str, set[str]] = {name: set() for name in group.order}
    for buffer in group.buffers:
        if len(buffer.users) > 1:
            for user in buffer.users:
                used[user] |= buffer.outside
    shared = {name: len(ranks) for name, ranks in used.items()}
    for buffer in group.buffers:
        if len(buffer.users) == 1:
            (user,) = buffer.users
            nest = [loop.rank for loop in group.nests[user]][: len(buffer.outside)]
            ranks = cascade.by_name[user].access_of(buffer.tensor).ranks
            while len(nest) > shared[user] and nest[-1] not in ranks:
                nest.pop()
            used[user] |= set(nest)
    return used


def as_good(cascade: Cascade, spec: GroupSpec, rows: Sequence[Sequence[int]], one: Mapping) -> bool:
    """Whether one of the structures, with the same tiles, is at least as good as a mapping in everything."""
    (group,) = one.groups
    used = loops_used(cascade, group)
    tiles = {
        name: {loop.rank: loop.tile for loop in nest if loop.rank in used[name]}
        for name, nest in group.nests.items()
    }
    outside = {(b.tensor, b.users): spec.mask(b.outside) for b in group.buffers}
    given = [outside[slot.tensor, slot.users] for slot in spec.slots]

    def unlike(row: Sequence[int]) -> int:
        """Likely rivals first: smaller tiles, fewer visits."""
        return sum(
            (b & slot.ranks & ~a).bit_count() + (a & ~slot.ranks & ~b).bit_count()
            for a, b, slot in zip(row, given, spec.shape.slots, strict=True)
        )

    values = vector(cascade, one)
    return any(
        all(a <= b for a, b in zip(vector(cascade, rival), values, strict=True))
        for row in sorted(rows, key=unlike)
        for rival in built(cascade, spec, row, tiles)
    )


def survey(name: str, seed: int, count: int) -> int:
    """Check random mappings; how many different residencies there were."""
    cascade, rng = CASCADES[name], random.Random(f"{name} {seed}")
    spec = spec_of(cascade)
    rows = structures(spec.shape).tolist()
    seen = set()
    for _ in range(count):
        found = None
        while found is None:
            found = drawn(cascade, spec, tilings(cascade, rng), rng)
        assert as_good(cascade, spec, rows, found), (name, found)
        seen.add(tuple((b.tensor, b.outside) for b in found.groups[0].buffers))
    return len(seen)


@pytest.mark.parametrize("name", CASCADES)
def test_a_structure_as_good_as_any_mapping_is_kept(name: str) -> None:
    assert survey(name, 0, 150) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("name", CASCADES)
def test_a_structure_as_good_as_any_of_many_mappings_is_kept(name: str, seed: int) -> None:
    assert survey(name, seed, 1000) >= 20


def test_the_check_notices_what_is_missing() -> None:
    """Without the structures that hold C whole or per row, some mapping has no equal."""
    cascade = CASCADES["attention"]
    spec, rng = spec_of(cascade), random.Random(7)
    rows = [row for row in structures(spec.shape).tolist() if row[0] not in (0, spec.mask("i"))]
    mappings = (drawn(cascade, spec, tilings(cascade, rng), rng) for _ in range(2000))
    assert any(one is not None and not as_good(cascade, spec, rows, one) for one in mappings)


# the cache

RESTRICTIONS = {
    "free": Mapspace(),
    "no recomputation": Mapspace(recomputation=False),
    "order": Mapspace(orders={"C": ("i", "l", "k")}),
    "another order": Mapspace(orders={"C": ("l", "i", "k")}),
    "order of E": Mapspace(orders={"E": ("i", "l", "j")}),
    "residency": Mapspace(residency={"C": frozenset("i")}),
    "another residency": Mapspace(residency={"C": frozenset()}),
    "residency of A": Mapspace(residency={"A": frozenset("i")}),
    "tile": Mapspace(tiles={"i": 2}),
    "tile of another rank": Mapspace(tiles={"l": 2}),
}


# in place

SCORES = {"einsum": "P[i,l] = exp(C[i,l])", "in_place": True}
WEIGHTED = {"einsum": "P[i,l] = C[i,l] * F[l]", "in_place": "C"}


def ways(cascade: Cascade, names: str, mapspace: Mapspace | None = None) -> set[bool]:
    """Whether P overwrites, in every way to fuse these Einsums."""
    found = group_specs(cascade, names.split(), mapspace or Mapspace())
    return {"P" in spec.overwriting for spec in found}


def test_what_is_read_outside_the_group_is_not_overwritten() -> None:
    cascade = Cascade(EXTENTS, [HEAD[0], "G[i] = C[i,l]", SCORES, "E[i,j] = P[i,l] * D[l,j]"])
    assert ways(cascade, "C P E") == {False}
    assert ways(cascade, "C G P E") == {True}
    assert ways(cascade, "C P G E") == {False}


@pytest.mark.parametrize(
    ("second", "third", "mapspace", "expected"),
    [
        (SCORES, "E[i,j] = P[i,l] * D[l,j]", Mapspace(), {True}),
        (WEIGHTED, "E[i,j] = P[i,l] * D[l,j]", Mapspace(), {True}),
        (WEIGHTED, "E[i,j] = P[i,l] * D[l,j] * F[l]", Mapspace(), {True, False}),
        (WEIGHTED, "E[i,j] = P[i,l] * D[l,j] * F[l]", Mapspace(recomputation=False), {True}),
        (WEIGHTED, "E[i,j] = P[i,l] * D[l,j] * F[l]", Mapspace(shared_inputs=False), {True}),
        (SCORES, "E[i,j] = P[i,l] * D[l,j]", Mapspace(residency={"P": frozenset("i")}), {True, False}),
    ],
)
def test_a_buffer_of_its_own_is_tried_where_it_could_be_better(
    second: dict[str, str], third: str, mapspace: Mapspace, expected: set[bool]
) -> None:
    """P may be executed again in a loop that it shares with E through F, if it has not overwritten C."""
    assert ways(Cascade(EXTENTS, [HEAD[0], second, third]), "C P E", mapspace) == expected


def test_overwriting_is_never_worse_while_other_buffers_serve_neighbours() -> None:
    assert never_worse("abcd", ["ab", "cd"], [])
    assert not never_worse("abcd", ["ac"], [])
    assert not never_worse("abcd", ["ab"], ["b"])
    assert never_worse("abcd", ["ab"], ["c"])


def test_each_restriction_has_its_own_key() -> None:
    shapes = [spec_of(attention(), mapspace).shape for mapspace in RESTRICTIONS.values()]
    shapes += [spec_of(CASCADES[name]).shape for name in CASCADES if name != "attention"]
    shapes.append(replace(shapes[0], double_buffer=True))
    assert len({shape.key for shape in shapes}) == len(shapes)


def test_extents_and_names_do_not_matter() -> None:
    other = Cascade(
        {"a": 9, "b": 8, "c": 7, "d": 5}, ["X[a,b] = Q[a,c] * K[b,c]", "Y[a,d] = X[a,b] * V[b,d]"]
    )
    assert spec_of(other).shape.key == spec_of(attention()).shape.key


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, nothing in memory and nothing shipped for the shape in question."""
    monkeypatch.setenv("EXACTILE_CACHE", str(tmp_path / "cache"))
    cache.forget()
    return tmp_path / "cache"


def rare() -> Shape:
    """A shape that no built-in problem has."""
    return spec_of(attention(), Mapspace(residency={"C": frozenset("l")})).shape


def test_the_cache_is_where_the_environment_says(folder: Path) -> None:
    assert cache.cache_folder() == folder
    found = cache.cached_structures(rare())
    (file,) = folder.iterdir()
    assert file.name.startswith(rare().key) and file.suffix == ".npy"
    assert np.array_equal(found, structures(rare()))


def test_the_cache_is_read(folder: Path) -> None:
    """What the file says is believed: here it leaves one structure out."""
    found = cache.cached_structures(rare())
    (file,) = folder.iterdir()
    cache.store(file, found[:-1])
    cache.forget()
    assert np.array_equal(cache.cached_structures(rare()), found[:-1])


def test_giving_up_is_remembered_for_the_same_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def listed(shape: Shape, most: int | None, checkpoint: object) -> cache.Masks:
        asked.append(most)
        return structures(shape, most)

    monkeypatch.setattr(cache, "structures", listed)
    for _ in range(2):
        with pytest.raises(TooManyStructures):
            cache.cached_structures(rare(), 5)
        cache.forget()
    assert asked == [5]
    assert np.array_equal(cache.cached_structures(rare(), 10**6), structures(rare()))
    assert asked == [5, 10**6]
    assert np.array_equal(cache.cached_structures(rare(), 5), structures(rare()))


def test_listing_stops_when_the_checkpoint_says_so() -> None:
    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        structures(rare(), checkpoint=stop)


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "other columns", "folder"])
def test_a_damaged_file_is_made_again(folder: Path, damage: str) -> None:
    found = cache.cached_structures(rare())
    (file,) = folder.iterdir()
    content = file.read_bytes()
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif damage == "other columns":
        np.save(file, found[:, :-1])
    else:
        file.write_bytes({"truncated": content[:-7], "empty": b"", "text": b"not an array"}[damage])
    cache.forget()
    assert np.array_equal(cache.cached_structures(rare()), found)
    if damage != "folder":
        assert file.read_bytes() == content
    assert {path.suffix for path in folder.iterdir()} == {".npy"}


def test_a_folder_that_cannot_be_written_is_no_fault(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file where the folder should be")
    assert np.array_equal(cache.cached_structures(rare()), structures(rare()))
    cache.forget()
    monkeypatch.setenv("EXACTILE_CACHE", "/proc/exactile")
    assert np.array_equal(cache.cached_structures(rare()), structures(rare()))
