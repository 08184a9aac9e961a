"""Placing a layered directed graph: who stands where, and how its edges run.

The usual three steps (Sugiyama): edges that skip layers get a bend in each layer between; every layer is
ordered so that few edges cross (barycentres of the neighbours, then swaps of adjacent nodes); then nodes
move as close to the mean of their neighbours as their order and widths allow.

    A   B          layer 0
     \\ / \\
      C   ·        layer 1: the edge B → D passes here, at a bend
      |  /
      D            layer 2
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass
from itertools import pairwise

Node = tuple[str, ...]
Point = tuple[float, float]

SWEEPS = 24
STEPS = 300
SETTLED = 0.05
BEND_WIDTH = 8.0
NODE_GAP = 18.0
LAYER_GAP = 26.0
PORT_GAP, CORNER = 18.0, 12.0  # between edges at a side of a box, and from its corners
STEEPEST = 7.0  # a gap between layers is at least this fraction of the widest step sideways across it


@dataclass(frozen=True, slots=True)
class Edge:
    """Edges of one tail on the same track share their bends and part only where they have to."""

    tail: Node
    head: Node
    track: str


@dataclass(frozen=True)
class Layout:
    """Centres of the nodes and points that each edge passes, from the tail's lower to the head's upper side.

    Points come in pairs: between the first two, the third and fourth and so on an edge crosses a gap
    between layers; in between it passes a layer straight down.
    """

    width: float
    height: float
    centres: Map[Node, Point]
    routes: Map[Edge, Sequence[Point]]


def layout(sizes: Map[Node, tuple[float, float]], edges: Sequence[Edge], layers: Map[Node, int]) -> Layout:
    """Place nodes of the given widths and heights; every edge must lead to a later layer.

    The result depends on the order of `sizes` and `edges` only: the same graph is drawn the same.
    """
    chains = {edge: _chain(edge, layers) for edge in edges}
    links = list(dict.fromkeys(link for chain in chains.values() for link in pairwise(chain)))
    rows: list[list[Node]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for node in dict.fromkeys([*sizes, *(node for chain in chains.values() for node in chain)]):
        rows[_layer(node, layers)].append(node)
    rows = _ordered(rows, links)
    widths = {node: sizes[node][0] if node in sizes else BEND_WIDTH for row in rows for node in row}
    across = _placed(rows, links, widths)
    bands = _bands(rows, links, across, sizes)
    centres = {
        node: (across[node], (bands[at][0] + bands[at][1]) / 2)
        for at, row in enumerate(rows)
        for node in row
        if node in sizes
    }
    routes = _routes(chains, across, bands, {n: (centres[n][1], *sizes[n]) for n in centres}, layers)
    right = max((across[node] + widths[node] / 2 for node in widths), default=0.0)
    return Layout(right, bands[-1][1] if bands else 0.0, centres, routes)


def _layer(node: Node, layers: Map[Node, int]) -> int:
    return layers[node] if node in layers else int(node[-1])


def _chain(edge: Edge, layers: Map[Node, int]) -> list[Node]:
    """The nodes that an edge passes; a bend is named by its tail, its track and its layer."""
    between = range(layers[edge.tail] + 1, layers[edge.head])
    return [edge.tail, *(("bend", *edge.tail, edge.track, str(at)) for at in between), edge.head]


class _Neighbours:
    """Who is linked to whom, up and down."""

    def __init__(self, links: Sequence[tuple[Node, Node]]) -> None:
        self.up: dict[Node, list[Node]] = {}
        self.down: dict[Node, list[Node]] = {}
        for upper, lower in links:
            self.down.setdefault(upper, []).append(lower)
            self.up.setdefault(lower, []).append(upper)

    def of(self, node: Node) -> list[Node]:
        return self.up.get(node, []) + self.down.get(node, [])


def _ordered(rows: list[list[Node]], links: Sequence[tuple[Node, Node]]) -> list[list[Node]]:
    """Rows in an order with few crossings."""
    near = _Neighbours(links)
    best, fewest = rows, _crossings(rows, near)
    for sweep in range(SWEEPS):
        rows = [list(row) for row in rows]
        downwards = sweep % 2 == 0
        for at in range(len(rows)) if downwards else reversed(range(len(rows))):
            beside = near.up if downwards else near.down
            _sort_row(rows, at, at - 1 if downwards else at + 1, beside)
        _swap_neighbours(rows, near)
        crossings = _crossings(rows, near)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _sort_row(rows: list[list[Node]], at: int, other: int, beside: Map[Node, list[Node]]) -> None:
    """Sort a row by the mean places of its neighbours in another; nodes without any keep their place."""
    if not 0 <= other < len(rows):
        return
    place = {node: (i + 0.5) / len(rows[other]) for i, node in enumerate(rows[other])}
    own = {node: (i + 0.5) / len(rows[at]) for i, node in enumerate(rows[at])}

    def barycentre(node: Node) -> float:
        found = [place[neighbour] for neighbour in beside.get(node, [])]
        return sum(found) / len(found) if found else own[node]

    rows[at].sort(key=barycentre)


def _swap_neighbours(rows: list[list[Node]], near: _Neighbours) -> None:
    """Swap adjacent nodes while that removes crossings."""
    place = {node: i for row in rows for i, node in enumerate(row)}
    for _ in range(len(place)):
        improved = False
        for row in rows:
            for i in range(len(row) - 1):
                left, right = row[i], row[i + 1]
                if _pair(left, right, near, place) > _pair(right, left, near, place):
                    row[i], row[i + 1] = right, left
                    place[left], place[right] = i + 1, i
                    improved = True
        if not improved:
            return


def _pair(left: Node, right: Node, near: _Neighbours, place: Map[Node, int]) -> int:
    """Crossings between the edges of two nodes of a row that stand in this order."""
    return sum(
        place[a] > place[b]
        for beside in (near.up, near.down)
        for a in beside.get(left, [])
        for b in beside.get(right, [])
    )


def _crossings(rows: list[list[Node]], near: _Neighbours) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        place = {node: i for i, node in enumerate(lower)}
        ends = [sorted(place[below] for below in near.down.get(node, [])) for node in upper]
        for i, mine in enumerate(ends):
            total += sum(a > b for a in mine for theirs in ends[i + 1 :] for b in theirs)
    return total


def _placed(
    rows: Sequence[Sequence[Node]], links: Sequence[tuple[Node, Node]], widths: Map[Node, float]
) -> dict[Node, float]:
    """Centres across the picture, the leftmost side at 0; long edges are pulled straight."""
    near = _Neighbours(links)
    across: dict[Node, float] = {}
    gaps = []
    for row in rows:
        gaps.append([(widths[a] + widths[b]) / 2 + NODE_GAP for a, b in pairwise(row)])
        at = -sum(gaps[-1]) / 2
        for node, gap in zip(row, [*gaps[-1], 0.0], strict=True):
            across[node] = at
            at += gap
    for step in range(STEPS):
        before = dict(across)
        order = range(len(rows)) if step % 2 == 0 else reversed(range(len(rows)))
        for at_row in order:
            row = rows[at_row]
            pulls = [_pull(node, near.of(node), across) for node in row]
            places = spread([x for x, _ in pulls], [weight for _, weight in pulls], gaps[at_row])
            across.update(zip(row, places, strict=True))
        if max(abs(across[node] - before[node]) for node in across) < SETTLED:
            break
    left = min((across[node] - widths[node] / 2 for node in across), default=0.0)
    return {node: x - left for node, x in across.items()}


def _pull(node: Node, others: Sequence[Node], across: Map[Node, float]) -> tuple[float, float]:
    """Where the neighbours want a node, and how much. Weights fall with the distance, so that the sum of
    distances is minimised, not of their squares: one straight edge rather than several slanted ones."""
    pulls = [
        (_stiffness(node, other) / (abs(across[node] - across[other]) + 2), across[other]) for other in others
    ]
    total = sum(weight for weight, _ in pulls)
    return (sum(weight * x for weight, x in pulls) / total, total) if pulls else (across[node], 0.01)


def _stiffness(one: Node, other: Node) -> float:
    return (1.0, 2.0, 8.0)[(one[0] == "bend") + (other[0] == "bend")]


def spread(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The positions nearest to the wanted ones (weighted squares) that keep these gaps between neighbours.

    Without the gaps this is isotonic regression; blocks of nodes that would overlap are pooled.
    """
    shifts = [0.0]
    for gap in gaps:
        shifts.append(shifts[-1] + gap)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, number of nodes
    for target, weight, shift in zip(wanted, weights, shifts, strict=False):
        block = (target - shift, weight, 1)
        while blocks and blocks[-1][0] >= block[0]:
            mean, mass, count = blocks.pop()
            total = mass + block[1]
            block = ((mean * mass + block[0] * block[1]) / total, total, count + block[2])
        blocks.append(block)
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + shift for mean, shift in zip(means, shifts, strict=False)]


def _bands(
    rows: Sequence[Sequence[Node]],
    links: Sequence[tuple[Node, Node]],
    across: Map[Node, float],
    sizes: Map[Node, tuple[float, float]],
) -> list[tuple[float, float]]:
    """Top and bottom of every layer, further apart where edges run far sideways."""
    row_of = {node: at for at, row in enumerate(rows) for node in row}
    gaps = [0.0, *([LAYER_GAP] * (len(rows) - 1))]
    for upper, lower in links:
        step = abs(across[upper] - across[lower]) / STEEPEST
        gaps[row_of[lower]] = max(gaps[row_of[lower]], min(step, 3 * LAYER_GAP))
    bands: list[tuple[float, float]] = []
    at = 0.0
    for gap, row in zip(gaps, rows, strict=False):
        height = max((sizes[node][1] for node in row if node in sizes), default=0.0)
        bands.append((at + gap, at + gap + height))
        at += gap + height
    return bands


def _routes(
    chains: Map[Edge, Sequence[Node]],
    across: Map[Node, float],
    bands: Sequence[tuple[float, float]],
    boxes: Map[Node, tuple[float, float, float]],
    layers: Map[Node, int],
) -> dict[Edge, list[Point]]:
    """Each edge from side to side, beside the others of its end and as straight down as the box allows."""
    starts = _ends(((edge.tail, chain[1], edge) for edge, chain in chains.items()), across, boxes)
    ends = _ends(((edge.head, chain[-2], edge) for edge, chain in chains.items()), across, boxes)
    routes: dict[Edge, list[Point]] = {}
    for edge, chain in chains.items():
        centre, _, height = boxes[edge.tail]
        points = [(starts[edge], centre + height / 2)]
        for node in chain[1:-1]:
            top, bottom = bands[_layer(node, layers)]
            points += [(across[node], top), (across[node], bottom)]
        centre, _, height = boxes[edge.head]
        routes[edge] = [*points, (ends[edge], centre - height / 2)]
    return routes


def _ends(
    touching: Iterable[tuple[Node, Node, Edge]],
    across: Map[Node, float],
    boxes: Map[Node, tuple[float, float, float]],
) -> dict[Edge, float]:
    """Where edges touch one side of their boxes; those that go to the same neighbour touch it once."""
    sides: dict[Node, dict[Node, list[Edge]]] = {}
    for box, other, edge in touching:
        sides.setdefault(box, {}).setdefault(other, []).append(edge)
    found: dict[Edge, float] = {}
    for box, others in sides.items():
        room = _room(box, boxes)
        left, right = across[box] - room, across[box] + room
        order = sorted(others, key=lambda other: across[other])
        wanted = []
        for other in order:
            # both ends of an edge aim at the middle of its narrower end, as far as they reach
            beside = _room(other, boxes)
            aim = across[other] if beside < room else across[box]
            aim = min(max(aim, across[other] - beside), across[other] + beside)
            wanted.append(min(max(aim, left), right))
        gap = min(PORT_GAP, 2 * room / max(len(order) - 1, 1))
        ports = spread(wanted, [1.0] * len(order), [gap] * (len(order) - 1))
        shift = max(left - ports[0], 0.0) + min(right - ports[-1], 0.0)
        for other, port in zip(order, ports, strict=True):
            found.update(dict.fromkeys(others[other], port + shift))
    return found


def _room(node: Node, boxes: Map[Node, tuple[float, float, float]]) -> float:
    """How far from its middle edges may touch a node."""
    return max(boxes[node][1] / 2 - CORNER, 0.0) if node in boxes else 0.0
