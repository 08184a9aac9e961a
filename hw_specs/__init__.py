"""Accelerators as YAML, each number with its source."""
