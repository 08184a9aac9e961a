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

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.group import Group
from exactile.formulation.encoding.plan import Plan
from exactile.solver.engine import Control, Stopped
from exactile.solver.mmee.goal import Floats, Goal, Lexicographic
from exactile.solver.mmee.plan_search import Columns, Indices, PlanSearch

Waiting = tuple[PlanSearch, int, Indices, Floats]
"""A skeleton of a plan, combinations of shared tiles left to settle, and their leading bounds."""


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
    """What a block leaves for the second pass. `cutoff[0]` is the least value known to be reached."""
    leading = _leading(search.group, goal, columns)
    if search.additive:
        cutoff[0] = min(cutoff[0], float(leading.min(initial=np.inf)))
    for skeleton in range(leading.shape[0]):
        near = np.flatnonzero(np.isfinite(leading[skeleton]) & (leading[skeleton] <= cutoff[0]))
        near = near[_possible(search, goal, {n: v[skeleton, near] for n, v in columns.items()})]
        if len(near):
            yield search, skeleton, which[near], leading[skeleton, near]


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


def _possible(search: PlanSearch, goal: Goal, columns: Columns) -> npt.NDArray[np.bool_]:
    if isinstance(goal, Lexicographic):
        return np.ones(len(next(iter(columns.values()))), dtype=bool)
    return goal.keep(search.quantities(columns))


def _leading(group: Group, goal: Goal, columns: Columns) -> Floats:
    """The quantity that orders the second pass: the leading key (a front: the product of all keys)."""
    if isinstance(goal, Lexicographic):
        return group.space.quantity(goal.keys[0], columns)
    total: Floats = np.ones(1)
    for key in goal.keys:
        total = total * np.maximum(group.space.quantity(key, columns), 1.0)
    return total


def _settle(waiting: list[Waiting], goal: Goal, control: Control, cutoff: float) -> None:
    """Second pass, the most promising combinations first, a few at a time."""
    waiting = [entry for entry in waiting if entry[3].min() <= cutoff]
    batch = 16
    while waiting:
        threshold = np.partition(
            np.concatenate([bound for *_, bound in waiting]), min(batch, sum(len(b) for *_, b in waiting)) - 1
        )[:batch].max()
        rest = []
        for search, skeleton, which, bound in sorted(waiting, key=lambda entry: float(entry[3].min())):
            now = bound <= threshold
            if now.any():
                search.settle(skeleton, which[now], control)
            if not now.all():
                rest.append((search, skeleton, which[~now], bound[~now]))
        batch *= 4
        waiting = [entry for entry in (_still(e, goal) for e in rest) if len(entry[2])]


def _still(entry: Waiting, goal: Goal) -> Waiting:
    """Drop combinations whose leading bound is beyond the best so far."""
    search, skeleton, which, bound = entry
    if isinstance(goal, Lexicographic) and goal.best is not None:
        near = bound <= goal.best[0] * (1 + goal.slack)
        return search, skeleton, which[near], bound[near]
    return entry
