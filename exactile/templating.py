"""Filling in a template that ships with the package; what comes from users' files is escaped."""

from __future__ import annotations

from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined


def render(template: str, **values: Any) -> str:
    """The text of `exactile/templates/<template>` with these values, HTML or XML."""
    text = (resources.files("exactile") / "templates" / template).read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text).render(**values)
