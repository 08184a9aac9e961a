"""What a mapping, a cost and an answer look like; golden texts (`pytest --update-golden` rewrites them)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from exactile.against import comparison
from exactile.explain import explain_cascade, explain_hardware, explain_problem
from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate
from exactile.formulation.equation_text import equation
from exactile.formulation.hardware import Hardware, Level
from exactile.formulation.mapping import Group, Mapping, UnitMapping
from exactile.formulation.mapping_text import WIDTH, draw, loop_text, plain, unit_text
from exactile.formulation.quantity_text import grouped, metric, percent, size
from exactile.json_output import solution_json
from exactile.load import load_mapping, load_problem
from exactile.report import mapping_report, solution_report
from exactile.solver.engine import Space
from exactile.solver.solution import Solution, Verified
from hand_made import attention, buffer, fused, machine, nest, problem, unfused

HERE = Path(__file__).parent
Golden = Callable[[str, str], None]


def test_fused_attention(golden: Golden) -> None:
    golden("fused_attention", plain(draw(fused(), attention(), machine())))


def test_unfused_attention(golden: Golden) -> None:
    golden("unfused_attention", plain(draw(unfused(), attention(), machine())))


def test_mapping_renders_itself_without_a_cascade(golden: Golden) -> None:
    golden("structure_only", fused().render())


def test_recomputation_shared_inputs_and_side_branches(golden: Golden) -> None:
    """`j` is foreign to `C`; `B` reads the same fetch of `A` as `C`; `C` also leaves the group."""
    cascade = Cascade(
        {"i": 8, "j": 6, "k": 4, "l": 5},
        [
            "B[i,l] = A[i,k] * W[l,k]",
            "C[i,l] = A[i,k] * U[l,k]",
            "E[i,j] = C[i,l] * D[l,j] + B[i,l] * D[l,j]",
        ],
    )
    order = ("B", "C", "E")
    nests = {"B": nest("j:2 i:4 l:2"), "C": nest("j:2 i:4 k:2"), "E": nest("j:2 i:4")}
    buffers = (
        buffer("A", "B C", "j i"),
        buffer("W", "B", "j i l"),
        buffer("B", "B E", "j i"),
        buffer("U", "C", "j i k"),
        buffer("C", "C E", "j i"),
        buffer("D", "E", "j"),
        buffer("E", "E", "j i"),
    )
    inner = dict.fromkeys(order, UnitMapping("array", "weight_stationary"))
    golden("recomputation", plain(draw(Mapping((Group(order, nests, buffers, inner),)), cascade, machine())))


def test_inner_boundaries_hang_below_their_einsum(golden: Golden) -> None:
    cascade = Cascade({"m": 64, "n": 64, "k": 64}, ["Z[m,n] = A[m,k] * B[k,n]"])
    levels = (Level("DRAM"), Level("GLB", 8 * 4096), Level("RF", 8 * 64, double_buffer=True))
    unit = UnitMapping("pe", spatial={"m": {"rows": 4}, "n": {"cols": 8, "rows": 2}}, order=("k", "m"))
    inside = Group(
        ("Z",),
        {"Z": nest("m:4 k:1")},
        (buffer("A", "Z", "m k"), buffer("B", "Z", "m k"), buffer("Z", "Z", "m")),
        {"Z": unit},
    )
    outside = Group(
        ("Z",),
        {"Z": nest("n:16 m:64")},
        (buffer("A", "Z"), buffer("B", "Z", "n"), buffer("Z", "Z", "n")),
        {"Z": inside},
    )
    golden("three_levels", plain(draw(Mapping((outside,)), cascade, Hardware("deep", levels, ()))))


def test_costs(golden: Golden) -> None:
    cost = evaluate(attention(), machine(), fused())
    golden("fused_attention_cost", plain(mapping_report(problem(), fused(), cost)))


def test_a_block_of_several_groups(golden: Golden) -> None:
    """Twelve Einsums in three groups; the loop trees keep to a hundred columns."""
    block = load_problem(HERE / "block.yaml")
    mapping = load_mapping(HERE / "block_mapping.yaml", block)
    lines = mapping_report(block, mapping, evaluate(block.cascade, block.hardware, mapping))
    text = plain(lines)
    golden("block", text)
    trees = text[: text.index("tensor  size")].splitlines()
    assert len(trees) > 40 and max(map(len, trees)) <= WIDTH


def test_answer(golden: Golden) -> None:
    cost = evaluate(attention(), machine(), fused())
    solution = Solution(
        problem(),
        "mmee",
        "optimal",
        fused(),
        cost,
        cost.energy,
        "mmee",
        seconds={"total": 0.25, "search": 0.125, "verify": 0.0625},
        space=Space(79, 29400, 2322600),
        verified=Verified(True, True, True),
    )
    golden("answer", plain(solution_report(solution)))


def test_answer_with_a_gap_names_it() -> None:
    cost = evaluate(attention(), machine(), fused())
    solution = Solution(
        problem(), "mmee", "feasible", fused(), cost, cost.energy * Fraction(3, 4), interrupted=True
    )
    text = plain(solution_report(solution))
    assert "feasible, interrupted, gap 25 %: nothing is below " in text


def test_groups_that_were_not_listed_are_told() -> None:
    space = Space(25_000, 1_000, 10**6, groups=122, unlisted=17)
    solution = Solution(problem(), "mmee", "feasible", fused(), space=space)
    told = "25 000 structures, 1 000 tilings, 1 000 000 pairs scored, 17 of 122 groups too large to list\n"
    assert told in plain(solution_report(solution))
    assert solution_json(solution)["space"]["unlisted"] == 17


def test_infeasible_answer_says_why() -> None:
    text = plain(
        solution_report(Solution(problem(), "mmee", "infeasible", proof="mmee", reason="GLB: too small"))
    )
    assert "infeasible, proved by mmee" in text
    assert "GLB: too small" in text


def test_comparison(golden: Golden) -> None:
    ours, other = (evaluate(attention(), machine(), mapping) for mapping in (unfused(), fused()))
    golden("comparison", plain(comparison(problem(), ours, other, "fused.yaml")))


def test_explanations(golden: Golden) -> None:
    golden("explain_cascade", plain(explain_cascade(attention())))
    golden("explain_hardware", plain(explain_hardware(machine())))
    golden("explain_problem", plain(explain_problem(problem("latency"))))


@pytest.mark.parametrize(
    ("loop", "parent", "text"),
    [
        ("m:64", 512, "m in 8 × 64"),
        ("m:64", 509, "m in 8 × 64 (last 61)"),
        ("m:1", 12, "m in 12 × 1"),
        ("m:64", None, "m in steps of 64"),
    ],
)
def test_loops(loop: str, parent: int | None, text: str) -> None:
    assert loop_text(nest(loop)[0], parent) == text


def test_units() -> None:
    assert unit_text(UnitMapping("array", "weight_stationary", True)) == "array, weight_stationary transposed"
    assert unit_text(UnitMapping("pe", spatial={"m": {"rows": 4, "cols": 1}})) == "pe, m 4 over rows"


@pytest.mark.parametrize(
    "text",
    [
        "Z[i] = (A[i] + B[i]) * C[i]",
        "Z[i] = A[i] - (B[i] - C[i])",
        "Z[i] = A[i] - B[i] - C[i]",
        "Z[i] = exp(A[i] * B[i] + C[i])",
        "Z[i] = -A[i] * B[i]",
        "Z[i] = A[i] * B[i,k] + C[i]",
        "Z[i] = A[i] / (B[i] / 4096 + 1e-05) * C[i]",
        "Z[i] = A[i] / (B[i] * C[i]) - 0.5",
        "Z[i] = A[i] * (B[i] / C[i])",
        "Z[i] = max(A[i], B[i], div(C[i], 2, A[i]))",
    ],
)
def test_equations_read_back_as_written(text: str) -> None:
    """The text means the same: parsed again it is the same Einsum."""
    ranks = {"i": 2, "k": 3}
    einsum = Cascade(ranks, [text]).einsums[0]
    assert equation(einsum) == text
    assert Cascade(ranks, [equation(einsum)]).einsums[0] == einsum


def test_numbers() -> None:
    assert grouped(1611399168) == "1 611 399 168"
    assert grouped(Fraction(7, 2)) == "3.5"
    assert [size(8 * n) for n in (0, 768, 4096, 1310720)] == ["0 B", "768 B", "4 KiB", "1.25 MiB"]
    assert metric(Fraction(1500), -12, "J") == "1.5 nJ"
    assert metric(Fraction(393216, 10**9), 0, "s") == "393.2 µs"
    assert [percent(n, 10_000) for n in (0, 1, 20, 1234)] == ["0 %", "<0.1 %", "0.2 %", "12 %"]
