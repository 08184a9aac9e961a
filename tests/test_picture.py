"""The picture: valid SVG in which everything stands once, coloured by group; and where its parts are put."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from random_cascades import random_cascade
from strategies import random_case
from test_fates import gated, problem_of, skip

import exactile as ex
import hand_made
from exactile.cli import main
from exactile.drawing import Drawing, picture
from exactile.formulation.cascade import Cascade
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Mapspace, Objective, Problem
from exactile.graph_layout import Edge, Layout, Node, layout, spread
from exactile.load import load_mapping, load_problem
from exactile.palette import COLOURS, paint

HERE = Path(__file__).parent
SVG = "{http://www.w3.org/2000/svg}"
Element = ElementTree.Element


def parsed(text: str) -> Element:
    root = ElementTree.fromstring(text.encode())
    assert root.tag == f"{SVG}svg"
    return root


def named(root: Element, kind: str) -> dict[str, Element]:
    """Einsums or tensors by name, each of which must stand there once."""
    found = [element for element in root.iter(f"{SVG}g") if element.get("class") == kind]
    names = [str(element.get(f"data-{kind}")) for element in found]
    assert len(set(names)) == len(names)
    return dict(zip(names, found, strict=True))


def words(element: Element) -> str:
    return " ".join(str(text.text) for text in element.iter(f"{SVG}text"))


def surface(element: Element) -> tuple[str | None, str | None]:
    """Fill and stroke of the outer rectangle."""
    box = element.find(f"{SVG}rect")
    assert box is not None
    return box.get("fill"), box.get("stroke")


def styles(root: Element) -> list[str]:
    """The styles of the lines between Einsums and tensors, without the legend."""
    drawing = next(g for g in root.findall(f"{SVG}g") if g.get("class") is None)
    return [str(path.get("class")) for path in drawing.findall(f"{SVG}path")]


def test_everything_stands_there_once() -> None:
    root = parsed(picture(hand_made.problem(), hand_made.fused()))
    assert set(named(root, "einsum")) == set("SPO")
    assert set(named(root, "tensor")) == set("QKSPVO")
    assert words(named(root, "einsum")["S"]) == "1 S[h,m,n] = Q[h,m,e] * K[h,n,e]"
    assert words(named(root, "tensor")["S"]) == "S 1018 KiB"


def test_colours_are_groups() -> None:
    """Einsums of one group look alike and like its sign in the legend; other groups look different."""
    cascade, chosen = skip()
    root = parsed(picture(problem_of(cascade), chosen))
    einsums = named(root, "einsum")
    (beside,) = [g for g in root.iter(f"{SVG}g") if g.get("class") == "legend"]
    signs = {entry.get("data-group"): entry for entry in beside.findall(f"{SVG}g")}
    assert set(signs) == {"1", "2"}
    for name, group in {"C": "1", "D": "1", "E": "2", "F": "2"}.items():
        assert einsums[name].get("data-group") == group
        assert surface(einsums[name]) == surface(signs[group])
    assert surface(einsums["C"]) != surface(einsums["E"])
    assert words(signs["2"]).startswith("2 E, F DRAM 28 B")


def test_lines_tell_fates() -> None:
    cascade, chosen = gated()
    root = parsed(picture(problem_of(cascade), chosen))
    # X to both readers; G and U from their producers and to H; two weights, and H itself
    assert sorted(styles(root)) == ["dram"] * 3 + ["fused"] * 4 + ["shared"] * 2
    tensors = named(root, "tensor")
    assert {name: tensors[name][1].get("class") for name in ("X", "G", "H")} == {
        "X": "shared",
        "G": "fused",
        "H": "dram",
    }
    assert tensors["G"][1].get("stroke") == paint(1).colour
    assert tensors["G"][0].text == "G: fused into H; DRAM 0 B, saves 96 B"


def test_a_tensor_that_also_leaves_says_so() -> None:
    cascade, chosen = skip()
    root = parsed(picture(problem_of(cascade), chosen))
    assert words(named(root, "tensor")["C"]) == "C 12 B, also to DRAM"


def test_without_a_mapping_nothing_is_coloured() -> None:
    root = parsed(picture(hand_made.attention()))
    assert set(styles(root)) == {"plain"}
    assert {surface(element) for element in named(root, "einsum").values()} == {("#f2f2f2", "#777777")}
    assert words(named(root, "einsum")["S"]) == "S[h,m,n] = Q[h,m,e] * K[h,n,e]"
    assert not [g for g in root.iter(f"{SVG}g") if g.get("class") == "legend"]


def test_a_mapping_needs_its_problem() -> None:
    with pytest.raises(ValueError, match="together with its problem"):
        picture(hand_made.attention(), hand_made.fused())


def test_title_and_value() -> None:
    root = parsed(picture(hand_made.problem(), hand_made.fused(), status="optimal"))
    heading, below = [text.text for text in root.findall(f"{SVG}text")]
    assert heading == "attention"
    assert below == "on test-machine · energy 87 996 280.832 pJ (88 µJ) · optimal"


def test_names_are_escaped() -> None:
    cascade = Cascade({"i": 2}, ["Z[i] = A[i] + B[i]"], name='<b> & "c"')
    text = picture(cascade)
    assert "<b>" not in text
    heading = parsed(text).find(f"{SVG}text")
    assert heading is not None and heading.text == '<b> & "c"'


def test_the_picture_of_the_documentation_is_up_to_date(request: pytest.FixtureRequest) -> None:
    """`exactile check tests/block.yaml tests/block_mapping.yaml --picture docs/block.svg`."""
    problem = load_problem(HERE / "block.yaml")
    text = picture(problem, load_mapping(HERE / "block_mapping.yaml", problem))
    shown = HERE.parent / "docs" / "block.svg"
    if request.config.getoption("--update-golden"):
        shown.write_text(text, encoding="utf-8")
    assert text == shown.read_text(encoding="utf-8")


def test_public_function() -> None:
    assert ex.picture(hand_made.attention()) == picture(hand_made.attention())


@pytest.mark.parametrize("seed", range(25))
def test_any_mapping_can_be_drawn(seed: int) -> None:
    case = random_case(seed)
    problem = Problem(case.cascade, case.hardware, Objective("energy"), Mapspace(tile_sizes="all"))
    text = picture(problem, case.mapping)
    root = parsed(text)
    assert set(named(root, "einsum")) == set(case.cascade.by_name)
    assert set(named(root, "tensor")) == set(case.cascade.tensors)
    assert picture(problem, Mapping(case.mapping.groups)) == text


def test_a_state_has_no_arrow_back() -> None:
    cascade = Cascade(
        {"i": 3, "d": 2}, ["H[i,d] = H[i-1,d] * A[i,d] + B[i,d]"], generational=("i", "H"), name="recurrence"
    )
    assert len(styles(parsed(picture(cascade)))) == 3


# commands


@pytest.fixture
def exactile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command line within this process; gives the exit status."""

    def call(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["exactile", *map(str, arguments)])
        handler = signal.getsignal(signal.SIGINT)
        try:
            with pytest.raises(SystemExit) as stop:
                main()
        finally:
            signal.signal(signal.SIGINT, handler)
        return int(stop.value.code or 0)

    return call


def subtitle(path: Path) -> str:
    return str(parsed(path.read_text(encoding="utf-8")).findall(f"{SVG}text")[1].text)


def test_solve_show_and_check_draw(exactile: Callable[..., int], tmp_path: Path) -> None:
    svg, out = tmp_path / "x.svg", tmp_path / "x.yaml"
    assert exactile("solve", "bert-base-attention", "--picture", svg, "--out", out) == 0
    assert subtitle(svg).endswith("optimal, proved by mmee")
    for command in (("check", "bert-base-attention", out), ("show", out)):
        svg.unlink()
        assert exactile(*command, "--picture", svg) == 0
        assert "energy" in subtitle(svg)
    for name in ("bert-base-attention", "bert-base-ffn"):
        assert exactile("show", name, "--picture", svg) == 0
        assert subtitle(svg).endswith(" Einsums")


def test_without_a_legal_mapping_nothing_is_drawn(exactile: Callable[..., int], tmp_path: Path) -> None:
    svg, out = tmp_path / "x.svg", tmp_path / "x.yaml"
    small = ("--set", 'hardware.levels.GLB.capacity="2 B"')
    assert exactile("solve", "bert-base-attention", *small, "--picture", svg) == 3
    assert exactile("solve", "bert-base-attention", "--out", out) == 0
    assert exactile("check", "bert-base-attention", out, *small, "--picture", svg) == 2
    assert not svg.exists()


# layout


def laid_out(cascade: Cascade) -> tuple[Layout, dict[Node, tuple[float, float]]]:
    drawing = Drawing(cascade)
    sizes: dict[Node, tuple[float, float]] = {
        ("einsum", box.name): (box.width, box.height) for box in drawing.boxes()
    }
    sizes |= {("tensor", label.name): (label.width, 22.0) for label in drawing.labels()}
    return drawing.layout, sizes


def chain_with_skips(length: int) -> Cascade:
    """Every third result is added again further down, and all of them read the first input."""
    equations = ["T0[i] = X[i] * W0[i]"]
    for at in range(1, length):
        far = f" + T{at - 3}[i]" if at % 3 == 0 else ""
        equations.append(f"T{at}[i] = T{at - 1}[i] * W{at}[i] * X[i]{far}")
    return Cascade({"i": 4}, equations)


@pytest.mark.parametrize(
    "cascade", [*(random_cascade(random.Random(i)) for i in range(20)), chain_with_skips(40)]
)
def test_nothing_overlaps_and_edges_lead_down(cascade: Cascade) -> None:
    placed, sizes = laid_out(cascade)
    assert set(placed.centres) == set(sizes)
    for (one, (x, y)), (other, (to_x, to_y)) in combinations(placed.centres.items(), 2):
        wide, high = ((sizes[one][axis] + sizes[other][axis]) / 2 for axis in (0, 1))
        assert abs(x - to_x) >= wide + 8 or abs(y - to_y) >= high + 8
    for node, (x, y) in placed.centres.items():
        assert x - sizes[node][0] / 2 + 0.01 >= 0 and x + sizes[node][0] / 2 <= placed.width + 0.01
        assert y - sizes[node][1] / 2 + 0.01 >= 0 and y + sizes[node][1] / 2 <= placed.height + 0.01
    for points in placed.routes.values():
        assert all(below[1] >= above[1] for above, below in pairwise(points))


def test_edges_pass_beside_boxes() -> None:
    """Where an edge passes a layer, no box of that layer stands in its way."""
    placed, sizes = laid_out(chain_with_skips(20))
    passing = [
        (x, top, bottom)
        for points in placed.routes.values()
        for (x, top), (_, bottom) in zip(points[1:-1:2], points[2:-1:2], strict=True)
    ]
    assert passing
    for x, top, bottom in passing:
        for node, (centre, y) in placed.centres.items():
            if top <= y <= bottom:
                assert abs(x - centre) > sizes[node][0] / 2


def test_crossings_that_can_be_avoided_are() -> None:
    """Two pairs written crosswise end up side by side."""
    nodes: dict[Node, tuple[float, float]] = {(name,): (10.0, 10.0) for name in ("a", "b", "c", "d")}
    edges = [Edge(("a",), ("d",), ""), Edge(("b",), ("c",), "")]
    placed = layout(nodes, edges, {("a",): 0, ("b",): 0, ("c",): 1, ("d",): 1})
    across = {node[0]: x for node, (x, _) in placed.centres.items()}
    assert (across["a"] < across["b"]) == (across["d"] < across["c"])
    assert across["a"] == pytest.approx(across["d"]) and across["b"] == pytest.approx(across["c"])


def test_an_edge_between_neighbours_is_straight() -> None:
    placed, _ = laid_out(chain_with_skips(2))
    start, end = placed.routes[Edge(("einsum", "T0"), ("tensor", "T0"), "plain")]
    assert start[0] == pytest.approx(end[0])


@pytest.mark.parametrize(
    ("wanted", "weights", "gaps", "expected"),
    [
        ([0, 10], [1, 1], [5], [0, 10]),
        ([0, 0], [1, 1], [4], [-2, 2]),
        ([0, 0], [3, 1], [4], [-1, 3]),
        ([5, 0, 20], [1, 1, 1], [5, 5], [0, 5, 20]),
        ([], [], [], []),
    ],
)
def test_nearest_places(
    wanted: list[float], weights: list[float], gaps: list[float], expected: list[float]
) -> None:
    assert spread(wanted, weights, gaps) == pytest.approx(expected)


def test_paints_differ_and_repeat_late() -> None:
    looks = [paint(number) for number in range(1, 31)]
    assert len(set(looks)) == 30
    assert all(one.colour != other.colour for one, other in pairwise(looks))
    assert paint(31) == paint(7)
    assert [look.stripes for look in looks[: len(COLOURS)]] == [None] * len(COLOURS)
