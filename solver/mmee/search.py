"""The enumeration of one group: bound every combination of shared tiles, then settle the best ones.

First pass: for every skeleton and combination `t` of shared tiles, a lower bound of every quantity,
which for an additive objective is its exact optimum. Second pass: in the order of the bounds, the
joint choices of the Einsums where the bound could still improve the goal.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.plan import Plan
from exactile.solver.engine import Control, Stopped
from exactile.solver.mmee.goal import Floats, Goal, Lexicographic
from exactile.solver.mmee.plan_search import Columns, Indices, PlanSearch

_FIRST_BATCH = 16
"""Combinations settled before the rest is looked at again."""


@dataclass(frozen=True)
class Waiting:
    """Combinations `which` of shared tiles of one skeleton, left for the second pass.

    `floors` (one row per combination, one column per key of the goal) are lower bounds.
    """

    search: PlanSearch
    skeleton: int
    which: Indices
    floors: Floats


def search_group(group: Group, plans: Sequence[Plan], goal: Goal, control: Control) -> tuple[bool, int]:
    """Give `goal` the best points of a group. Returns whether the search is complete, and pairs scored."""
    searches = [PlanSearch(group, plan, goal) for plan in plans]
    waiting: list[Waiting] = []
    evaluated = 0
    cutoff = [np.inf]
    try:
        for search in searches:
            for which, columns in _bounded(search, control):
                evaluated += len(which) * search.width
                waiting += _promising(search, goal, which, columns, cutoff)
            control.checkpoint()
        _settle(waiting, goal, control, cutoff[0])
    except Stopped:
        with suppress(Stopped):
            _settle(waiting, goal, control, cutoff[0])
    return not control.stopped, evaluated


def _promising(
    search: PlanSearch, goal: Goal, which: Indices, columns: Columns, cutoff: list[float]
) -> Iterator[Waiting]:
    """What a block leaves for the second pass. `cutoff[0]` is the least leading value known to be
    reached. A lexicographic goal bounds its leading key only, for now."""
    floors = np.zeros((len(search.plan.placed), len(which), len(goal.keys)))
    bounded = goal.keys[:1] if isinstance(goal, Lexicographic) else goal.keys
    for position, key in enumerate(bounded):
        floors[:, :, position] = search.group.space.quantity(key, columns)
    if search.additive:
        cutoff[0] = min(cutoff[0], float(floors[:, :, 0].min(initial=np.inf)))
    for skeleton, rows in enumerate(floors):
        near = np.flatnonzero(np.isfinite(rows[:, 0]) & (rows[:, 0] <= cutoff[0]))
        near = near[goal.keep(rows[near])]
        if len(near):
            yield Waiting(search, skeleton, which[near], rows[near])


def _bounded(search: PlanSearch, control: Control) -> Iterator[tuple[Indices, Columns]]:
    """First pass over all blocks of a plan, a few at a time on all cores (numpy releases the lock)."""
    blocks = search.blocks()
    if search.count <= 2 * search.block_size:
        for which in blocks:
            control.checkpoint()
            yield which, search.bounds(which)
        return
    search.prepare()
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        running: deque[tuple[Indices, Future[Columns]]] = deque()
        for which in blocks:
            control.checkpoint()
            running.append((which, pool.submit(search.bounds, which)))
            if len(running) > 2 * (os.cpu_count() or 1):
                done, future = running.popleft()
                yield done, future.result()
        for which, future in running:
            yield which, future.result()


def _settle(waiting: list[Waiting], goal: Goal, control: Control, cutoff: float) -> None:
    """Second pass, the most promising combinations first, more at a time as the goal gets sharper."""
    entries = list(_merged(waiting, cutoff))
    if not entries:
        return
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        entries = list(pool.map(_tied, entries) if len(entries) > _FIRST_BATCH else map(_tied, entries))
    owner = np.repeat(np.arange(len(entries)), [len(entry.which) for entry in entries])
    which = np.concatenate([entry.which for entry in entries])
    floors = np.concatenate([entry.floors for entry in entries])
    if isinstance(goal, Lexicographic):
        order = np.lexsort(floors.T[::-1])
    else:
        order = np.argsort(np.maximum(floors, 1.0).prod(axis=1))
    start, batch = 0, _FIRST_BATCH
    while start < len(order):
        now = order[start : start + batch]
        start, batch = start + batch, 4 * batch
        now = now[goal.keep(floors[now])]
        for index in np.unique(owner[now]):
            entry = entries[index]
            entry.search.settle(entry.skeleton, which[now[owner[now] == index]], control)


def _merged(waiting: list[Waiting], cutoff: float) -> Iterator[Waiting]:
    """One entry per plan and skeleton, without what the least value known to be reached rules out."""
    parts: dict[tuple[int, int], list[Waiting]] = {}
    for entry in waiting:
        near = entry.floors[:, 0] <= cutoff
        if near.any():
            kept = replace(entry, which=entry.which[near], floors=entry.floors[near])
            parts.setdefault((id(entry.search), entry.skeleton), []).append(kept)
    for same in parts.values():
        which = np.concatenate([entry.which for entry in same])
        yield replace(same[0], which=which, floors=np.concatenate([entry.floors for entry in same]))


def _tied(entry: Waiting) -> Waiting:
    """For an additive goal, whose leading bound is exact and so a tie now: bounds of all its keys."""
    if not entry.search.additive:
        return entry
    return replace(entry, floors=entry.search.floors(entry.skeleton, entry.which))
