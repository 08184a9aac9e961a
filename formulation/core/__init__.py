"""The analytical core: legality and exact cost of a given mapping."""

from exactile.formulation.core.cost import evaluate

__all__ = ["evaluate"]
