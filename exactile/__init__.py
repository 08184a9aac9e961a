"""Exactile: proved-optimal dataflow for cascades of Einsums on accelerators."""
