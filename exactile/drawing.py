"""The picture of a cascade as SVG: Einsums as boxes, tensors on the arrows between them.

With a mapping, boxes have the colour and number of their fused group, and the lines of a tensor say what
becomes of it: bold in its group's colour where it is fused, solid where several readers take it from one
fetch, dashed where it moves between DRAM and the buffer for each of its users.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from exactile.drawing_legend import Legend, legend
from exactile.fate import Fate, fates
from exactile.fate_table import fate_text
from exactile.formulation.cascade import Cascade
from exactile.formulation.core import evaluate
from exactile.formulation.cost import Cost
from exactile.formulation.equation_text import equation
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem
from exactile.formulation.quantity_text import size
from exactile.graph_layout import Edge, Layout, Node, Point, layout
from exactile.palette import DARK, Paint, paint
from exactile.report import quantity
from exactile.templating import render

TEMPLATE = "picture.svg"
CHARACTER, LINE = 7.3, 16.0  # of a monospaced font of 12 pixels
EQUATION = 44  # characters after which an equation is broken
MARGIN, HEAD, TAB = 24.0, 62.0, 24.0
PLAIN = Paint("#777777", "#f2f2f2", DARK, None)
ARROW = 7.0


@dataclass(frozen=True, slots=True)
class Box:
    """An Einsum: left upper corner, size, lines of its equation with their baselines, and its group."""

    name: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[tuple[str, float], ...]
    paint: Paint
    group: int | None
    about: str


@dataclass(frozen=True, slots=True)
class Label:
    """A tensor: centre, width, text; `style` as for lines, `about` is its fate."""

    name: str
    x: float
    y: float
    width: float
    text: str
    style: str
    colour: str
    about: str


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of the way of a tensor; `arrow` is the outline of its head, empty without one."""

    path: str
    arrow: str
    style: str
    colour: str


def picture(what: Problem | Cascade, mapping: Mapping | None = None, *, status: str = "") -> str:
    """The graph of a cascade as an SVG document; of a problem and a legal mapping of it, coloured by group.

    `status` is added to the title, for instance what is proved. Raises `ValueError` for a mapping
    without its problem.
    """
    if mapping is None:
        cascade = what if isinstance(what, Cascade) else what.cascade
        return _document(Drawing(cascade), cascade.name, f"{len(cascade.einsums)} Einsums", None)
    if isinstance(what, Cascade):
        raise ValueError("a mapping is drawn together with its problem, not with a cascade alone")
    cost = evaluate(what.cascade, what.hardware, mapping)
    found = {fate.tensor: fate for fate in fates(what, mapping, cost)}
    groups = {name: at for at, group in enumerate(mapping.groups, 1) for name in group.order}
    drawing = Drawing(what.cascade, groups, found, what.hardware.levels[0].name)
    return _document(drawing, what.name, _subtitle(what, cost, status), legend(what, mapping, cost))


def _subtitle(problem: Problem, cost: Cost, status: str) -> str:
    name = problem.objective.minimize
    words = f"{name.replace('_', ' ').replace('dram', 'DRAM')} {quantity(problem, name, cost.quantity(name))}"
    return " · ".join(part for part in (f"on {problem.hardware.name}", words, status) if part)


def _document(drawing: Drawing, title: str, subtitle: str, beside: Legend | None) -> str:
    placed = drawing.layout
    right = MARGIN + placed.width + (MARGIN + beside.width if beside else 0)
    words = 2 * MARGIN + 9 * max(len(title), 0.8 * len(subtitle))
    below = max(placed.height, beside.height if beside else 0)
    return render(
        TEMPLATE,
        title=title,
        subtitle=subtitle,
        width=round(max(right + MARGIN, words)),
        height=round(HEAD + below + MARGIN),
        left=MARGIN,
        top=HEAD,
        tab=TAB,
        boxes=list(drawing.boxes()),
        labels=list(drawing.labels()),
        lines=list(drawing.lines()),
        paints=sorted({(p.colour, p.tint, p.stripes) for p in drawing.paints() if p.stripes is not None}),
        legend=beside,
        legend_at=2 * MARGIN + placed.width,
    )


class Drawing:
    """A cascade laid out. Without a mapping there are no groups and no fates.

    `outer` is the name of the outermost level.
    """

    def __init__(
        self,
        cascade: Cascade,
        groups: dict[str, int] | None = None,
        found: dict[str, Fate] | None = None,
        outer: str = "DRAM",
    ) -> None:
        self.cascade = cascade
        self.groups = groups or {}
        self.fates = found or {}
        self.outer = outer
        self.equations = {
            e.name: textwrap.wrap(equation(e), EQUATION, break_long_words=False) for e in cascade.einsums
        }

    @cached_property
    def edges(self) -> list[Edge]:
        """From each Einsum to its tensor and from each tensor to its readers, one track for each style."""
        found = []
        position = {einsum.name: at for at, einsum in enumerate(self.cascade.einsums)}
        for einsum in self.cascade.einsums:
            for name in dict.fromkeys(access.tensor for access in einsum.inputs):
                # a state of an earlier step is written later: the equation tells, an arrow would go back
                if position.get(name, -1) < position[einsum.name]:
                    track = self._style(name, einsum.name)
                    found.append(Edge(("tensor", name), ("einsum", einsum.name), track))
            style = self._style(einsum.name, None)
            found.append(Edge(("einsum", einsum.name), ("tensor", einsum.name), style))
        return found

    @cached_property
    def layout(self) -> Layout:
        sizes: dict[Node, tuple[float, float]] = {}
        for name, lines in self.equations.items():
            tab = TAB if self.groups else 0.0
            width = max(map(len, lines)) * CHARACTER + 20 + tab
            sizes["einsum", name] = (width, len(lines) * LINE + 16)
        for name in self.cascade.tensors:
            sizes["tensor", name] = (len(self._text(name)) * CHARACTER + 16, 22.0)
        return layout(sizes, self.edges, self._layers())

    def boxes(self) -> Iterator[Box]:
        for einsum in self.cascade.einsums:
            name, lines = einsum.name, self.equations[einsum.name]
            x, y = self.layout.centres["einsum", name]
            tab = TAB if self.groups else 0.0
            width = max(map(len, lines)) * CHARACTER + 20 + tab
            height = len(lines) * LINE + 16
            number = self.groups.get(name)
            baselines = tuple((line, y - height / 2 + 20 + at * LINE) for at, line in enumerate(lines))
            about = f"{name}: {einsum.op}" + (f", group {number}" if number else "")
            yield Box(
                name,
                x - width / 2,
                y - height / 2,
                width,
                height,
                baselines,
                self._paint(name),
                number,
                about,
            )

    def labels(self) -> Iterator[Label]:
        for name in self.cascade.tensors:
            x, y = self.layout.centres["tensor", name]
            text = self._text(name)
            style = self._style(name, None)
            width = len(text) * CHARACTER + 16
            about = f"{name}: {self._about(name)}"
            yield Label(name, x, y, width, text, style, self._colour(name, style), about)

    def lines(self) -> Iterator[Line]:
        """Bends shared by several edges are drawn once; the bold lines last, on top."""
        drawn: dict[str, Line] = {}
        for edge, points in self.layout.routes.items():
            name = edge.tail[1]
            into = edge.head[0] == "einsum"
            colour = self._colour(name, edge.track)
            tip = ARROW if into else 0.0
            for at in range(0, len(points), 2):
                last = at + 2 == len(points)
                path = _curve(points[at], points[at + 1], tip if last else 0.0)
                arrow = _arrow(points[at + 1]) if last and into else ""
                drawn[path] = Line(path, arrow, edge.track, colour)
                if not last:
                    straight = _straight(points[at + 1], points[at + 2])
                    drawn[straight] = Line(straight, "", edge.track, colour)
        yield from sorted(drawn.values(), key=lambda line: line.style == "fused")

    def paints(self) -> Iterator[Paint]:
        return (self._paint(name) for name in self.groups)

    def _layers(self) -> dict[Node, int]:
        """The longest way from an input; inputs themselves stand just above their first reader."""
        graph: nx.DiGraph[Node] = nx.DiGraph()
        graph.add_nodes_from(("tensor", name) for name in self.cascade.tensors)
        graph.add_edges_from((edge.tail, edge.head) for edge in self.edges)
        layers = {node: at for at, nodes in enumerate(nx.topological_generations(graph)) for node in nodes}
        for name in self.cascade.tensors:
            node = ("tensor", name)
            if name not in self.cascade.by_name and graph.out_degree(node):
                layers[node] = min(layers[reader] for reader in graph.successors(node)) - 1
        return layers

    def _text(self, name: str) -> str:
        tensor, fate = self.cascade.tensors[name], self.fates.get(name)
        leaves = f", also to {self.outer}" if fate and fate.kind == "fused and written" else ""
        return f"{name} {size(tensor.size * tensor.bits)}{leaves}"

    def _about(self, name: str) -> str:
        """The role of a tensor, or its fate with what it moves and saves."""
        fate = self.fates.get(name)
        if fate is None:
            return self.cascade.tensors[name].role
        saved = f", saves {size(8 * fate.saved_bytes)}" if fate.saved_bytes else ""
        moved = f"{self.outer} {size(8 * fate.dram_bytes)}{saved}"
        return f"{fate_text(fate, len(set(self.groups.values())) > 1, self.outer)}; {moved}"

    def _paint(self, einsum: str) -> Paint:
        return paint(self.groups[einsum]) if einsum in self.groups else PLAIN

    def _colour(self, tensor: str, style: str) -> str:
        return self._paint(tensor).colour if style == "fused" else DARK

    def _style(self, tensor: str, reader: str | None) -> str:
        """`plain`, `fused`, `shared` or `dram`: the way of a tensor to a reader; of the tensor itself."""
        fate = self.fates.get(tensor)
        if fate is None:
            return "plain"
        if reader is None:
            return "fused" if fate.fused else "shared" if fate.kind == "shared" else "dram"
        if reader in fate.fused:
            return "fused"
        return "shared" if any(reader in fetch.readers for fetch in fate.shared) else "dram"


def _curve(start: Point, end: Point, tip: float) -> str:
    (x, y), (to_x, to_y) = start, (end[0], end[1] - tip)
    middle = (y + to_y) / 2
    return f"M{x:.1f} {y:.1f}C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"


def _straight(start: Point, end: Point) -> str:
    return f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"


def _arrow(tip: Point) -> str:
    x, y = tip
    return f"{x:.1f},{y:.1f} {x - 4.5:.1f},{y - ARROW - 1:.1f} {x + 4.5:.1f},{y - ARROW - 1:.1f}"
