"""The mapping with the least peak, whatever the capacity of the buffer is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.plan import Plan
from exactile.formulation.encoding.scores import NodeScore
from exactile.formulation.encoding.shared_tiles import shared_count, shared_tiles
from exactile.formulation.mapping import Mapping, UnitMapping
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control
from exactile.solver.mmee.candidates import Candidates
from exactile.solver.mmee.decode import group_mapping
from exactile.solver.mmee.plan_search import Choice

_BLOCK = 1 << 20


def smallest(problem: Problem, control: Control) -> Mapping | None:
    """The mapping whose fullest group is the least full; `None` if no structure is legal.

    Raises `Stopped` if there is not enough time.
    """
    candidates = Candidates(problem, ("dram_traffic",), control.checkpoint)
    groups = {}
    for names, candidate in candidates.by_names.items():
        groups[names] = _smallest(candidate.groups(candidates.space), control)
    best: tuple[float, list[Choice]] | None = None
    for partition in candidates.partitions:
        found = [groups[names] for names in partition]
        choices = [choice for _, choice in found if choice is not None]
        need = max(need for need, _ in found)
        if len(choices) == len(found) and (best is None or need < best[0]):
            best = need, choices
    return None if best is None else Mapping(tuple(group_mapping(choice) for choice in best[1]))


def _smallest(groups: Sequence[tuple[Group, list[Plan]]], control: Control) -> tuple[float, Choice | None]:
    """The least peak of a group, in bits, and a point of the space that has it."""
    best: tuple[float, Choice | None] = (float("inf"), None)
    for group, plans in groups:
        for plan in plans:
            nodes = [NodeScore(group, plan, node) for node in plan.nodes]
            widest = max(len(node.node.rows) * node.table.unknowns for node in nodes)
            step = max(1, _BLOCK // widest)
            for start in range(0, shared_count(group, plan), step):
                control.checkpoint()
                which = np.arange(start, min(start + step, shared_count(group, plan)))
                found = _smallest_block(group, plan, nodes, which)
                if found[0] < best[0]:
                    best = found
    return best


def _smallest_block(
    group: Group, plan: Plan, nodes: Sequence[NodeScore], which: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> tuple[float, Choice]:
    shared = shared_tiles(group, plan, which)
    peaks = [node.peak(np.arange(len(node.node.rows)), shared) for node in nodes]
    need = np.zeros((len(plan.placed), len(which)))
    for node, peak in zip(nodes, peaks, strict=True):
        least = np.full_like(need, np.inf)
        np.minimum.at(least, node.skeletons, peak.min(axis=2))
        need = np.maximum(need, least)
    skeleton, t = np.unravel_index(int(need.argmin()), need.shape)
    rows, own, units = [], [], []
    for node, peak in zip(nodes, peaks, strict=True):
        mine = np.flatnonzero(node.skeletons == skeleton)
        row, column = np.unravel_index(int(peak[mine, t].argmin()), (len(mine), peak.shape[2]))
        rows.append(int(mine[row]))
        own.append(int(column))
        family = group.families[node.node.node][0]
        units.append(
            UnitMapping(family.unit.name, family.dataflow, family.transposed, family.spatial(0), family.order)
        )
    choice = Choice(group, plan, int(which[t]), tuple(rows), tuple(own), tuple(units))
    return float(need[skeleton, t]), choice
