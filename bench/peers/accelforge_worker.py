"""Runs in AccelForge's own environment: map one workload with one worker, and time each step.

`python -I accelforge_worker.py TASK ANSWER`. The task is JSON: the machine's nodes and the workload as
`accelforge_spec` writes them, and how often to search. The answer is JSON: versions, seconds of import,
set-up, every search and the evaluation in detail, energy and actions by component and tensor, and the
mapping as a tree and as text. `-I` keeps this folder, where a file is named like the package, off the path.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any


def clock() -> float:
    return time.perf_counter()


def specification(package: Any, task: dict[str, Any]) -> Any:
    """AccelForge's `Spec` of the task, for the least energy."""
    nodes = [
        getattr(package.arch, node["kind"])(**{key: value for key, value in node.items() if key != "kind"})
        for node in task["nodes"]
    ]
    spec = package.Spec(arch=package.Arch(nodes=nodes), workload=package.Workload(**task["workload"]))
    spec.mapper.metrics = package.Metrics.ENERGY
    return spec


def tree(node: Any) -> dict[str, Any]:
    """A node of a mapping, with what is below it, as plain data."""
    kind = type(node).__name__
    found: dict[str, Any] = {"kind": kind}
    if kind in ("Temporal", "Spatial"):
        found |= {"rank": str(node.rank_variable), "tile": int(node.tile_shape)}
        found |= {"dimension": str(node.name)} if kind == "Spatial" else {}
    elif kind == "Storage":
        found |= {"level": str(node.component), "tensors": [str(tensor) for tensor in node.tensors]}
    elif kind == "Compute":
        found |= {"einsum": str(node.einsum)}
    if hasattr(node, "nodes"):
        found["nodes"] = [tree(child) for child in node.nodes]
    return found


def table(values: dict[tuple[Any, ...], Any]) -> list[list[Any]]:
    """A dictionary with tuples as keys, as rows that JSON can hold."""
    return [[*(None if key is None else str(key) for key in keys), float(v)] for keys, v in values.items()]


def solve(package: Any, task: dict[str, Any]) -> dict[str, Any]:
    """Search as often as asked, each time from a new specification; then evaluate the answer in detail."""
    mapper = importlib.import_module("accelforge.mapper.FFM")
    setups, searches = [], []
    for _ in range(task["searches"]):
        start = clock()
        spec = specification(package, task)
        ready = clock()
        mapper.map_workload_to_arch(spec, print_progress=False, eval_in_detail=False)
        setups.append(ready - start)
        searches.append(clock() - ready)
    start = clock()
    found = mapper.map_workload_to_arch(specification(package, task), print_progress=False)
    whole = clock() - start
    return {
        "seconds": {"setup": setups, "search": searches, "search and evaluation": whole},
        "energy": table(found.energy(per_component=True, per_tensor=True)),
        "actions": table(found.actions(per_component=True, per_tensor=True)),
        "text": found.mapping().compact_str(),
        "tree": tree(found.data.iloc[0]["Total<SEP>mapping"](_for_model=True)),
    }


def main() -> None:
    task_file, answer_file = map(Path, sys.argv[1:])
    task = json.loads(task_file.read_text(encoding="utf-8"))
    start = clock()
    package = importlib.import_module("accelforge")
    imported = clock() - start
    package.set_n_parallel_jobs(1)
    answer = solve(package, task)
    answer["seconds"]["import"] = imported
    answer["versions"] = {"accelforge": version("accelforge"), "python": sys.version.split()[0]}
    answer_file.write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
