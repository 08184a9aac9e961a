"""Inner boundary: what one pass of an Einsum over a tile costs on each use of a compute unit.

Matmul roles: `M` is the product of the ranks of input 1 and the output, `K` of both inputs, `N` of
input 2 and the output; ranks of all three are batch. A systolic array of R×C charges

    weight stationary   reads M·K·⌈N/C⌉ and K·N,          writes M·N·⌈K/R⌉,  ⌈K/R⌉·⌈N/C⌉·M cycles
    output stationary   reads M·K·⌈N/C⌉ and K·N·⌈M/R⌉,    writes M·N,        ⌈M/R⌉·⌈N/C⌉·K cycles
    input stationary    reads M·K       and K·N·⌈M/C⌉,    writes M·N·⌈K/R⌉,  ⌈M/C⌉·⌈K/R⌉·N cycles

and a free array steps through ⌈T/s⌉ blocks of every rank, reading each operand once per step unless
it holds it. All functions take tiles as arrays and work on whole tables of tile shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations, product

import numpy as np
import numpy.typing as npt

from exactile.formulation.einsum import Access, Einsum
from exactile.formulation.hardware import ComputeUnit, Hardware, SpatialDim
from exactile.formulation.units import candidates

Floats = npt.NDArray[np.float64]
Tiles = Mapping[str, Floats]
Spatial = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class UnitFamily:
    """Uses of one compute unit that differ in their spatial factors only.

    `factors[rank]` holds the factor of a rank per member; `copies` (per input) and `partials` hold how
    often a value is moved because a dimension cannot multicast or reduce. `spatial(m)` writes member
    `m` out.
    """

    unit: ComputeUnit
    dataflow: str | None
    transposed: bool
    order: tuple[str, ...]
    ranks: tuple[str, ...]
    dims: tuple[SpatialDim, ...]
    spreads: tuple[tuple[tuple[int, ...], ...], ...]
    factors: Mapping[str, Floats]
    copies: tuple[Floats, ...]
    partials: Floats

    def __len__(self) -> int:
        return len(self.spreads)

    def spatial(self, member: int) -> Spatial:
        """Factors by rank and dimension, those of 1 left out."""
        found: dict[str, dict[str, int]] = {}
        for dim, vector in zip(self.dims, self.spreads[member], strict=True):
            for rank, factor in zip(self.ranks, vector, strict=True):
                if factor > 1:
                    found.setdefault(rank, {})[dim.name] = factor
        return found

    def members(self, start: int, stop: int) -> UnitFamily:
        """Some of the members, as a family."""
        return replace(
            self,
            spreads=self.spreads[start:stop],
            factors={rank: values[start:stop] for rank, values in self.factors.items()},
            copies=tuple(values[start:stop] for values in self.copies),
            partials=self.partials[start:stop],
        )


@dataclass(frozen=True)
class PassCounts:
    """Per pass of a tile: values read per input, values written, steps; `[member, *tile shapes]`.

    A step takes the cycles that one point of the Einsum takes.
    """

    reads: tuple[Floats, ...]
    writes: Floats
    steps: Floats


def unit_families(
    hardware: Hardware, einsum: Einsum, extents: Mapping[str, int], *, cycles: bool
) -> tuple[UnitFamily, ...]:
    """The uses of all units able to run the Einsum that can be best for some tile shape.

    With `cycles` false only energy and traffic matter; then spreading a rank of every tensor over
    instances changes nothing and is left out.
    """
    ranks = tuple(rank for rank in einsum.ranks if extents[rank] > 1)
    if not cycles:
        batch = set(einsum.output.ranks).intersection(*(a.ranks for a in einsum.inputs))
        ranks = tuple(rank for rank in ranks if rank not in batch)
    caps = tuple(extents[rank] for rank in ranks)
    found: list[UnitFamily] = []
    for unit in candidates(hardware, einsum):
        dims = _dims(hardware, unit)
        full = all(dim.multicast and dim.reduce for dim in dims)
        spreads = _spreads(caps, tuple(dim.size for dim in dims), full)
        for dataflow, transposed, order in _uses(hardware, unit, einsum, ranks):
            found.append(_family(unit, einsum, (dataflow, transposed, order), ranks, dims, spreads))
    return tuple(found)


def _family(
    unit: ComputeUnit,
    einsum: Einsum,
    use: tuple[str | None, bool, tuple[str, ...]],
    ranks: tuple[str, ...],
    dims: tuple[SpatialDim, ...],
    spreads: tuple[tuple[tuple[int, ...], ...], ...],
) -> UnitFamily:
    table = np.array(spreads, dtype=np.float64).reshape(len(spreads), len(dims), len(ranks))

    def blind(foreign: set[str], flag: str) -> Floats:
        columns = [i for i, rank in enumerate(ranks) if rank in foreign]
        rows = [i for i, dim in enumerate(dims) if not getattr(dim, flag)]
        total: Floats = table[:, rows][:, :, columns].prod(axis=(1, 2))
        return total

    factors = {rank: np.ones(len(spreads)) for rank in einsum.ranks}
    factors |= {rank: table[:, :, i].prod(axis=1) for i, rank in enumerate(ranks)}
    copies = tuple(blind(set(einsum.ranks) - set(access.ranks), "multicast") for access in einsum.inputs)
    return UnitFamily(
        unit, *use, ranks, dims, spreads, factors, copies, blind(set(einsum.reduction), "reduce")
    )


def _dims(hardware: Hardware, unit: ComputeUnit) -> tuple[SpatialDim, ...]:
    """The spatial dimensions over which any rank may be spread in front of the unit."""
    own = (unit.instances,) if unit.instances.size > 1 else ()
    return (*own, *hardware.levels[-1].spatial) if unit.kind == "free" else own


def _uses(
    hardware: Hardware, unit: ComputeUnit, einsum: Einsum, ranks: Sequence[str]
) -> Iterator[tuple[str | None, bool, tuple[str, ...]]]:
    """Dataflow, orientation and order of steps."""
    if unit.kind == "systolic":
        rows, columns = array_shape(hardware)
        for dataflow in unit.dataflows:
            for transposed in (False, True) if rows != columns else (False,):
                yield dataflow, transposed, ()
    elif unit.kind == "free":
        for order in _orders(unit, einsum, ranks):
            yield "free", False, order
    else:
        yield None, False, ()


def array_shape(hardware: Hardware) -> tuple[int, int]:
    """Rows and columns: the first two spatial dimensions of the last level."""
    sizes = [dim.size for dim in hardware.levels[-1].spatial[:2]]
    rows, columns = (*sizes, 1, 1)[:2]
    return rows, columns


def _orders(unit: ComputeUnit, einsum: Einsum, ranks: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Orders of the steps that differ in what a held operand saves: the innermost runs decide."""
    if not unit.registers:
        yield ()
        return
    seen = set()
    for order in permutations(ranks):
        saved = tuple(_saved(access.ranks, order) for access, held in _operands(unit, einsum) if held)
        if saved not in seen:
            seen.add(saved)
            yield order


def _operands(unit: ComputeUnit, einsum: Einsum) -> Iterator[tuple[Access, bool]]:
    names = ["input", *["weight"] * (len(einsum.inputs) - 1)]
    for access, name in zip(einsum.inputs, names, strict=True):
        yield access, name in unit.registers
    yield einsum.output, "output" in unit.registers


def _saved(ranks: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    """The order as a held operand sees it: which ranks are its own, where."""
    return tuple(rank if rank in ranks else f"-{rank}" for rank in order)


@lru_cache(maxsize=256)
def _spreads(
    caps: tuple[int, ...], sizes: tuple[int, ...], maximal: bool
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Spatial factors per dimension, each a vector over ranks with product at most the size.

    If every dimension multicasts and reduces, larger factors are never worse, so only vectors of
    totals that no other exceeds everywhere are kept.
    """
    per_dim = [tuple(_vectors(caps, size)) for size in sizes]
    combined: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}
    if not maximal:
        return tuple(product(*per_dim))
    totals = {(1,) * len(caps): ()}
    combined = dict(totals)
    for vectors in per_dim:
        step: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}
        for total, parts in combined.items():
            for vector in vectors:
                key = tuple(min(a * b, cap) for a, b, cap in zip(total, vector, caps, strict=True))
                step.setdefault(key, (*parts, vector))
        combined = {key: step[key] for key in _maximal(tuple(step))}
    return tuple(combined.values())


def _vectors(caps: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    if not caps:
        yield ()
        return
    for factor in range(1, min(caps[0], size) + 1):
        for rest in _vectors(caps[1:], size // factor):
            yield (factor, *rest)


def _maximal(vectors: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """The vectors that no other is at least as large as everywhere."""
    if not vectors or not vectors[0]:
        yield from vectors
        return
    rows = np.array(vectors)
    rows = rows[np.argsort(-rows.sum(axis=1), kind="stable")]
    kept, count = np.empty_like(rows), 0
    for row in rows:
        if not (kept[:count] >= row).all(axis=1).any():
            kept[count] = row
            count += 1
            yield tuple(row.tolist())


def pass_counts(hardware: Hardware, einsum: Einsum, family: UnitFamily, tiles: Tiles) -> PassCounts:
    """Accesses of the last level and steps of one pass, for every member and tile shape.

    `tiles[rank]` are arrays that broadcast to the tile shapes of a table.
    """
    spread = [1] * max((values.ndim for values in tiles.values()), default=0)
    tiles = {rank: values[None] for rank, values in tiles.items()}
    block = {
        rank: _ceil(tiles[rank], family.factors[rank].reshape(-1, *spread))
        if (family.factors[rank] > 1).any()
        else tiles[rank]
        for rank in einsum.ranks
    }
    if family.unit.kind == "systolic":
        reads, writes, steps = _systolic(hardware, einsum, family, tiles, block)
    elif family.unit.kind == "free":
        reads, writes, steps = _free(einsum, family, tiles, block)
    else:
        reads = tuple(_product(tiles, access.ranks) for access in einsum.inputs)
        writes = _product(tiles, einsum.output.ranks)
        steps = _ceil(_product(block, einsum.ranks), np.array(float(family.unit.lanes)))
    return PassCounts(
        tuple(
            r * c.reshape(-1, *spread) if (c > 1).any() else r
            for r, c in zip(reads, family.copies, strict=True)
        ),
        writes * family.partials.reshape(-1, *spread) if (family.partials > 1).any() else writes,
        steps,
    )


def _ceil(a: Floats, b: Floats | float) -> Floats:
    """⌈a/b⌉ of integers held in floats, exact."""
    quotient: Floats = np.ceil(a / b)
    return quotient


def _product(tiles: Tiles, ranks: Iterable[str]) -> Floats:
    total: Floats = np.ones(1)
    for rank in ranks:
        total = total * tiles[rank]
    return total


def _systolic(
    hardware: Hardware, einsum: Einsum, family: UnitFamily, tiles: Tiles, block: Tiles
) -> tuple[tuple[Floats, ...], Floats, Floats]:
    rows, columns = array_shape(hardware)
    if family.transposed:
        rows, columns = columns, rows
    first, second = (set(access.ranks) for access in einsum.inputs)
    output = set(einsum.output.ranks)
    roles = {
        "M": (first & output) - second,
        "K": (first & second) - output,
        "N": (second & output) - first,
        "B": first & second & output,
    }
    m, k, n, batch = (_product(tiles, roles[role]) for role in "MKNB")
    bm, bk, bn, block_batch = (_product(block, roles[role]) for role in "MKNB")
    if family.dataflow == "weight_stationary":
        fold_n, fold_k = _ceil(bn, columns), _ceil(bk, rows)
        counts = m * k * fold_n, k * n, m * n * fold_k, fold_k * fold_n * bm
    elif family.dataflow == "output_stationary":
        fold_n, fold_m = _ceil(bn, columns), _ceil(bm, rows)
        counts = m * k * fold_n, k * n * fold_m, m * n, fold_m * fold_n * bk
    else:
        fold_m, fold_k = _ceil(bm, columns), _ceil(bk, rows)
        counts = m * k, k * n * fold_m, m * n * fold_k, fold_m * fold_k * bn
    return (batch * counts[0], batch * counts[1]), batch * counts[2], block_batch * counts[3]


def _free(
    einsum: Einsum, family: UnitFamily, tiles: Tiles, block: Tiles
) -> tuple[tuple[Floats, ...], Floats, Floats]:
    counts = []
    outer = [rank for rank in einsum.ranks if rank not in family.order]
    for access, held in _operands(family.unit, einsum):
        total = _product(tiles, access.ranks)
        running = np.full(1, held)
        for rank in reversed([*outer, *family.order]):
            # a loop of one step neither moves the operand nor ends the run in which it stays
            if rank in access.ranks:
                if held:
                    running = running & (block[rank] == 1)
            else:
                total = total * (np.where(running, 1.0, block[rank]) if held else block[rank])
        counts.append(total)
    return tuple(counts[:-1]), counts[-1], _product(block, einsum.ranks)
