"""Write the structures of all built-in groups into `solver/structures/`, where the package ships them.

`make structures` runs it; needed after a change of `formulation/encoding/structures.py` or `shape.py`
(raise `FORMAT` in `solver/mmee/cache.py` then) and after adding workloads.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from exactile.catalogue import entries
from exactile.formulation.encoding.shape import Shape
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.load import load_hardware, load_problem, load_workload
from exactile.solver.engine import UnsupportedProblem
from exactile.solver.mmee.cache import FORMAT, cached_structures, store
from exactile.solver.mmee.candidates import Candidates
from exactile.solver.mmee.support import MAX_EINSUMS, QUICK, WHOLE, require_supported

FOLDER = Path(__file__).resolve().parent.parent / "solver" / "structures"


def problems() -> Iterator[Problem]:
    """All built-in problems, and all built-in workloads with and without recomputation."""
    for entry in entries("problem"):
        yield load_problem(entry.name)
    machine = load_hardware("nvdla-like")
    for entry in entries("workload"):
        for recomputation in (True, False):
            yield Problem(
                load_workload(entry.name), machine, Objective("energy"), Mapspace(recomputation=recomputation)
            )


def shapes() -> dict[Shape, str]:
    """The shapes of all their groups, of large cascades the small ones; with and without latency."""
    found: dict[Shape, str] = {}
    for problem in problems():
        try:
            require_supported(problem)
        except UnsupportedProblem as reason:
            print(f"left out: {reason}")
            continue
        limits = WHOLE if len(problem.cascade.einsums) <= MAX_EINSUMS else QUICK
        if limits == QUICK:  # what a quick start asks for
            problem = replace(problem, mapspace=replace(problem.mapspace, order="given"))
        for keys in (("energy",), ("energy", "latency")):
            for candidate in Candidates(problem, keys, limits=limits).by_names.values():
                for spec in candidate.specs or () if candidate.small else ():
                    found.setdefault(spec.shape, f"{problem.cascade.name} {'+'.join(candidate.names)}")
    return found


def main() -> None:
    """Replace the shipped files by fresh ones; what is in the user's cache has no say in it."""
    start = time.perf_counter()
    for old in FOLDER.glob("*.npy"):
        old.unlink()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["EXACTILE_CACHE"] = cache
        for shape, what in shapes().items():
            masks = cached_structures(shape)
            store(FOLDER / f"{shape.key}-{FORMAT}.npy", masks)
            print(f"{shape.key}  {len(masks):6} structures  {what}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
