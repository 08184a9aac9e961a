"""The replay: what it counts is what the core computes, what it computes is what numpy computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import Case, broken_case, cases, random_case, random_inputs

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, violations
from exactile.formulation.cost import GroupCounts, Traffic
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, SpatialDim
from exactile.formulation.mapping import Buffer, Group, Loop, Mapping, UnitMapping
from exactile.solver.replay import ReplayError, reference, replay
from exactile.solver.replay.unit import unit_pass

CASES, CHUNK = 1040, 40


def flat(groups: Iterable[GroupCounts]) -> dict[tuple[object, ...], object]:
    """Every count under its own name; a count of nothing is as good as none."""
    found: dict[tuple[object, ...], object] = {}
    for position, group in enumerate(groups):
        for key, moved in group.traffic.items():
            found[(position, "reads", *key)] = moved.reads
            found[(position, "writes", *key)] = moved.writes
        for kind in ("peak", "executions", "corrections", "cycles"):
            for name, amount in getattr(group, kind).items():
                found[position, kind, name] = amount
    return {key: amount for key, amount in found.items() if amount}


def check(case: Case, seed: int) -> None:
    """Core, replay and numpy agree on one case."""
    inputs = random_inputs(case.cascade, seed)
    observed = replay(case.cascade, case.hardware, case.mapping, numbers=inputs)
    computed = evaluate(case.cascade, case.hardware, case.mapping)
    assert flat(computed.groups) == flat(observed.groups), f"seed {seed}"
    right = reference(case.cascade, inputs)
    assert observed.values
    for tensor, values in observed.values.items():
        np.testing.assert_allclose(
            values, right[tensor], rtol=1e-9, atol=1e-9, err_msg=f"{tensor}, seed {seed}"
        )


@pytest.mark.parametrize("start", range(0, CASES, CHUNK))
def test_core_replay_and_numpy_agree(start: int) -> None:
    for seed in range(start, start + CHUNK):
        check(random_case(seed), seed)


@settings(max_examples=40, deadline=None)
@given(cases)
def test_they_agree_wherever_hypothesis_looks(case: Case) -> None:
    check(case, 0)


def features(case: Case) -> set[str]:
    """What is special about a case."""
    found = {f"{len(case.cascade.einsums)} Einsums"}
    einsums, ranks = case.cascade.by_name, case.cascade.ranks
    for group in case.mapping.groups:
        for name in group.order:
            for loop in group.nests[name]:
                if loop.tile >= ranks[loop.rank]:
                    found.add("trip-1 loop")
                elif loop.rank not in einsums[name].ranks:
                    found.add("recomputation")
                if loop.tile < ranks[loop.rank] and ranks[loop.rank] % loop.tile:
                    found.add("ragged tile")
                if loop.tile < ranks[loop.rank] and loop.rank in einsums[name].reduction:
                    found.add("tiled reduction")
        own = {buffer.tensor for buffer in group.buffers}
        for buffer in group.buffers:
            made = buffer.tensor in group.order
            if len(buffer.users) > 1:
                found.add("fused" if made else "shared input")
            if len(buffer.users) > 2 and made:
                found.add("several consumers")
            if any(user not in own and einsums[user].in_place for user in buffer.users) and made:
                found.add("in place")
            if made and len(buffer.users) > 1 and case.cascade.tensors[buffer.tensor].role == "output":
                found.add("fused output")
        if any(_skips(case, group, name) for name in group.order):
            found.add("skip")
        if any(isinstance(inner, Group) for inner in group.inner.values()):
            found.add("three levels")
    observed = evaluate(case.cascade, case.hardware, case.mapping)
    if any(any(group.corrections.values()) for group in observed.groups):
        found.add("corrections")
    return found


def _skips(case: Case, group: Group, name: str) -> bool:
    """A tensor of the group that is read by more than the next Einsum."""
    readers = [user.name for user in case.cascade.consumers[name] if user.name in group.order]
    return any(group.order.index(reader) > group.order.index(name) + 1 for reader in readers)


def test_the_random_cases_are_as_varied_as_promised() -> None:
    seen = Counter(feature for seed in range(CASES) for feature in features(random_case(seed)))
    assert seen["recomputation"] >= CASES / 10, seen
    for feature in (
        "2 Einsums",
        "3 Einsums",
        "4 Einsums",
        "fused",
        "ragged tile",
        "trip-1 loop",
        "tiled reduction",
    ):
        assert seen[feature] >= CASES / 6, seen
    for feature in ("shared input", "skip", "several consumers", "in place", "fused output", "three levels"):
        assert seen[feature] >= CASES / 20, seen
    assert seen["corrections"] >= CASES / 100, seen


# the comparison can fail


@pytest.mark.parametrize("kind", ["reads", "writes", "peak", "executions", "cycles"])
def test_one_wrong_count_is_noticed(kind: str) -> None:
    case = random_case(1)
    group, *others = replay(case.cascade, case.hardware, case.mapping).groups
    if kind in ("reads", "writes"):
        key = next(iter(group.traffic))
        one = Traffic(reads=1) if kind == "reads" else Traffic(writes=1)
        wrong = replace(group, traffic={**group.traffic, key: group.traffic[key] + one})
    else:
        counts = getattr(group, kind)
        name = next(iter(counts))
        wrong = replace(group, **{kind: {**counts, name: counts[name] + 1}})
    right = flat(evaluate(case.cascade, case.hardware, case.mapping).groups)
    assert flat([group, *others]) == right != flat([wrong, *others])


@pytest.mark.parametrize(
    ("name", "naive"),
    [
        ("plan.kept_depth", lambda ranks, nest, depth, shared: depth),
        ("boundary.origin", lambda view, ranks: ()),
        ("boundary.cut", lambda intervals, offset, tile: tuple((a, a + tile) for a, _ in intervals)),
        ("plan.shared_depth", lambda einsum, order, shared: 0),
    ],
)
def test_a_naive_replay_is_noticed(name: str, naive: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Irrelevant loops kept, every tile taken for begun, edge tiles at full size, shared loops forgotten."""
    monkeypatch.setattr(f"exactile.solver.replay.{name}", naive)
    wrong = 0
    for seed in range(60):
        case = random_case(seed)
        observed = replay(case.cascade, case.hardware, case.mapping).groups
        wrong += flat(observed) != flat(evaluate(case.cascade, case.hardware, case.mapping).groups)
    assert wrong >= 3


# illegal mappings compute something wrong, and the replay says so


@pytest.mark.parametrize("seed", range(30))
def test_consuming_partial_sums_goes_wrong(seed: int) -> None:
    case = broken_case(seed, ["would read partial sums"])
    with pytest.raises(ReplayError, match="which holds partial sums"):
        replay(case.cascade, case.hardware, case.mapping, numbers=random_inputs(case.cascade, seed))


def vector_machine(double_buffer: bool = False) -> Hardware:
    """Two levels and a vector unit of one lane."""
    ops = {"ew": OpCost(Fraction(1)), "mac": OpCost(Fraction(1))}
    levels = (Level("DRAM"), Level("GLB", capacity=10**6, double_buffer=double_buffer))
    return Hardware("vector machine", levels, (ComputeUnit("vector", "vector", ops),))


def group(
    order: str, nests: dict[str, str], buffers: Iterable[tuple[str, str, str]], tiles: dict[str, int]
) -> Group:
    """`nests` and the sets of `buffers` (tensor, users, outside) as words of rank names."""
    return Group(
        tuple(order.split()),
        {e: tuple(Loop(rank, tiles[rank]) for rank in nest.split()) for e, nest in nests.items()},
        tuple(Buffer(t, tuple(users.split()), frozenset(outside.split())) for t, users, outside in buffers),
        {e: UnitMapping("vector") for e in order.split()},
    )


def attention(**keys: object) -> Cascade:
    """Two products with a softmax between them, 4 rows, 6 keys, depth 2."""
    softmax = {"einsum": "P[m,n] = softmax(S[m,n])", "over": "n", "in_place": True, **keys}
    return Cascade(
        {"m": 4, "n": 6, "e": 2, "f": 2},
        ["S[m,n] = Q[m,e] * K[n,e]", softmax, "O[m,f] = P[m,n] * V[n,f]"],
    )


def flash(outer: str = "m n", tiles: dict[str, int] | None = None) -> Mapping:
    """All three Einsums under the loops `outer`, S and P in one buffer."""
    first = outer.split()[0]
    buffers = [
        ("S", "S P O", outer),
        ("Q", "S", first),
        ("K", "S", outer),
        ("V", "O", outer),
        ("O", "O", first),
    ]
    nests = dict.fromkeys(("S", "P", "O"), outer)
    return Mapping((group("S P O", nests, buffers, tiles or {"m": 2, "n": 3}),))


def test_a_row_softmax_does_not_wait_for_its_row() -> None:
    cascade = attention(mode="row")
    with pytest.raises(
        ReplayError, match=r"P needs S \[m 0..1, n 0..5\], which (is not there|holds partial)"
    ):
        replay(cascade, vector_machine(), flash(), numbers=random_inputs(cascade, 0))


def test_a_consumer_runs_before_its_producer() -> None:
    cascade = Cascade({"m": 2}, ["B[m] = exp(A[m])", "C[m] = relu(B[m])"])
    one, two = (
        group(e, {e: ""}, [(x, e, ""), (e, e, "")], {}) for e, x in (("B", "A"), ("C", "B"))
    )  # fmt: skip
    with pytest.raises(ReplayError, match=r"C needs B \[m 0..1\], which is not there"):
        replay(cascade, vector_machine(), Mapping((two, one)), numbers={"A": np.ones(2)})


def test_a_tensor_is_read_before_it_is_written_in_place() -> None:
    over = {"einsum": "C[m] = relu(B[m])", "in_place": True}
    cascade = Cascade({"m": 2}, ["B[m] = exp(A[m])", over, "D[m] = tanh(C[m])"])
    buffers = [("A", "B", ""), ("B", "B C D", ""), ("D", "D", "")]
    right = group("B C D", {"B": "", "C": "", "D": ""}, buffers, {})
    values = replay(cascade, vector_machine(), Mapping((right,)), numbers={"A": np.ones(2)}).values
    np.testing.assert_allclose(values["D"], np.tanh(np.e))
    swapped = replace(right, order=("B", "D", "C"))
    with pytest.raises(ReplayError, match=r"D needs C \[m 0..1\], which is not there"):
        replay(cascade, vector_machine(), Mapping((swapped,)), numbers={"A": np.ones(2)})


def test_a_held_result_is_made_twice() -> None:
    """X makes C share the loop j, but C is kept over it: every sum would be added up twice."""
    cascade = Cascade({"i": 2, "j": 2, "k": 2}, ["C[i] = X[i] * A[i,k]", "E[i,j] = C[i] * X[i] * D[j]"])
    buffers = [("C", "C E", ""), ("X", "C E", "j"), ("A", "C", "j"), ("D", "E", "j"), ("E", "E", "j")]
    mapping = Mapping((group("C E", {"C": "j", "E": "j"}, buffers, {"j": 1}),))
    assert any("its result is kept" in reason for reason in violations(cascade, vector_machine(), mapping))
    with pytest.raises(ReplayError, match=r"C adds to its tile \[i 0..1\] after it was complete"):
        replay(cascade, vector_machine(), mapping, numbers=random_inputs(cascade, 0))


def test_an_output_that_is_never_made_is_missed() -> None:
    with pytest.raises(ReplayError, match="B is not complete when everything has run"):
        replay(
            Cascade({"m": 2}, ["B[m] = exp(A[m])"]), vector_machine(), Mapping(()), numbers={"A": np.ones(2)}
        )


def test_what_cannot_be_executed_is_refused() -> None:
    cascade, machine = attention(mode="row"), vector_machine()
    tree = flash().groups[0]
    with pytest.raises(ReplayError, match="not the leading loops of S"):
        replay(cascade, machine, Mapping((replace(tree, buffers=(Buffer("Q", ("S",), frozenset("n")),)),)))
    other = {**tree.nests, "O": (Loop("m", 2), Loop("n", 2))}
    with pytest.raises(ReplayError, match="do not have the same one"):
        replay(cascade, machine, Mapping((replace(tree, nests=other),)))
    with pytest.raises(ReplayError, match="kept on chip"):
        replay(cascade, machine, Mapping((tree,), kept_between_groups=("S",)))
    with pytest.raises(ReplayError, match="plain ranks"):
        replay(Cascade({"p": 3, "s": 2}, ["Y[p] = X[p+s] * W[s]"]), machine, Mapping(()))


# counted by hand


def test_a_matmul_by_hand() -> None:
    """4×4×4 in tiles of 2, order m n k, A and B moved every step, Z kept over k."""
    cascade = Cascade({"m": 4, "n": 4, "k": 4}, ["Z[m,n] = A[m,k] * B[k,n]"])
    buffers = [("A", "Z", "m n k"), ("B", "Z", "m n k"), ("Z", "Z", "m n")]
    mapping = Mapping((group("Z", {"Z": "m n k"}, buffers, {"m": 2, "n": 2, "k": 2}),))
    (counts,) = replay(cascade, vector_machine(), mapping).groups
    assert counts.traffic["DRAM", "Z", "A"] == Traffic(
        reads=32
    )  # 16 values, again for each of 2 column blocks
    assert counts.traffic["DRAM", "Z", "B"] == Traffic(reads=32)
    assert counts.traffic["DRAM", "Z", "Z"] == Traffic(writes=16)  # complete when it leaves
    assert counts.traffic["GLB", "Z", "A"] == Traffic(reads=32, writes=32)  # 8 passes of 4 values
    assert counts.traffic["GLB", "Z", "Z"] == Traffic(reads=16 + 16, writes=32)  # drained; added to once
    assert counts.peak == {"GLB": 3 * 4 * 8}
    assert counts.executions == {"Z": 64} and counts.cycles == {"vector": 64}


def test_partial_sums_and_ragged_edges_by_hand() -> None:
    """k outermost in tiles of 2, 2, 1: Z comes back twice; the last pass is charged as a full tile inside."""
    cascade = Cascade({"m": 3, "k": 5}, ["Z[m] = A[m,k] * B[k]"])
    buffers = [("A", "Z", "k m"), ("B", "Z", "k"), ("Z", "Z", "k m")]
    mapping = Mapping((group("Z", {"Z": "k m"}, buffers, {"m": 2, "k": 2}),))
    (counts,) = replay(cascade, vector_machine(double_buffer=True), mapping).groups
    assert counts.traffic["DRAM", "Z", "Z"] == Traffic(reads=6, writes=9)
    assert counts.traffic["DRAM", "Z", "A"] == Traffic(reads=15)
    assert counts.traffic["GLB", "Z", "A"] == Traffic(reads=6 * 4, writes=15)
    assert counts.traffic["GLB", "Z", "Z"] == Traffic(reads=9 + 6 * 2 - 2 * 2, writes=6 + 6 * 2)
    assert counts.peak == {"GLB": 2 * (4 + 2 + 2) * 8}
    assert counts.executions == {"Z": 15} and counts.cycles == {"vector": 6 * 4}


def test_an_online_softmax_by_hand() -> None:
    """Two tiles of keys: O is rescaled once for each, S and P never leave the chip."""
    cascade = attention(mode="online")
    inputs = random_inputs(cascade, 3)
    result = replay(cascade, vector_machine(), flash(), numbers=inputs)
    (counts,) = result.groups
    assert counts.corrections == {"O": 2 * 8}
    dram = {tensor: moved for (level, _, tensor), moved in counts.traffic.items() if level == "DRAM"}
    assert dram == {
        "Q": Traffic(reads=8),
        "K": Traffic(reads=2 * 12),
        "V": Traffic(reads=2 * 12),
        "O": Traffic(writes=8),
    }
    assert counts.peak == {"GLB": (6 + 4 + 6 + 4) * 8}  # S with Q, K and O, then S with Q, V and O
    assert counts.cycles == {"vector": 48 + 24 + 48 + 16}
    np.testing.assert_allclose(result.values["O"], reference(cascade, inputs)["O"], rtol=1e-12)


def test_recomputation_by_hand() -> None:
    """The tile of C is given up for every column tile of D, and made again."""
    cascade = Cascade(
        {"i": 2, "k": 3, "l": 2, "j": 4}, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"]
    )
    buffers = [("C", "C E", "j i"), ("A", "C", "j i"), ("B", "C", ""), ("D", "E", "j"), ("E", "E", "j i")]
    tree = group("C E", {"C": "j i", "E": "j i"}, buffers, {"i": 1, "j": 2})
    inputs = random_inputs(cascade, 5)
    result = replay(cascade, vector_machine(), Mapping((tree,)), numbers=inputs)
    (counts,) = result.groups
    assert counts.executions == {"C": 2 * 12, "E": 16}
    assert counts.traffic["DRAM", "C", "A"] == Traffic(reads=2 * 6)
    assert counts.traffic["DRAM", "C", "B"] == Traffic(reads=6)
    assert ("DRAM", "C", "C") not in counts.traffic
    assert np.array_equal(result.values["E"], inputs["A"] @ inputs["B"].T @ inputs["D"])


@pytest.mark.parametrize(
    ("dataflow", "first", "second", "result", "cycles"),
    [
        ("weight_stationary", 5 * 7 * 2, 7 * 6, 5 * 6 * 3, 3 * 2 * 5),
        ("output_stationary", 5 * 7 * 2, 7 * 6 * 2, 5 * 6, 2 * 2 * 7),
        ("input_stationary", 5 * 7, 7 * 6 * 2, 5 * 6 * 3, 2 * 3 * 6),
    ],
)
def test_a_systolic_pass_by_hand(dataflow: str, first: int, second: int, result: int, cycles: int) -> None:
    """M, N, K = 5, 6, 7 on 3 rows and 4 columns."""
    cascade = Cascade({"m": 5, "n": 6, "k": 7}, ["Z[m,n] = A[m,k] * B[k,n]"])
    unit = ComputeUnit("array", "systolic", {"mac": OpCost(Fraction(1))}, (dataflow,))
    spatial = (SpatialDim("rows", 3), SpatialDim("cols", 4))
    machine = Hardware("array", (Level("DRAM"), Level("GLB", spatial=spatial)), (unit,))
    done = unit_pass(cascade, machine, cascade.einsums[0], UnitMapping("array", dataflow), cascade.ranks)
    assert (done.reads, done.writes, done.cycles) == ({"A": first, "B": second}, result, cycles)


@pytest.mark.parametrize(("held", "reads"), [((), 6 * 4), (("input",), 6 * 2), (("input", "weight"), 6 * 2)])
def test_a_free_array_holds_what_it_may(held: tuple[str, ...], reads: int) -> None:
    """A[m,k] on an array of 2 with n spread over it: 4 columns in 2 steps, innermost."""
    cascade = Cascade({"m": 2, "n": 4, "k": 3}, ["Z[m,n] = A[m,k] * B[k,n]"])
    unit = ComputeUnit("array", "free", {"mac": OpCost(Fraction(1))}, ("free",), held)
    once = SpatialDim("rows", 2, multicast=False)
    machine = Hardware("array", (Level("DRAM"), Level("GLB", spatial=(once,))), (unit,))
    mapping = UnitMapping("array", "free", spatial={"n": {"rows": 2}}, order=("m", "k", "n"))
    done = unit_pass(cascade, machine, cascade.einsums[0], mapping, cascade.ranks)
    assert done.reads == {"A": reads, "B": 12 * 2} and done.cycles == 12
