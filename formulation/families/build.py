"""One model of a problem: decisions, all constraint families, and the quantities that an engine minimises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exactile.formulation.families.amounts import Amounts
from exactile.formulation.families.capacity import add_capacity
from exactile.formulation.families.costs import Costs
from exactile.formulation.families.decisions import Decisions
from exactile.formulation.families.dependencies import add_dependencies
from exactile.formulation.families.groups import add_groups
from exactile.formulation.families.layout import layout
from exactile.formulation.families.links import add_links
from exactile.formulation.families.model import Model
from exactile.formulation.families.nesting import add_nesting
from exactile.formulation.families.pins import add_pins
from exactile.formulation.families.tiles import add_tiles
from exactile.formulation.families.traffic import add_traffic
from exactile.formulation.families.units import UnitUse, add_units
from exactile.formulation.problem import Problem


@dataclass(frozen=True)
class Formulation:
    """A built model with what its variables mean."""

    model: Model
    decisions: Decisions
    uses: Sequence[UnitUse]
    costs: Costs


def build(problem: Problem, order: Sequence[str], keys: Sequence[str]) -> Formulation:
    """The mapspace of a problem whose Einsums run in this order, with the quantities `keys` (no products)."""
    model = Model()
    decisions = Decisions(model, layout(problem, order, keys))
    for family in (add_tiles, add_groups, add_nesting, add_links, add_dependencies, add_pins):
        family(decisions)
    peaks = add_capacity(decisions)
    amounts = Amounts()
    add_traffic(decisions, amounts)
    uses = add_units(decisions, amounts)
    return Formulation(model, decisions, uses, Costs(decisions, amounts, uses, peaks, keys))
