"""The traps of the cost model: for each, a mapping on which the obvious rule gives another answer.

The docstring of every test states the naive rule; the test computes its value and shows that it differs.
"""

from __future__ import annotations

from math import ceil

from core_tools import group, machine, mapping

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, fullest, violations
from exactile.formulation.cost import Traffic
from exactile.formulation.hardware import SpatialDim

FREE = machine()


def matmul(m: int, k: int, n: int) -> Cascade:
    return Cascade({"m": m, "k": k, "n": n}, ["Z[m,n] = A[m,k] * B[k,n]"])


def test_unrelated_einsums_do_not_overlap_in_one_group() -> None:
    """Naive: any set of Einsums may be a group, so a slow copy hides behind an unrelated matmul."""
    cascade = Cascade(
        {"m": 64, "k": 64, "n": 64},
        ["Z[m,n] = A[m,k] * B[k,n]", "Y[m,n] = U[m,n] + V[m,n] + W[m,n] + X[m,n]"],
    )
    first = ("A Z", "B Z", "Z Z")
    second = ("U Y", "V Y", "W Y", "X Y", "Y Y")
    apart = mapping(group({"Z": ""}, *first), group({"Y": ""}, *second))
    together = mapping(group({"Z": "", "Y": ""}, *first, *second))
    assert violations(cascade, FREE, apart) == ()
    assert any("separate groups" in v for v in violations(cascade, FREE, together))
    compute, copy = 64**3, 5 * 64**2 // 4
    assert evaluate(cascade, FREE, apart).cycles == compute + copy
    assert evaluate(cascade, FREE, together).cycles == compute + 64**2 < compute + copy


def test_the_tile_gives_the_trip_count() -> None:
    """Naive: six trips over ten values are six passes; the tile ⌈10/6⌉ = 2 makes them five."""
    cascade = matmul(10, 3, 4)
    chosen = mapping(group({"Z": "m:2"}, "A Z m", "B Z m", "Z Z m"))
    spread = mapping(group({"Z": "m:2 n:2"}, "A Z m", "B Z m n", "Z Z m n"))
    assert evaluate(cascade, FREE, chosen).dram_values == 30 + 12 + 40
    traffic = evaluate(cascade, FREE, spread).groups[0].traffic["DRAM", "Z", "B"].reads
    assert traffic == 12 * 5
    assert traffic != 12 * 6


def test_loops_with_one_trip_are_removed_before_anything_else() -> None:
    """Naive: a loop over `k` stands inside `n`, so `A[m,k]` moves with it and is fetched for every `n`."""
    cascade = matmul(6, 5, 8)
    chosen = mapping(group({"Z": "m:2 n:2 k:5"}, "A Z m n k", "B Z m n k", "Z Z m n k"))
    reads = evaluate(cascade, FREE, chosen).groups[0].traffic["DRAM", "Z", "A"].reads
    assert reads == 30
    assert reads != 30 * 4


def test_a_wide_path_cannot_pull_two_einsums_together_around_a_third() -> None:
    """Naive: `C` and `O` may share loop `a` through `X` although `D`, which needs all `a`, runs between."""
    cascade = Cascade(
        {"i": 4, "a": 6, "b": 3},
        ["C[i,a] = X[i,a] * G[a]", "D[i,b] = C[i,a] * W[a,b]", "O[i,b] = D[i,b] * X[i,a]"],
    )
    nests = {"C": "i:1 a:2", "D": "i:1", "O": "i:1 a:2"}
    rest = ("C C+D i", "D D+O i", "G C", "W D", "O O i")
    pulled = mapping(group(nests, "X C+O i a", *rest))
    proper = mapping(group(nests, "X C+O i", *rest))
    assert violations(cascade, FREE, proper) == ()
    assert any("D runs between C and O" in v for v in violations(cascade, FREE, pulled))
    naive, ours = (fullest(cascade, FREE, m)["GLB"].bits for m in (pulled, proper))
    assert naive < ours


def test_every_shared_loop_counts_for_partial_sums_not_only_the_residency() -> None:
    """Naive: `S_Q = {m}` and the reduction rank `k` of `Q` are disjoint, so `H` may read `Q`."""
    cascade = Cascade({"m": 4, "k": 6}, ["Q[m] = X[m,k]", "H[m,k] = X[m,k] * Q[m]"])
    nests = {"Q": "m:1 k:2", "H": "m:1 k:2"}
    shared = mapping(group(nests, "Q Q+H m", "X Q+H m k", "H H m k"))
    row = mapping(group(nests, "Q Q+H m", "X Q+H m", "H H m k"))
    assert violations(cascade, FREE, row) == ()
    assert {"m"} & cascade.by_name["Q"].reduction == set()
    assert any("partial sums of Q" in v for v in violations(cascade, FREE, shared))


def test_recomputation_must_give_up_the_result() -> None:
    """Naive: `C` may be held across loop `j` that executes it again; its sums would be counted twice."""
    cascade = Cascade(
        {"i": 4, "l": 6, "k": 3, "j": 4}, ["C[i,l] = X[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j] * X[i,k]"]
    )
    nests = {"C": "i:1 j:2", "E": "i:1 j:2"}
    rest = ("X C+E i j", "B C", "D E", "E E i j")
    held = mapping(group(nests, "C C+E i", *rest))
    given_up = mapping(group(nests, "C C+E i j", *rest))
    assert violations(cascade, FREE, given_up) == ()
    assert evaluate(cascade, FREE, given_up).groups[0].executions == {"C": 2 * 72, "E": 4 * 6 * 3 * 4}
    assert any("counted twice" in v for v in violations(cascade, FREE, held))


def test_an_output_that_leaves_the_group_is_made_once() -> None:
    """Naive: rule 3 is met, as `j` is outside the buffer of `C`; but `C` would be written once per `j`."""
    cascade = Cascade(
        {"i": 4, "l": 6, "k": 3, "j": 4},
        ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]", "F[i] = C[i,l]"],
    )
    chosen = mapping(
        group({"C": "i:1 j:2", "E": "i:1 j:2"}, "C C+E i j", "A C i", "B C", "D E", "E E i j"),
        group({"F": ""}, "C F", "F F"),
    )
    assert any("must be made once" in v for v in violations(cascade, FREE, chosen))


def test_a_ragged_footprint_never_exceeds_the_extent() -> None:
    """Naive: a tensor inside no loop of rank `m` takes tile · trips = 3 · 3 = 9 rows; there are 7."""
    cascade = matmul(7, 2, 1)
    chosen = mapping(group({"Z": "m:3"}, "A Z", "B Z", "Z Z m"))
    assert violations(cascade, FREE, chosen) == ()
    bits = fullest(cascade, FREE, chosen)["GLB"].bits
    assert bits == 8 * (7 * 2 + 2 + 3)
    assert bits != 8 * (3 * ceil(7 / 3) * 2 + 2 + 3)


def test_any_user_keeps_a_tensor_alive_not_only_its_producer() -> None:
    """Naive: `D`, an input of the second operator, takes space only while that operator runs."""
    cascade = Cascade(
        {"i": 4, "l": 4, "k": 16, "j": 8}, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"]
    )
    nests = {"C": "i:1", "E": "i:1"}
    chosen = mapping(group(nests, "C C+E i", "A C i", "B C", "D E", "E E i"))
    while_c, while_e = 16 + 4 * 16 + 4, 4 + 4 * 8 + 8
    ours = fullest(cascade, FREE, chosen)["GLB"].bits
    assert ours == 8 * (while_c + 4 * 8)
    assert ours != 8 * max(while_c, while_e + 4 * 16)


def test_a_shared_tensor_lives_between_its_users() -> None:
    """Naive: a skip tensor takes space while its users run, and none while others run between them."""
    cascade = Cascade(
        {"i": 8, "a": 2, "b": 64, "c": 64},
        ["C[i,a] = A[i,a] + G[i,a]", "D[i,b] = C[i,a] * W[a,b]", "F[i,c] = D[i,b] * X[b,c]",
         "O[i,a] = F[i,c] * C[i,a]"],
    )  # fmt: skip
    nests = dict.fromkeys("CDFO", "i:1")
    held = ("C C+D+O i", "D D+F i", "F F+O i", "A C i", "G C i", "W D i", "X F i", "O O i")
    chosen = mapping(group(nests, *held))
    assert violations(cascade, FREE, chosen) == ()
    naive = 64 + 64 + 64 * 64
    assert fullest(cascade, FREE, chosen)["GLB"].einsum == "F"
    assert fullest(cascade, FREE, chosen)["GLB"].bits == 8 * (naive + 2)


def test_a_later_pass_over_a_reduction_reads_its_partial_sums() -> None:
    """Naive: every pass of a tile through the unit begins its sums and reads `visits - |tile|`."""
    cascade = matmul(4, 6, 4)
    chosen = mapping(group({"Z": "m:2 n:2 k:2"}, "A Z m k", "B Z m n k", "Z Z m n"))
    traffic = evaluate(cascade, FREE, chosen).groups[0].traffic
    updates, passes, tile = 4 * 6 * 4, 2 * 2 * 3, 2 * 2
    drains = 16
    assert traffic["GLB", "Z", "Z"] == Traffic(updates - 16 + drains, updates)
    assert updates - 16 != updates - passes * tile


def test_recomputed_sums_begin_anew() -> None:
    """Naive: a tile begins once per distinct tile; a re-executed producer begins its sums again."""
    cascade = Cascade(
        {"i": 4, "l": 4, "k": 3, "j": 6}, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"]
    )
    nests = {"C": "i:2 j:2 k:1", "E": "i:2 j:2"}
    chosen = mapping(group(nests, "C C+E i j", "A C i", "B C", "D E i j", "E E i j"))
    assert violations(cascade, FREE, chosen) == ()
    updates = 4 * 4 * 3 * 3
    assert evaluate(cascade, FREE, chosen).groups[0].traffic["GLB", "C", "C"] == Traffic(
        updates - 48, updates
    )
    assert updates - 48 != updates - 16


def test_an_online_softmax_in_place_is_corrected_once() -> None:
    """Naive: the barriers on `S` and on `P`, which overwrites it in the same buffer, each charge `O`."""
    cascade = Cascade(
        {"m": 8, "n": 6, "e": 4, "f": 4},
        [
            "S[m,n] = Q[m,e] * K[n,e]",
            {"einsum": "P[m,n] = softmax(S[m,n])", "over": "n", "mode": "online", "in_place": True},
            "O[m,f] = P[m,n] * V[n,f]",
        ],
    )
    chosen = mapping(
        group(dict.fromkeys("SPO", "m:2 n:3"), "S S+P+O m n", "Q S m", "K S m n", "V O m n", "O O m")
    )
    assert violations(cascade, FREE, chosen) == ()
    cost = evaluate(cascade, FREE, chosen)
    assert cost.groups[0].corrections == {"O": 2 * 8 * 4}
    assert cost.operations == 8 * 6 * (4 + 1 + 4) + 2 * 8 * 4


def test_a_spatial_split_of_a_tensors_own_rank_costs_no_factor() -> None:
    """Naive: four cores read four times as much. `A` is split with `m`, `B` is multicast or read by each."""
    cascade = matmul(8, 3, 5)
    for multicast, factor in ((True, 1), (False, 4)):
        hardware = machine(spatial=(SpatialDim("cores", 4, multicast=multicast),))
        spatial = {"Z": {"m": {"cores": 4}}}
        chosen = mapping(group({"Z": ""}, "A Z", "B Z", "Z Z", spatial=spatial))
        assert violations(cascade, hardware, chosen) == ()
        traffic = evaluate(cascade, hardware, chosen).groups[0].traffic
        assert traffic["DRAM", "Z", "A"].reads == 24 != 24 * 4
        assert traffic["DRAM", "Z", "B"].reads == 15 * factor
        assert traffic["GLB", "Z", "B"].writes == 15 * 4


def test_every_instance_begins_its_part_of_a_split_reduction() -> None:
    """Naive: one core begins a sum and the others go on with it. Each begins its own; the tree adds them."""
    cascade = matmul(2, 8, 3)
    hardware = machine(spatial=(SpatialDim("cores", 4),))
    chosen = mapping(group({"Z": ""}, "A Z", "B Z", "Z Z", spatial={"Z": {"k": {"cores": 4}}}))
    traffic = evaluate(cascade, hardware, chosen).groups[0].traffic
    updates = 2 * 8 * 3
    assert traffic["DRAM", "Z", "Z"] == Traffic(0, 6)
    assert traffic["GLB", "Z", "Z"] == Traffic(updates - 4 * 6 + 4 * 6, updates)
    assert updates - 4 * 6 != updates - 6
