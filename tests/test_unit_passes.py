"""Compute units, levels between, ports and totals: small cases counted by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest
from core_tools import group, machine, mapping

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate, fullest, violations
from exactile.formulation.cost import Cost, Traffic
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim
from exactile.formulation.mapping import UnitMapping

MAC = {"mac": OpCost(Fraction(1))}
EW = {"ew": OpCost(Fraction(1))}
FLOWS = ("weight_stationary", "output_stationary", "input_stationary")
M, K, N = 7, 5, 9
MATMUL = Cascade({"m": M, "k": K, "n": N}, ["Z[m,n] = A[m,k] * B[k,n]"])


def on(unit: ComputeUnit, *dims: SpatialDim) -> Hardware:
    """DRAM and a GLB with the given spatial dimensions in front of one unit."""
    base = machine()
    return replace(base, levels=(base.levels[0], replace(base.levels[1], spatial=dims)), compute=(unit,))


def whole(cascade: Cascade, hardware: Hardware, unit: UnitMapping) -> Cost:
    """A single Einsum in one pass, all tensors held whole."""
    (einsum,) = cascade.einsums
    tensors = [access.tensor for access in (*einsum.inputs, einsum.output)]
    name = einsum.name
    chosen = mapping(group({name: ""}, *(f"{t} {name}" for t in tensors), inner={name: unit}))
    assert violations(cascade, hardware, chosen) == ()
    return evaluate(cascade, hardware, chosen)


def glb(cost: Cost, tensor: str) -> Traffic:
    """What the unit moves: the buffer's traffic without its fills and drains."""
    (counts,) = cost.groups
    (einsum,) = counts.executions
    buffer, dram = counts.traffic["GLB", einsum, tensor], counts.traffic["DRAM", einsum, tensor]
    return Traffic(buffer.reads - dram.writes, buffer.writes - dram.reads)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("flow", FLOWS)
def test_systolic_array(flow: str, transposed: bool) -> None:
    rows, cols = (2, 4) if transposed else (4, 2)
    hardware = on(ComputeUnit("array", "systolic", MAC, FLOWS), SpatialDim("rows", 4), SpatialDim("cols", 2))
    cost = whole(MATMUL, hardware, UnitMapping("array", flow, transposed))
    first, second, writes, cycles = {
        "weight_stationary": (M * K * ceil(N / cols), K * N, M * N * ceil(K / rows),
                              ceil(K / rows) * ceil(N / cols) * M),
        "output_stationary": (M * K * ceil(N / cols), K * N * ceil(M / rows), M * N,
                              ceil(M / rows) * ceil(N / cols) * K),
        "input_stationary": (M * K, K * N * ceil(M / cols), M * N * ceil(K / rows),
                             ceil(M / cols) * ceil(K / rows) * N),
    }[flow]  # fmt: skip
    assert glb(cost, "A") == Traffic(first, 0)
    assert glb(cost, "B") == Traffic(second, 0)
    assert glb(cost, "Z") == Traffic(writes - M * N, writes)
    assert cost.groups[0].cycles == {"array": cycles}


def test_batch_ranks_repeat_the_array() -> None:
    cascade = Cascade({"h": 3, "m": M, "k": K, "n": N}, ["Z[h,m,n] = A[h,m,k] * B[h,k,n]"])
    hardware = on(ComputeUnit("array", "systolic", MAC, FLOWS), SpatialDim("rows", 4), SpatialDim("cols", 2))
    cost = whole(cascade, hardware, UnitMapping("array", "weight_stationary"))
    assert glb(cost, "A").reads == 3 * M * K * ceil(N / 2)
    assert cost.groups[0].cycles == {"array": 3 * ceil(K / 4) * ceil(N / 2) * M}


@pytest.mark.parametrize("multicast", [True, False])
def test_instances_split_the_tile_first(multicast: bool) -> None:
    four = SpatialDim("instances", 4, multicast=multicast, reduce=False)
    array = ComputeUnit("array", "systolic", MAC, FLOWS, instances=four)
    hardware = on(array, SpatialDim("rows", 4), SpatialDim("cols", 2))
    split = {"m": {"instances": 2}, "k": {"instances": 2}}
    cost = whole(MATMUL, hardware, UnitMapping("array", "weight_stationary", spatial=split))
    m, k = ceil(M / 2), ceil(K / 2)
    assert glb(cost, "A").reads == M * K * ceil(N / 2)
    assert glb(cost, "B").reads == K * N * (1 if multicast else 2)
    assert glb(cost, "Z").writes == M * N * ceil(k / 4) * 2
    assert cost.groups[0].cycles == {"array": ceil(k / 4) * ceil(N / 2) * m}


@pytest.mark.parametrize("registers", [(), ("weight",), ("output",), ("input", "weight", "output")])
def test_free_array(registers: tuple[str, ...]) -> None:
    """A 4 × 2 array, m on both dimensions (2 · 2), k on rows (2); steps in the order n, m, k."""
    unit = ComputeUnit("pes", "free", MAC, registers=registers)
    hardware = on(unit, SpatialDim("rows", 4), SpatialDim("cols", 2, multicast=False))
    spread = {"m": {"rows": 2, "cols": 2}, "k": {"rows": 2}}
    cost = whole(MATMUL, hardware, UnitMapping("pes", spatial=spread, order=("n", "m", "k")))
    m, k = ceil(M / 4), ceil(K / 2)
    assert glb(cost, "A").reads == M * K * N
    assert glb(cost, "B").reads == K * N * m * 2
    writes = M * N * (1 if "output" in registers else k)
    assert glb(cost, "Z") == Traffic(writes - M * N, writes)
    assert cost.groups[0].cycles == {"pes": m * k * N}


def test_a_held_operand_is_read_again_only_when_it_changes() -> None:
    unit = ComputeUnit("pes", "free", MAC, registers=("weight",))
    cost = whole(MATMUL, on(unit), UnitMapping("pes", order=("n", "k", "m")))
    assert glb(cost, "B").reads == K * N
    assert glb(cost, "A").reads == M * K * N


def test_vector_unit_rounds_up_per_pass() -> None:
    cascade = Cascade({"m": 10, "n": 3}, [{"einsum": "P[m,n] = exp(S[m,n])", "cost": {"exp": 2, "mul": 1}}])
    exp = {"exp": OpCost(Fraction(1, 3), Fraction(4)), "ew": OpCost(Fraction(1, 2))}
    hardware = on(ComputeUnit("vector", "vector", exp, lanes=8))
    chosen = mapping(group({"P": "m:4"}, "S P m", "P P m", inner={"P": UnitMapping("vector")}))
    cost = evaluate(cascade, hardware, chosen)
    assert cost.groups[0].cycles == {"vector": 3 * ceil(12 / 8) * 9}
    assert cost.energy_by_level["vector"] == 30 * (2 * Fraction(1, 3) + Fraction(1, 2))
    assert cost.operations == 90
    assert cost.groups[0].traffic["GLB", "P", "P"] == Traffic(30, 36)


def test_reduction_on_a_vector_unit_reads_back_on_re_entry() -> None:
    cascade = Cascade({"m": 4, "k": 6}, ["Q[m] = X[m,k]"])
    hardware = on(ComputeUnit("vector", "vector", EW, lanes=8))
    chosen = mapping(group({"Q": "k:2"}, "X Q k", "Q Q", inner={"Q": UnitMapping("vector")}))
    cost = evaluate(cascade, hardware, chosen)
    assert cost.groups[0].traffic["GLB", "Q", "Q"] == Traffic(8 + 4, 12)
    assert cost.dram_values == 24 + 4


# --- levels ---------------------------------------------------------------------------------------------


def three_levels() -> Hardware:
    return machine(between=(Level("L1", None),))


def test_inner_boundaries_charge_every_pass_as_a_full_tile() -> None:
    """Ten rows in tiles of four: three passes, each filled as four rows below, ten rows at boundary 0."""
    cascade = Cascade({"m": 10, "k": 2, "n": 3}, ["Z[m,n] = A[m,k] * B[k,n]"])
    inner = group({"Z": "m:2 n:1"}, "A Z m n", "B Z m n", "Z Z m n")
    chosen = mapping(group({"Z": "m:4"}, "A Z m", "B Z", "Z Z m", inner={"Z": inner}))
    traffic = evaluate(cascade, three_levels(), chosen).groups[0].traffic
    assert traffic["DRAM", "Z", "A"].reads == 20
    assert traffic["L1", "Z", "A"] == Traffic(3 * 8, 20)
    assert traffic["L1", "Z", "B"] == Traffic(3 * 2 * 6, 6)
    assert traffic["GLB", "Z", "B"] == Traffic(3 * 2 * 3 * 2 * 2, 36)


def test_bypass_merges_two_boundaries() -> None:
    """`B` skips L1: it comes from DRAM for every trip of both nests but the trailing ones over `m`."""
    cascade = Cascade({"m": 8, "k": 4, "n": 6}, ["Z[m,n] = A[m,k] * B[k,n]"])
    hardware = three_levels()
    l1 = replace(hardware.levels[1], holds=frozenset({"A", "output"}))
    hardware = replace(hardware, levels=(hardware.levels[0], l1, hardware.levels[2]))
    inner = group({"Z": "m:2"}, "A Z m", "B Z m", "Z Z m")
    for nest, visits in (("n:2 m:4", 24), ("m:4 n:2", 48)):
        outer = nest.replace(":2", "").replace(":4", "")
        chosen = mapping(group({"Z": nest}, f"A Z {outer}", f"Z Z {outer}", inner={"Z": inner}))
        assert violations(cascade, hardware, chosen) == ()
        traffic = evaluate(cascade, hardware, chosen).groups[0].traffic
        assert ("L1", "Z", "B") not in traffic
        assert traffic["DRAM", "Z", "B"].reads == visits == traffic["GLB", "Z", "B"].writes


def two_nests(outer: str, inner: str, hardware: Hardware) -> Cost:
    """8 × 4 × 6 over two nests, every buffer inside all loops of its nest."""
    cascade = Cascade({"m": 8, "k": 4, "n": 6}, ["Z[m,n] = A[m,k] * B[k,n]"])
    held = [
        [f"{t} Z {' '.join(p.split(':')[0] for p in nest.split())}" for t in "ABZ"] for nest in (outer, inner)
    ]
    chosen = mapping(group({"Z": outer}, *held[0], inner={"Z": group({"Z": inner}, *held[1])}))
    assert violations(cascade, hardware, chosen) == ()
    return evaluate(cascade, hardware, chosen)


@pytest.mark.parametrize(("inner", "fills"), [("", 2 * 16), ("n:1", 2 * 16), ("n:1 m:2", 6 * 2 * 16)])
def test_an_input_held_whole_stays_over_trailing_loops_of_the_outer_nest(inner: str, fills: int) -> None:
    """`A` comes to GLB once for both `m`, not for all six passes, unless a loop inside moves it. The unit
    reads it in every pass."""
    traffic = two_nests("m:4 n:2", inner, three_levels()).groups[0].traffic
    assert traffic["DRAM", "Z", "A"] == Traffic(32, 0)
    assert traffic["L1", "Z", "A"] == Traffic(fills, 32)
    assert traffic["GLB", "Z", "A"] == Traffic(6 * 4 * 4 * 2, fills)
    if inner == "":
        assert traffic["L1", "Z", "B"].reads == 6 * 8 == traffic["GLB", "Z", "B"].writes
        assert traffic["L1", "Z", "Z"] == Traffic(48, 6 * 8)


def test_partial_sums_held_whole_stay_over_trailing_loops_of_the_outer_nest() -> None:
    """With `k` inside `m` the tile of `Z` is drained once per `m`. With `k` outside it comes back once."""
    traffic = two_nests("m:4 k:2", "k:1", three_levels()).groups[0].traffic
    assert traffic["L1", "Z", "Z"] == Traffic(48, 2 * 24)
    assert traffic["GLB", "Z", "Z"] == Traffic(48 + 8 * 24 - 2 * 24, 8 * 24)
    traffic = two_nests("k:2 m:4", "k:1", three_levels()).groups[0].traffic
    assert traffic["DRAM", "Z", "Z"] == Traffic(48, 96)
    assert traffic["L1", "Z", "Z"] == Traffic(96 + 48, 48 + 4 * 24)
    assert traffic["GLB", "Z", "Z"] == Traffic(96 + 8 * 24 - 2 * 24, 8 * 24 + 48)


def test_inner_buffers_of_a_fused_group_stay_over_own_loops_only() -> None:
    """`C` stays in GLB over `j` of its reader and over `k` of its producer. `B` is the same for both `i`, but
    another Einsum runs in between."""
    cascade = Cascade(
        {"i": 4, "l": 3, "k": 2, "j": 5}, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"]
    )
    inner = {"C": group({"C": ""}, "A C", "B C", "C C"), "E": group({"E": ""}, "C E", "D E", "E E")}
    for nest, fills in (("i:2 k:1", 4 * 3), ("i:2", 2 * 6)):
        outside = "i k" if "k" in nest else "i"
        held = ("C C+E i", f"A C {outside}", "B C", "D E", "E E i j")
        chosen = mapping(group({"C": nest, "E": "i:2 j:1"}, *held, inner=inner))
        assert violations(cascade, three_levels(), chosen) == ()
        traffic = evaluate(cascade, three_levels(), chosen).groups[0].traffic
        assert traffic["L1", "E", "C"] == Traffic(2 * 6, 0)
        assert traffic["GLB", "E", "C"] == Traffic(2 * 5 * 6, 2 * 6)
        assert traffic["L1", "C", "C"] == Traffic(0, 2 * 6)
        assert traffic["L1", "C", "B"] == Traffic(fills, 6)


def test_double_buffering_below_asks_whether_the_tile_ever_changes() -> None:
    """In one pass of an outer tile nothing moves, but outer loops may bring other tiles."""
    hardware = three_levels()
    glb = replace(hardware.levels[2], capacity=10**6, double_buffer=True)
    hardware = replace(hardware, levels=(*hardware.levels[:2], glb))
    a, b, z = 8 * 4, 4 * 2, 8 * 2
    assert two_nests("n:2", "", hardware).peak["GLB"] == 8 * (a + 2 * b + 2 * z)
    assert two_nests("m:4 n:2", "", hardware).peak["GLB"] == 8 * 2 * (a // 2 + b + z // 2)


def test_levels_below_several_cores_count_all_instances_and_time_one() -> None:
    cascade = Cascade({"m": 8, "k": 2, "n": 4}, ["Z[m,n] = A[m,k] * B[k,n]"])
    hardware = machine(spatial=(SpatialDim("cores", 4),))
    port = replace(hardware.levels[1], read_bandwidth=Rate(Fraction(8), "bit"))
    hardware = replace(hardware, levels=(hardware.levels[0], port))
    spread = {"Z": {"m": {"cores": 4}}}
    chosen = mapping(group({"Z": ""}, "A Z", "B Z", "Z Z", spatial=spread))
    cost = evaluate(cascade, hardware, chosen)
    assert fullest(cascade, hardware, chosen)["GLB"].bits == 8 * (2 * 2 + 2 * 4 + 2 * 4)
    assert cost.groups[0].traffic["GLB", "Z", "B"] == Traffic(8 * 2 * 4, 8 * 4)
    values = (64 + 16) + (64 + 32) + (32 + 32 + 64)
    assert cost.latency_by_group[0]["GLB"] == Fraction(values, 4)
    assert cost.groups[0].cycles == {"pe": 2 * 2 * 4}


def test_double_buffering_doubles_what_crosses_more_than_once() -> None:
    cascade = Cascade(
        {"i": 4, "l": 4, "k": 2, "j": 3}, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"]
    )
    hardware = machine()
    doubled = replace(hardware, levels=(hardware.levels[0], replace(hardware.levels[1], double_buffer=True)))
    chosen = mapping(group({"C": "i:1", "E": "i:1"}, "C C+E i", "A C i", "B C", "D E", "E E i"))
    assert dict(fullest(cascade, hardware, chosen)["GLB"].tensors) == {"C": 32, "B": 64, "D": 96, "E": 24}
    assert dict(fullest(cascade, doubled, chosen)["GLB"].tensors) == {"C": 32, "B": 64, "D": 96, "E": 48}


def test_fused_tensor_with_an_outside_reader_is_written_once() -> None:
    cascade = Cascade(
        {"m": 4, "k": 2, "n": 3}, ["Y[m,n] = X[m,k] * W[k,n]", "Z[m,n] = exp(Y[m,n])", "U[m] = Y[m,n]"]
    )
    chosen = mapping(
        group({"Y": "m:1", "Z": "m:1"}, "Y Y+Z m", "X Y m", "W Y", "Z Z m"), group({"U": ""}, "Y U", "U U")
    )
    assert violations(cascade, machine(), chosen) == ()
    traffic = evaluate(cascade, machine(), chosen).groups[0].traffic
    assert traffic["DRAM", "Y", "Y"] == Traffic(0, 12)
    assert ("DRAM", "Z", "Y") not in traffic


def test_ports_launch_and_overlap() -> None:
    """Shared port: reads and writes add. Two ports: the slower counts. No overlap: everything adds."""
    cascade = Cascade({"m": 6, "k": 2, "n": 4}, ["Z[m,n] = A[m,k] * B[k,n]"])
    chosen = mapping(group({"Z": ""}, "A Z", "B Z", "Z Z"))
    base = replace(machine(), launch=Fraction(5))
    reads, writes = 12 + 8, 24
    shared = evaluate(cascade, base, chosen)
    assert shared.latency_by_group[0]["DRAM"] == Fraction(reads + writes, 4)
    assert shared.cycles == 48 + 5
    apart = replace(base.levels[0], shared_port=False, write_bandwidth=Rate(Fraction(1, 3), "value"))
    split = evaluate(cascade, replace(base, levels=(apart, base.levels[1])), chosen)
    assert split.latency_by_group[0]["DRAM"] == writes * 3
    assert split.cycles == 72 + 5
    serial = evaluate(cascade, replace(base, overlap="none"), chosen)
    assert serial.cycles == 48 + Fraction(reads + writes, 4) + 5
    assert serial.edp == serial.energy * serial.cycles


def test_energy_per_bit_follows_the_width() -> None:
    cascade = Cascade({"m": 6}, ["Y[m] = exp(X[m])"], tensors={"X": {"bits": 16}, "Y": {"bits": 4}})
    hardware = machine()
    dram = replace(
        hardware.levels[0], read_energy=Rate(Fraction(1, 7)), write_energy=Rate(Fraction(2), "value")
    )
    chosen = mapping(group({"Y": ""}, "X Y", "Y Y"))
    cost = evaluate(cascade, replace(hardware, levels=(dram, hardware.levels[1])), chosen)
    assert cost.energy_by_level["DRAM"] == Fraction(6 * 16, 7) + 6 * 2
    assert (cost.dram_values, cost.dram_bits, cost.dram_bytes) == (12, 120, 15)
    assert sum(cost.energy_by_level.values()) == sum(cost.energy_by_einsum.values()) == cost.energy
    assert cost.energy_by_tensor["X"] == Fraction(6 * 16, 7) + 6 * 7 + 6 * 6
