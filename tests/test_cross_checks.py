"""Values known from elsewhere: the model's table of least traffic, AccelForge's and Orojenesis's answers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal

import pytest
from proved import proved

from exactile.formulation.cascade import Cascade
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost, Rate, SpatialDim
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.load import load_hardware

ONCE = Mapspace(recomputation=False)
# cycles of the multiplications alone on 1 024 MACs: no mapping can be faster
FLOOR_512, FLOOR_2048 = 2 * 12 * 512 * 512 * 64 // 1024, 2 * 32 * 2048 * 2048 * 128 // 1024


def buffer_only(values: int) -> Hardware:
    """DRAM and one buffer of 8-bit values; nothing else matters."""
    mac = ComputeUnit("array", "free", {"mac": OpCost(Fraction(1))}, ("free",))
    return Hardware("buffer", (Level("DRAM"), Level("GLB", values * 8)), (mac,))


def head(tokens: int, size: int) -> Cascade:
    ranks = {"i": tokens, "l": tokens, "k": size, "j": size}
    return Cascade(ranks, ["C[i,l] = A[i,k] * B[l,k]", "E[i,j] = C[i,l] * D[l,j]"])


def least_traffic(work: Cascade, values: int, mapspace: Mapspace) -> Fraction:
    """In values: they are one byte each."""
    return proved(Problem(work, buffer_only(values), Objective("dram_traffic", ()), mapspace)).dram_bytes


TABLE = [
    # tokens, head size, capacity, least, without recomputation, unfused
    (512, 64, 8_192, 851_968, 1_081_344, 1_114_112),
    (512, 64, 16_384, 458_752, 589_824, 851_968),
    (512, 64, 32_768, 262_144, 327_680, 720_896),
    (512, 64, 65_536, 163_840, 196_608, 655_360),
    (2_048, 128, 262_144, 2_097_152, 2_621_440, 9_961_472),
    (16_384, 128, 262_144, 104_857_600, 138_412_032, 608_174_080),
]


@pytest.mark.parametrize(("tokens", "size", "capacity", "least", "once", "unfused"), TABLE)
def test_least_traffic_of_a_head(
    tokens: int, size: int, capacity: int, least: int, once: int, unfused: int
) -> None:
    work = head(tokens, size)
    assert least_traffic(work, capacity, Mapspace()) == least
    assert least_traffic(work, capacity, ONCE) == once
    assert least_traffic(work, capacity, Mapspace(fusion="none")) == unfused


@pytest.mark.parametrize(
    ("capacity", "least", "once"),
    [(8_192, 655_360, 655_360), (16_384, 393_216, 393_216), (65_536, 163_840, 196_608)],
)
def test_least_traffic_of_a_head_with_every_tile_size(capacity: int, least: int, once: int) -> None:
    work = head(512, 64)
    assert least_traffic(work, capacity, Mapspace("all")) == least
    assert least_traffic(work, capacity, replace(ONCE, tile_sizes="all")) == once


@pytest.mark.slow
@pytest.mark.parametrize("recomputation", [True, False])
def test_least_traffic_of_a_long_head_with_every_tile_size(recomputation: bool) -> None:
    space = Mapspace("all", recomputation=recomputation)
    assert least_traffic(head(16_384, 128), 262_144, space) == 75_497_472


def layer(heads: int, tokens: int, size: int) -> Cascade:
    ranks = {"h": heads, "m": tokens, "n": tokens, "e": size, "f": size}
    return Cascade(ranks, ["S[h,m,n] = Q[h,m,e] * K[h,n,e]", "O[h,m,f] = S[h,m,n] * V[h,n,f]"])


def on_unit_energy(
    work: Cascade, kib: int, objective: Objective | Literal["energy"], mapspace: Mapspace = ONCE
) -> Problem:
    machine = load_hardware("unit-energy-32x32")
    dram, buffer = machine.levels
    machine = replace(machine, levels=(dram, replace(buffer, capacity=kib * 1024 * 8)))
    chosen = Objective(objective) if isinstance(objective, str) else objective
    return Problem(work, machine, chosen, mapspace)


def test_the_machine_of_the_cross_checks() -> None:
    machine = load_hardware("unit-energy-32x32")
    dram, buffer = machine.levels
    assert dram.read_energy == dram.write_energy == Rate(Fraction(200), "value")
    assert dram.read_bandwidth == Rate(Fraction(64), "value")
    assert dram.shared_port
    assert buffer.capacity == 8 * 2**20
    assert buffer.read_energy == buffer.write_energy == Rate(Fraction(6), "value")
    assert buffer.read_bandwidth is None and buffer.write_bandwidth is None
    assert buffer.spatial == (SpatialDim("rows", 32), SpatialDim("cols", 32))
    (array,) = machine.compute
    assert (array.kind, array.registers, array.ops["mac"]) == ("free", (), OpCost(Fraction(1)))


def test_energy_of_bert_base_attention() -> None:
    cost = proved(on_unit_energy(layer(12, 512, 64), 1024, "energy"))
    assert cost.energy == 1_611_399_168
    assert cost.dram_values == 1_572_864
    assert cost.cycles == FLOOR_512 == 393_216


def test_energy_of_bert_base_attention_unfused() -> None:
    space = replace(ONCE, fusion="none")
    cost = proved(on_unit_energy(layer(12, 512, 64), 1024, "energy", space))
    assert cost.energy == 2_907_439_104


def test_energy_of_gpt3_attention() -> None:
    cost = proved(on_unit_energy(layer(32, 2048, 128), 1024, "energy"))
    assert cost.energy == 117_725_724_672
    assert cost.dram_values == 33_554_432


def test_energy_of_gpt3_attention_in_a_small_buffer() -> None:
    """AccelForge shares at most one loop per rank, so our optimum is never above its."""
    assert proved(on_unit_energy(layer(32, 2048, 128), 16, "energy")).energy <= 278_434_676_736


@pytest.mark.parametrize(
    ("work", "floor", "energy"),
    [
        (layer(12, 512, 64), FLOOR_512, 1_611_399_168),
        (layer(32, 2048, 128), FLOOR_2048, 117_725_724_672),
    ],
    ids=["bert-base", "gpt3-6.7b"],
)
def test_the_least_latency_wastes_no_energy(work: Cascade, floor: int, energy: int) -> None:
    """The least energy of all mappings comes at the floor of the cycles: the tie-break must find it."""
    cost = proved(on_unit_energy(work, 1024, Objective("latency", ("energy",))))
    assert (cost.cycles, cost.energy) == (floor, energy)


def matmul() -> Cascade:
    return Cascade({"m": 2048, "k": 128, "n": 2048}, ["Z[m,n] = A[m,k] * B[k,n]"])


def test_a_matmul_with_divisors() -> None:
    """Orojenesis gives the same number."""
    assert least_traffic(matmul(), 65_536, Mapspace()) == 6_553_600


def test_a_matmul_with_every_tile_size() -> None:
    """Five tiles of 410 columns, the last 408: timeloop counts 5 767 168 words for that mapping."""
    assert least_traffic(matmul(), 65_536, Mapspace("all")) <= 5_767_168


@pytest.mark.parametrize("tile_sizes", ["divisors", "all"])
def test_ragged_tiles_never_beat_arithmetic(tile_sizes: Literal["divisors", "all"]) -> None:
    """Two matmuls of extents 37 are 98.9 cycles of work for 1 024 MACs: 100 in whole steps."""
    ranks = dict.fromkeys("mknp", 37)
    work = Cascade(ranks, ["C[m,n] = A[m,k] * B[k,n]", "E[m,p] = C[m,n] * D[n,p]"])
    problem = on_unit_energy(work, 1024, Objective("latency", ()), Mapspace(tile_sizes))
    assert proved(problem).cycles >= 100
