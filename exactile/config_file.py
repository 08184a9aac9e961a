"""The `config.json` of a model as the source of a builder's arguments."""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any

from exactile.faults import FileFault, LoadError
from exactile.formulation.faults import shown
from exactile.references import display, folder
from exactile.schema import locate
from exactile.workloads.builders import parameters
from exactile.workloads.model_config import CONFIGURED, SIZES, model_arguments
from exactile.yaml_source import Keys, Node, file_text, read_text

__all__ = ["CONFIGURED", "read_config", "takes_config"]


def takes_config(builder: object) -> bool:
    """Whether the builder has sizes that a configuration tells."""
    return bool(parameters(builder).keys() & SIZES.keys())


def read_config(node: Node, path: Keys, wanted: Container[str]) -> tuple[dict[str, Any], list[FileFault]]:
    """The `wanted` arguments from the file that `node` names, relative to the file it stands in."""
    if not isinstance(node.value, str):
        message = f"expected the path of a model's config.json, got {shown(node.plain())}"
        return {}, [node.fault(path, message)]
    file = folder(node) / node.value
    if not file.is_file():
        return {}, [node.fault(path, f"no such file: {display(file)}")]
    try:
        config = _read_json(display(file))
    except LoadError as error:
        return {}, list(error.faults)
    arguments, faults = model_arguments(config.plain(), wanted)
    return arguments, [locate(config, (), fault.path, fault.message) for fault in faults]


def _read_json(file: str) -> Node:
    """The mapping in a JSON file, with the lines of its keys: what JSON allows, YAML can read."""
    text = file_text(file, "JSON")
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        raise LoadError([FileFault((), f"not valid JSON: {reason}", file, line)]) from None
    return read_text(text, file)
