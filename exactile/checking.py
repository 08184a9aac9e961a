"""Checking a given mapping: the result of `exactile check`, as lines and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from exactile.against import comparison, comparison_json
from exactile.formulation.core import evaluate, violations
from exactile.formulation.cost import Cost
from exactile.formulation.mapping import Mapping
from exactile.formulation.mapping_text import Line
from exactile.formulation.problem import Problem
from exactile.json_output import cost_json, fates_json, mapping_json
from exactile.report import costs, labelled, mapping_report, title
from exactile.version import __version__


@dataclass(frozen=True)
class Check:
    """A mapping with every rule it breaks, or its cost; and the same of another one to compare with.

    `replayed` says on what the replay confirmed the counts, `None` if it was not asked for.
    """

    problem: Problem
    mapping: Mapping
    violations: tuple[str, ...] = ()
    cost: Cost | None = None
    replayed: str | None = None
    other: tuple[str, Cost] | None = None
    other_violations: tuple[str, ...] = ()

    @property
    def legal(self) -> bool:
        return not self.violations and not self.other_violations

    def report(self) -> list[Line]:
        """Lines for people."""
        lines = [title(self.problem)]
        if self.violations:
            return lines + _sentences("the mapping is not legal", self.violations)
        assert self.cost is not None
        legal = "legal" + (
            f", counts and numbers confirmed by a replay {self.replayed}" if self.replayed else ""
        )
        lines += [*labelled([*costs(self.problem, self.cost), ("checked", legal)]), []]
        lines += mapping_report(self.problem, self.mapping, self.cost)
        if self.other_violations:
            lines += [[], *_sentences("the other mapping is not legal", self.other_violations)]
        if self.other is not None:
            name, cost = self.other
            lines += [[], *comparison(self.problem, self.cost, cost, name)]
        return lines

    def json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "version": __version__,
            "problem": self.problem.name,
            "legal": not self.violations,
            "violations": list(self.violations),
            "replayed": self.replayed,
            "cost": None if self.cost is None else cost_json(self.problem, self.cost),
            "fates": fates_json(self.problem, self.mapping, self.cost),
            "mapping": mapping_json(self.problem, self.mapping),
            "against": None
            if self.other is None or self.cost is None
            else {"file": self.other[0], **comparison_json(self.problem, self.cost, self.other[1])},
            "against_violations": list(self.other_violations),
        }


def check_mapping(
    problem: Problem, mapping: Mapping, *, replay: bool = False, against: tuple[str, Mapping] | None = None
) -> Check:
    """All violations of a mapping, or its exact cost; optionally replayed and compared with another.

    Raises `VerificationError` if the replay contradicts the cost (a bug of Exactile).
    """
    broken = tuple(violations(problem.cascade, problem.hardware, mapping, problem.mapspace))
    if broken:
        return Check(problem, mapping, broken)
    cost = evaluate(problem.cascade, problem.hardware, mapping)
    replayed = None
    if replay:
        from exactile.solver.verify import confirm

        replayed = confirm(problem.cascade, problem.hardware, mapping)
    if against is None:
        return Check(problem, mapping, (), cost, replayed)
    name, other = against
    other_broken = tuple(violations(problem.cascade, problem.hardware, other, problem.mapspace))
    compared = None if other_broken else (name, evaluate(problem.cascade, problem.hardware, other))
    return Check(problem, mapping, (), cost, replayed, compared, other_broken)


def _sentences(title: str, broken: tuple[str, ...]) -> list[Line]:
    rules = "one rule" if len(broken) == 1 else f"{len(broken)} rules"
    lines: list[Line] = [[(f"{title}: it breaks {rules}", "bad")]]
    for sentence in broken:
        lines.append([(f"  {sentence}", "plain")])
    return lines
