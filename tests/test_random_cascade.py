"""The builder of random cascades: the same for ever, connected, small, and of every kind."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from exactile.formulation.cascade import Cascade
from exactile.workloads.builders import build_spec

RANDOM: list[dict[str, Any]] = [
    build_spec("random", {"seed": seed, "einsums": 1 + seed % 6, "renamed": seed % 2 == 1})
    for seed in range(600)
]


def test_the_same_seed_is_the_same_cascade_for_ever() -> None:
    text = json.dumps(RANDOM, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "adeb44eb86864ffa"
    assert len({json.dumps(spec["einsums"]) for spec in RANDOM}) > 0.9 * len(RANDOM)


def test_random_cascades_are_connected_small_and_varied() -> None:
    seen: dict[str, int] = {}
    for spec in RANDOM:
        cascade = Cascade(**spec)
        assert len(cascade.einsums) == 1 + int(spec["name"].split("-")[1]) % 6
        assert connected(cascade)
        assert max(cascade.points(einsum) for einsum in cascade.einsums) <= 8**4
        for feature in features(cascade):
            seen[feature] = seen.get(feature, 0) + 1
    rare = {feature: count for feature, count in seen.items() if count < len(RANDOM) / 30}
    assert not rare
    assert seen.keys() == {
        "shared input",
        "several readers",
        "skip",
        "reduction",
        "maximum",
        "in place",
        "fused output",
        "several outputs",
        "extent 1",
        "prime",
        "renamed",
        "vector",
    }


def connected(cascade: Cascade) -> bool:
    """Whether tensors, inputs among them, link all Einsums."""
    reached, waiting = set[str](), [cascade.einsums[0]]
    while waiting:
        einsum = waiting.pop()
        reached.add(einsum.name)
        own = {access.tensor for access in (einsum.output, *einsum.inputs)}
        waiting += [
            other
            for other in cascade.einsums
            if other.name not in reached and own & {a.tensor for a in (other.output, *other.inputs)}
        ]
    return len(reached) == len(cascade.einsums)


def features(cascade: Cascade) -> set[str]:
    """What is special about a cascade."""
    found = set()
    position = {einsum.name: i for i, einsum in enumerate(cascade.einsums)}
    for tensor, readers in cascade.consumers.items():
        if len(readers) > 1:
            found.add("several readers" if tensor in position else "shared input")
        if readers and tensor in position:
            if position[readers[-1].name] > position[tensor] + 1:
                found.add("skip")
            if cascade.tensors[tensor].role == "output":
                found.add("fused output")
    for einsum in cascade.einsums:
        if einsum.reduction:
            found.add("maximum" if einsum.reduce == "max" else "reduction")
        if einsum.in_place:
            found.add("in place")
        for access in einsum.inputs:
            if len(einsum.output.ranks) == 1 and len(access.ranks) == 1:
                found.add("vector")
            written = cascade.by_name.get(access.tensor)
            if written and written.output.ranks != access.ranks:
                found.add("renamed")
    if sum(tensor.role == "output" for tensor in cascade.tensors.values()) > 1:
        found.add("several outputs")
    found |= {"extent 1"} if 1 in cascade.ranks.values() else set()
    return found | ({"prime"} if {5, 7} & set(cascade.ranks.values()) else set())
