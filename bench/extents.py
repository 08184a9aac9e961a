"""Time against extents: a gated network of growing length costs its candidates, not its tokens.

`python bench/extents.py [--engine cpsat]` optimises the same cascade with 2 048 to 2^20 tokens and prints a
Markdown table: candidate tiles, seconds, and seconds over those of the smallest.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

from exactile import Cascade, Mapspace, Objective, Problem, optimize
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, OpCost

TOKENS = tuple(2**power for power in (11, 12, 14, 16, 18, 20))
MIB = 8 * 2**20
HEADER = "| tokens | tiles | seconds | ratio | DRAM traffic (bytes) | proved |\n|---|---|---|---|---|---|"


def feed_forward(tokens: int) -> Problem:
    """Two projections that share their input, a product and the way back, in 1 MiB."""
    equations = [
        "G[t,f] = X[t,d] * WG[d,f]",
        "U[t,f] = X[t,d] * WU[d,f]",
        "H[t,f] = G[t,f] * U[t,f]",
        "Y[t,e] = H[t,f] * WD[f,e]",
    ]
    work = Cascade({"t": tokens, "d": 512, "f": 2048, "e": 512}, equations, name=f"gated, {tokens} tokens")
    ops = {"mac": OpCost(Fraction(1)), "ew": OpCost(Fraction(1))}
    machine = Hardware(
        "vector", (Level("DRAM"), Level("buffer", MIB)), (ComputeUnit("vector", "vector", ops),)
    )
    return Problem(work, machine, Objective("dram_traffic", ()), Mapspace())


def divisors(extent: int) -> int:
    return sum(extent % tile == 0 for tile in range(1, extent + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="cpsat")
    parser.add_argument("--time-limit", type=float, default=120.0)
    arguments = parser.parse_args()
    optimize(feed_forward(TOKENS[0] // 2), arguments.engine, arguments.time_limit, replay=False)  # warm
    print(HEADER)
    first = None
    for tokens in TOKENS:
        problem = feed_forward(tokens)
        solution = optimize(problem, arguments.engine, arguments.time_limit, replay=False)
        taken = solution.seconds["total"]
        first = first or taken
        traffic = "-" if solution.cost is None else f"{int(solution.cost.quantity('dram_traffic')):,}"
        tiles = divisors(tokens)
        print(f"| {tokens} | {tiles} | {taken:.2f} | {taken / first:.1f} | {traffic} | {solution.status} |")


if __name__ == "__main__":
    main()
