"""Random cascades with machines and legal mappings, from a seed.

What turns out illegal is drawn again, so everything the model allows has a chance to come up.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from random_cascades import random_cascade
from random_machines import random_hardware
from random_mappings import MappingDraw

from exactile.formulation.cascade import Cascade
from exactile.formulation.core import violations
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Mapping
from exactile.formulation.problem import Problem

MAX_POINTS = 600
MAX_PASSES = 160


@dataclass(frozen=True)
class Case:
    """A legal mapping of a cascade on a machine."""

    cascade: Cascade
    hardware: Hardware
    mapping: Mapping

    @property
    def problem(self) -> Problem:
        return Problem(self.cascade, self.hardware)


def small(cascade: Cascade, mapping: Mapping | None = None) -> bool:
    """Whether a case is small enough to be executed loop by loop in a test."""
    if mapping is None:
        return all(cascade.points(einsum) <= MAX_POINTS for einsum in cascade.einsums)
    passes = 0
    for group in mapping.groups:
        for nest in group.nests.values():
            passes += prod(-(-cascade.ranks[loop.rank] // loop.tile) for loop in nest)
    return passes <= MAX_PASSES


def correctable(cascade: Cascade) -> bool:
    """Whether every online softmax goes only into products that sum one row of it at a time.

    The model does not ask for more than a sum over the row, but the numbers of anything else cannot be
    put right later.
    """
    for barrier in cascade.barriers:
        softmax = cascade.by_name.get(barrier.tensor)
        if barrier.mode != "online" or softmax is None or softmax.over is None:
            continue
        for user in cascade.consumers[barrier.tensor]:
            rows = user.reduction & set(user.access_of(barrier.tensor).ranks)
            if user.op != "mac" or rows != {barrier.rank}:
                return False
    return True


def _draws(rng: random.Random, reckless: bool) -> Iterator[tuple[Case, tuple[str, ...]]]:
    """Small cases with their violations, without end."""
    while True:
        cascade = random_cascade(rng)
        if not small(cascade) or not correctable(cascade):
            continue
        hardware = random_hardware(rng, cascade)
        draw = MappingDraw(rng, cascade, hardware, reckless)
        for _ in range(6):
            mapping = draw.mapping()
            if small(cascade, mapping):
                yield Case(cascade, hardware, mapping), violations(cascade, hardware, mapping)


@cache
def random_case(seed: int) -> Case:
    """A legal mapping of two to four Einsums; the same one for the same seed."""
    return next(case for case, broken in _draws(random.Random(seed), False) if not broken)


def broken_case(seed: int, reasons: Sequence[str]) -> Case:
    """A mapping that is illegal for nothing but `reasons` (parts of the sentences that say so)."""
    for case, broken in _draws(random.Random(seed), True):
        if broken and all(any(reason in sentence for reason in reasons) for sentence in broken):
            return case
    raise AssertionError("draws never end")


def random_inputs(cascade: Cascade, seed: int) -> dict[str, npt.NDArray[np.float64]]:
    """Small whole numbers for every input, so that sums are exact."""
    rng = np.random.default_rng(seed)
    return {
        tensor.name: rng.integers(-3, 4, size=tensor.shape).astype(float)
        for tensor in cascade.tensors.values()
        if tensor.name not in cascade.by_name
    }


cases = st.integers(min_value=0, max_value=2**32 - 1).map(random_case)
