"""What another mapping does better: two costs of one problem, tensor by tensor."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from exactile.formulation.cost import Cost, Traffic
from exactile.formulation.mapping_text import Line
from exactile.formulation.problem import Problem
from exactile.formulation.quantity_text import grouped, percent
from exactile.report import level_traffic, quantity, traffic_energy
from exactile.table import Row, table


@dataclass(frozen=True)
class Difference:
    """A tensor at a level: values moved and energy, in the mapping at hand and in the other."""

    level: str
    tensor: str
    values: tuple[int, int]
    energy: tuple[Fraction, Fraction]

    @property
    def saved(self) -> tuple[Fraction, int]:
        """What the other saves; negative where it needs more. Energy counts first."""
        return self.energy[0] - self.energy[1], self.values[0] - self.values[1]


def differences(problem: Problem, ours: Cost, other: Cost) -> list[Difference]:
    """All tensors and levels where the two differ, the greatest saving of the other first."""
    found = []
    for number, level in enumerate(problem.hardware.levels):
        mine, theirs = level_traffic(ours, level.name), level_traffic(other, level.name)
        for tensor in {**mine, **theirs}:
            pair = mine.get(tensor, Traffic()), theirs.get(tensor, Traffic())
            values = pair[0].reads + pair[0].writes, pair[1].reads + pair[1].writes
            energy = tuple(traffic_energy(problem, number, tensor, traffic) for traffic in pair)
            found.append(Difference(level.name, tensor, values, (energy[0], energy[1])))
    return sorted((d for d in found if any(d.saved)), key=lambda d: d.saved, reverse=True)


def comparison(problem: Problem, ours: Cost, other: Cost, name: str) -> list[Line]:
    """The verdict in a sentence, then where the other mapping saves and where it pays."""
    key = problem.objective.minimize
    mine, theirs = ours.quantity(key), other.quantity(key)
    lines: list[Line] = [[(_verdict(problem, key, mine, theirs, name), "title")]]
    found = differences(problem, ours, other)
    parts = (
        ("better", [d for d in found if d.saved > (0, 0)]),
        ("worse", [d for d in found if d.saved < (0, 0)]),
    )
    for word, rows in parts:
        if rows:
            header = (f"what it does {word}", "tensor", "values here", "there", "energy here", "there")
            lines += [[], *table(header, [_row(d) for d in rows], left=2)]
    return lines


def comparison_json(problem: Problem, ours: Cost, other: Cost) -> dict[str, Any]:
    """The same as plain data."""
    from exactile.json_output import cost_json, number

    return {
        "cost": cost_json(problem, other),
        "differences": [
            {
                "level": d.level,
                "tensor": d.tensor,
                "values": list(d.values),
                "energy": [number(energy) for energy in d.energy],
            }
            for d in differences(problem, ours, other)
        ],
    }


def _verdict(problem: Problem, key: str, mine: Fraction, theirs: Fraction, name: str) -> str:
    label = key.replace("_", " ")
    if mine == theirs:
        return f"{name} has the same {label}: {quantity(problem, key, mine)}"
    low, high, word = (theirs, mine, "less") if theirs < mine else (mine, theirs, "more")
    share = percent(high - low, mine)
    values = f"{quantity(problem, key, theirs)} against {quantity(problem, key, mine)}"
    return f"{name} needs {share} {word} {label}: {values}"


def _row(difference: Difference) -> Row:
    values = [grouped(value) for value in difference.values]
    energy = [grouped(round(value) if value >= 1000 else value) for value in difference.energy]
    return Row((difference.level, difference.tensor, *values, *energy))
