"""The analytical core: legality and exact cost of a given mapping."""

from exactile.formulation.core.cost import evaluate
from exactile.formulation.core.legality import violations
from exactile.formulation.core.occupancy import Occupancy, fullest, occupancies

__all__ = ["Occupancy", "evaluate", "fullest", "occupancies", "violations"]
