"""Whole cascades by one CP-SAT model: least DRAM traffic at four buffers, and energy of whole blocks.

    python bench/cascades.py [--engine cpsat] [--time-limit 120] [--only 'block*']

Every row is one search in the written execution order with divisor tiles: value and bound in millions (of
values moved, or pJ), the gap, seconds to the proof or the limit, and the value and seconds of the constructed
start. `known` is the optimum of an independent prototype of the same model; the exit status is 1 if a proved
optimum differs from it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from fractions import Fraction

import exactile as ex
from exactile.formulation.core import evaluate
from exactile.formulation.problem import Mapspace, Objective
from exactile.solver.construct import construct
from exactile.solver.engine import Control
from exactile.solver.engines import ENGINES

KIB = 8 * 1024
BUFFERS = {"256 KiB": 256 * KIB, "1 MiB": 1024 * KIB, "4 MiB": 4096 * KIB, "24 MiB": 24576 * KIB}


@dataclass(frozen=True)
class Rung:
    """A cascade on one buffer; `known`: its optimum in values moved, `None` if nobody published it."""

    cascade: ex.Cascade
    objective: str
    buffer: str
    known: int | None = None

    @property
    def name(self) -> str:
        return f"{self.cascade.name}, {self.buffer}, {self.objective}"

    def problem(self) -> ex.Problem:
        machine = ex.hardware("nvdla-like")
        buffer = replace(machine.levels[1], capacity=BUFFERS[self.buffer])
        return ex.Problem(
            self.cascade,
            replace(machine, levels=(machine.levels[0], buffer)),
            Objective(self.objective, ()),
            Mapspace(order="given"),
            name=self.name,
        )


def attention(mode: str) -> ex.Cascade:
    sides = {"m": 2048, "n": 2048, "e": 128, "f": 128}
    softmax = {"einsum": "P[m,n] = softmax(S[m,n])", "over": "n", "mode": mode, "in_place": True}
    einsums = ["S[m,n] = Q[m,e] * K[n,e]", softmax, "O[m,f] = P[m,n] * V[n,f]"]
    return ex.Cascade(sides, einsums, bits=16, name=f"attention, {mode}")


def feed_forward(*, gated: bool) -> ex.Cascade:
    sides = {"t": 2048, "d": 4096, "f": 16384, "e": 4096}
    plain = ["B[t,f] = X[t,d] * W1[d,f]", {"einsum": "A[t,f] = gelu(B[t,f])", "in_place": True}]
    both = [
        "G[t,f] = X[t,d] * WG[d,f]",
        "U[t,f] = X[t,d] * WU[d,f]",
        {"einsum": "A[t,f] = silu(G[t,f]) * U[t,f]", "in_place": "G"},
    ]
    last = "Y[t,e] = A[t,f] * W2[f,e]"
    name = "gated FFN" if gated else "FFN"
    return ex.Cascade(sides, [*(both if gated else plain), last], bits=16, name=name)


def block(name: str, **sides: int) -> ex.Cascade:
    """The shipped block of twelve Einsums, its streams counted as separate inputs."""
    shipped = ex.workload("transformer-block-1k")
    return ex.Cascade({**shipped.ranks, **sides}, shipped.einsums, bits=16, name=name)


KNOWN = {
    "attention, online": (3_670_016, 1_310_720, 1_048_576, 1_048_576),
    "attention, row": (19_398_656, 1_310_720, 1_048_576, 1_048_576),
    "FFN": (2_189_426_688, 1_115_684_864, 578_813_952, 218_103_808),
    "gated FFN": (3_263_168_512, 1_652_555_776, 847_249_408, 285_212_672),
    "block 1k": (241_172_480, 132_120_576, 53_477_376, 20_971_520),
}


def rungs() -> Iterator[Rung]:
    small = block("block 1k")
    large = block("block GPT-3 6.7B", d=4096, k=4096, o=4096, p=4096, h=32, c=128, v=128, f=16384)
    cascades = (
        attention("online"),
        attention("row"),
        feed_forward(gated=False),
        feed_forward(gated=True),
        small,
    )
    for cascade in cascades:
        for buffer, known in zip(BUFFERS, KNOWN[cascade.name], strict=True):
            yield Rung(cascade, "dram_traffic", buffer, known)
    for cascade in (small, large):
        for buffer in ("1 MiB", "4 MiB"):
            yield Rung(cascade, "energy", buffer)
    yield Rung(small, "latency", "1 MiB")
    yield Rung(large, "dram_traffic", "4 MiB")


def run(rung: Rung, engine: str, time_limit: float) -> bool:
    """One row of the table; false if it proves something else than is known."""
    problem = rung.problem()
    start = time.perf_counter()
    first = construct(problem, Control(time_limit / 10))
    built = time.perf_counter() - start
    start = time.perf_counter()
    outcome = ENGINES[engine].load()(problem, Control(time_limit))
    seconds = time.perf_counter() - start
    unit = 2 if rung.objective == "dram_traffic" else 1  # bytes of a value

    def shown(value: Fraction | None) -> str:
        return "" if value is None else f"{float(value / unit) / 1e6:,.3f}"

    def cost(mapping: ex.Mapping | None) -> Fraction | None:
        if mapping is None:
            return None
        return evaluate(problem.cascade, problem.hardware, mapping).quantity(rung.objective)

    value, bound = cost(outcome.mapping), outcome.bound
    gap = "" if not value or bound is None else f"{float((value - bound) / value):.1%}"
    right = rung.known is None or outcome.status != "optimal" or value == rung.known * unit
    verdict = outcome.status if right else f"WRONG, known {rung.known}"
    cells = (
        rung.name,
        shown(value),
        shown(bound),
        gap,
        verdict,
        f"{seconds:.1f}",
        shown(cost(first)),
        f"{built:.1f}",
    )
    print("| " + " | ".join(cells) + " |", flush=True)
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description="Whole cascades by one model.")
    parser.add_argument("--engine", default="cpsat", choices=sorted(ENGINES))
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds per search (default 120)")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names, like 'block*energy'")
    given = parser.parse_args()
    print("| cascade | value | bound | gap | status | seconds | start | its seconds |")
    print("|---|--:|--:|--:|---|--:|--:|--:|")
    right = [run(rung, given.engine, given.time_limit) for rung in rungs() if fnmatch(rung.name, given.only)]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
