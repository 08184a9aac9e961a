"""The analytical core: legality and exact cost of a given mapping."""
