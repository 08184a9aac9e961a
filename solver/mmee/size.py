"""How large the space of a problem is, without searching it: what `auto` decides by and reports tell.

The structures of a group depend on its shape alone and are cached; its tilings are a product of candidates
per rank. Example, `S[m,n] = Q[m,e] * K[n,e]`, `O[m,f] = S[m,n] * V[n,f]`, 512 × 512 × 64 × 64, divisors:
fused, 73 structures × (10 · 10 · 7 · 7) tilings, and the two Einsums alone besides.
"""

from __future__ import annotations

from dataclasses import replace

from exactile.formulation.problem import Problem
from exactile.solver.engine import Size
from exactile.solver.mmee.candidates import Candidate, Candidates, searched_keys, tilings
from exactile.solver.mmee.support import COUNTED, MAX_EINSUMS, WHOLE, require_supported


def space_size(problem: Problem, most: int | None = None) -> Size:
    """Structures × tilings of every way to fuse every candidate group, summed.

    Of groups whose structures are too many to list, the tilings are counted once: a lower bound. With `most`,
    structures are not counted where there are such groups or the tilings alone are more. Raises
    `UnsupportedProblem` for what the enumeration does not search.
    """
    require_supported(problem)
    limits = WHOLE if len(problem.cascade.einsums) <= MAX_EINSUMS else COUNTED
    found = Candidates(problem, searched_keys(problem.objective), limits=limits)
    candidates = list(found.by_names.values())
    tiles = [c.tilings if c.specs is not None else [_least(problem, c)] for c in candidates]
    largest = max((max(each) for each in tiles), default=0)
    unlisted = sum(c.specs is None for c in candidates)
    fewest = sum(map(sum, tiles))
    if most is not None and (fewest > most or unlisted):
        groups = len(candidates) if unlisted else 0
        return Size(sum(map(len, tiles)), largest, fewest, False, groups, unlisted)
    rows = [_structures(candidate, len(each)) for candidate, each in zip(candidates, tiles, strict=True)]
    pairs = sum(r * t for row, each in zip(rows, tiles, strict=True) for r, t in zip(row, each, strict=True))
    size = Size(sum(map(sum, rows)), largest, pairs, found.every_order)
    unlisted = sum(not candidate.small for candidate in candidates)
    return replace(size, groups=len(candidates), unlisted=unlisted) if unlisted else size


def _structures(candidate: Candidate, ways: int) -> list[int]:
    """Structures of every way to fuse a group; of one that is not listed, at least one each."""
    return [len(masks) for masks in candidate.masks] if candidate.small else [1] * ways


def _least(problem: Problem, candidate: Candidate) -> int:
    """Fewest tilings of a group with too many Einsums: one tile per rank that not every tensor has."""
    einsums = [problem.cascade.by_name[name] for name in candidate.names]
    accesses = [access for einsum in einsums for access in (einsum.output, *einsum.inputs)]
    ranks = dict.fromkeys(rank for einsum in einsums for rank in einsum.ranks)
    return tilings(problem, [rank for rank in ranks if not all(rank in access.ranks for access in accesses)])
