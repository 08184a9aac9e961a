"""One tensor through several index maps: `X[t,d]` and `X[u,d]` may share a buffer where it is whole.

Queries and keys project one input, and a residual stream is written by one name of a rank and read by
another. What two index maps have in common may be tiled outside the shared buffer, the rest may not.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from core_tools import group, machine, mapping
from strategies import random_inputs

import exactile as ex
from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.einsum import misaligned
from exactile.formulation.mapping import Group
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.solver.replay import replay
from exactile.solver.replay.errors import ReplayError

ROOM = machine(10**6)
RENAMED = Cascade({"i": 4, "l": 4, "k": 4}, ["S[i,k] = X[i,k] * G[k]", "T[l,k] = S[l,k] + H[k]"])


def test_the_ranks_by_which_two_index_maps_differ() -> None:
    scores = Cascade({"t": 4, "u": 4, "d": 3}, ["A[t] = X[t,d]", "B[u] = X[u,d]", "C[t,d] = X[t,d] + B[t]"])
    first, second, third = (einsum.access_of("X") for einsum in scores.einsums)
    assert misaligned(first, second) == {"t", "u"}
    assert misaligned(first, third) == frozenset()


def shared_inside(rank: str) -> Group:
    """`S` and `T` fused, with a loop over `rank` outside the shared buffer."""
    return group({"S": f"{rank}:2", "T": f"{rank}:2"}, "X S", "G S", f"S S+T {rank}", "H T", f"T T {rank}")


def test_a_buffer_is_shared_inside_loops_that_mean_the_same() -> None:
    chosen = mapping(shared_inside("k"))
    assert violations(RENAMED, ROOM, chosen) == ()
    assert evaluate(RENAMED, ROOM, chosen).dram_values == 16 + 4 + 4 + 16
    inputs = random_inputs(RENAMED, 0)
    computed = replay(RENAMED, ROOM, chosen, numbers=inputs).values["T"]
    assert computed == pytest.approx(inputs["X"] * inputs["G"] + inputs["H"])


@pytest.mark.parametrize("rank", ["i", "l"])
def test_a_buffer_is_not_shared_inside_a_loop_that_only_one_user_reads_by(rank: str) -> None:
    told = violations(RENAMED, ROOM, mapping(shared_inside(rank)))
    assert any(f"S and T index S differently in {rank}" in sentence for sentence in told)


def test_the_replay_finds_values_missing_where_the_producer_is_tiled() -> None:
    with pytest.raises(ReplayError):
        replay(RENAMED, ROOM, mapping(shared_inside("i")), numbers=random_inputs(RENAMED, 0))


def random_problem(seed: int) -> Problem:
    """Two to four Einsums in which inputs and intermediates are read by other ranks."""
    pick = random.Random(seed)
    size, width = pick.choice([2, 3, 4, 6]), pick.choice([2, 3, 4])
    ranks = {"t": size, "u": size, "v": size, "k": pick.choice([1, 2, 3, 4]), "e": width, "f": width}
    query = "Q[t,e] = X[t,k] * WQ[k,e]"
    read, made = pick.choice([("e", "t"), ("e", "v"), ("f", "t")])
    key = f"K[u,{read}] = X[u,k] * WK[k,{read}]"
    score = f"S[{made},u] = Q[{made},e] * K[u,e]"
    last = [
        "P[u,e] = S[u,v] * V[v,e]",
        f"P[{made},u] = S[{made},u] + Y[{made},u]",
        f"P[{made},e] = S[{made},u] * X[u,k] * Z[k,e]",
        f"P[{made},e] = S[{made},u] * Q[u,e]",
    ]
    pairs = ["R[u,f] = Q[u,f] * G[f]", "R[t,u] = Q[t,e] * X[u,k]", "R[u,e] = Q[u,e] * G[e]"]
    einsums = pick.choice(
        [[query, pick.choice(pairs)], [query, key, score], [query, key, score, pick.choice(last)]]
    )
    hardware = ex.hardware("nvdla-like")
    buffer = replace(hardware.levels[1], capacity=8 * pick.choice([6, 8, 12, 16, 24, 40]))
    return Problem(
        Cascade(ranks, einsums),
        replace(hardware, levels=(hardware.levels[0], buffer)),
        Objective(pick.choice(["dram_traffic", "dram_traffic", "energy"])),
        Mapspace(tile_sizes=pick.choice(["divisors", "all"])),
    )


def shares_through_two_maps(problem: Problem, solution: ex.Solution) -> bool:
    for fused in solution.mapping.groups if solution.mapping else ():
        for buffer in fused.buffers:
            users = [problem.cascade.by_name[user] for user in buffer.users]
            accesses = [a for user in users for a in (*user.inputs, user.output) if a.tensor == buffer.tensor]
            if len({access.indices for access in accesses}) > 1:
                return True
    return False


def compare(seeds: range) -> int:
    """Both engines agree, and answers are replayed; how many optima share through two index maps."""
    found = 0
    for seed in seeds:
        problem = random_problem(seed)
        solved, listed = ex.optimize(problem, engine="cpsat"), ex.optimize(problem, engine="mmee")
        assert (solved.status, solved.value) == (listed.status, listed.value), seed
        if solved.mapping is not None:
            assert solved.verified is not None and solved.verified.replayed
        found += shares_through_two_maps(problem, solved)
    return found


def test_engines_agree_on_shared_buffers_with_several_index_maps() -> None:
    assert compare(range(12)) >= 4


@pytest.mark.slow
def test_engines_agree_on_many_shared_buffers_with_several_index_maps() -> None:
    assert compare(range(12, 120)) >= 30
