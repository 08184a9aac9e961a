"""How large the space of a problem is, without searching it: what `auto` decides by and reports tell.

The structures of a group depend on its shape alone and are cached; its tilings are a product of candidates
per rank. Example, `S[m,n] = Q[m,e] * K[n,e]`, `O[m,f] = S[m,n] * V[n,f]`, 512 × 512 × 64 × 64, divisors:
fused, 73 structures × (10 · 10 · 7 · 7) tilings, and the two Einsums alone besides.
"""

from __future__ import annotations

from math import prod

from exactile.formulation.encoding.shape import GroupSpec
from exactile.formulation.encoding.tilings import tile_candidates
from exactile.formulation.problem import Problem
from exactile.solver.engine import Size
from exactile.solver.mmee.cache import cached_structures
from exactile.solver.mmee.candidates import Candidates, searched_keys
from exactile.solver.mmee.support import require_supported


def space_size(problem: Problem, most: int | None = None) -> Size:
    """Structures × tilings of every way to fuse every candidate group, summed.

    If the tilings alone are more than `most`, that is all that is counted. Raises `UnsupportedProblem` where
    the enumeration cannot list the space.
    """
    require_supported(problem)
    candidates = Candidates(problem, searched_keys(problem.objective)).by_names.values()
    specs = [spec for candidate in candidates for spec in candidate.specs]
    tilings = [_tilings(problem, spec) for spec in specs]
    if most is not None and sum(tilings) > most:
        return Size(len(specs), max(tilings), sum(tilings), complete=False)
    structures = [len(cached_structures(spec.shape)) for spec in specs]
    pairs = sum(s * t for s, t in zip(structures, tilings, strict=True))
    return Size(sum(structures), max(tilings, default=0), pairs)


def _tilings(problem: Problem, spec: GroupSpec) -> int:
    sizes, pins = problem.mapspace.tile_sizes, problem.mapspace.tiles
    ranks = problem.cascade.ranks
    return prod(len(tile_candidates(ranks[rank], sizes, pins.get(rank))[0]) for rank in spec.ranks)
