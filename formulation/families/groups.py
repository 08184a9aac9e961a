"""Groups: intervals of the order, each connected through links; shared loops, each justified by links.

`P(e, f)` is what the best path of shared tensors forces, no more: a run of Einsums that share a loop
must hang together through linked buffers inside that loop. A group is such a run for no loop at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.model import Lit


def add_groups(decisions: Decisions) -> None:
    """Cuts that the mapspace fixes, loops shared inside groups only, and connected runs."""
    model, layout = decisions.model, decisions.layout
    fusion = layout.problem.mapspace.fusion
    for cut, together in enumerate(decisions.together):
        if fusion == "none":
            model.fix(-together)
        elif fusion != "free":
            first, second = layout.names[cut : cut + 2]
            same = any(first in group and second in group for group in fusion)
            model.fix(together if same else -together)
    for (cut, _), share in decisions.shared.items():
        model.implies((share,), decisions.together[cut])
    _connect(decisions, None, decisions.together)
    for rank in layout.ranks:
        _connect(decisions, rank, [decisions.share(cut, rank) for cut in decisions.cuts])


def _connect(decisions: Decisions, rank: str | None, runs: list[Lit]) -> None:
    """Einsums of a run (`runs[k]` joins `k` and `k + 1`) hang together through links inside loop `rank`."""
    model, edges = decisions.model, list(_edges(decisions, rank))
    if all(abs(a - b) == 1 for _, a, b in edges):
        for cut, run in enumerate(runs):
            model.implies((run,), *(literal for literal, a, b in edges if min(a, b) == cut))
        return
    # every Einsum but the first of a run follows one that is nearer to a root
    count = len(decisions.layout.einsums)
    depth = [model.integer(f"depth[{e},{rank}]", 0, count - 1) for e in range(count)]
    for later in range(1, count):
        parents = []
        for literal, a, b in edges:
            if later in (a, b):
                parent = model.boolean(f"parent[{later},{a},{b},{rank}]")
                model.implies((parent,), literal)
                other = b if later == a else a
                model.at_least(((depth[later], 1), (depth[other], -1)), 1, (parent,))
                parents.append(parent)
        model.implies((runs[later - 1],), *parents)


def _edges(decisions: Decisions, rank: str | None) -> Iterable[tuple[Lit, int, int]]:
    """Links between Einsums, those with loop `rank` outside their buffer: literal and both positions."""
    for link, literal in zip(decisions.layout.links, decisions.link, strict=True):
        a, b = (decisions.layout.copies[c].at for c in (link.first, link.second))
        if a == b:
            continue
        if rank is None:
            yield literal, a, b
        elif (link.first, rank) in decisions.outside and (link.second, rank) in decisions.outside:
            name = f"edge[{decisions.copy_name(link.first)},{decisions.copy_name(link.second)},{rank}]"
            yield decisions.model.conjunction((literal, decisions.out(link.first, rank)), name), a, b
