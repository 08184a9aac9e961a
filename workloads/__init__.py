"""Cascades as YAML, and builders that make families of them."""
