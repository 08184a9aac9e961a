"""The form of files: pydantic models know it, this module turns their errors into faults.

A location of an error is a path of the file, so that every fault finds its line; unknown keys and choices
suggest the nearest known one.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from exactile.faults import FileFault
from exactile.formulation.faults import nearest, shown
from exactile.yaml_source import Keys, Node

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """A mapping with known keys only, and no conversion between types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def refuse(message: str) -> PydanticCustomError:
    """The error that a validator raises to give its own sentence."""
    return PydanticCustomError("fault", "{message}", {"message": message})


def _name(value: object) -> str:
    if isinstance(value, bool):
        raise refuse(f"expected a name, got {shown(value)}: write it in quotes or choose another name")
    if not isinstance(value, str) or not value.strip():
        raise refuse(f"expected a name, got {shown(value)}")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**40:
        limit = " up to 2^40" if isinstance(value, int) and value > 1 else ""
        raise refuse(f"expected a positive integer{limit}, got {shown(value)}")
    return value


def _names(value: object) -> object:
    """A list of names; one name alone is a list of one."""
    return [value] if isinstance(value, str) else value


Name = Annotated[str, BeforeValidator(_name)]
Count = Annotated[int, BeforeValidator(_count)]
Names = Annotated[list[Name], BeforeValidator(_names)]


def validate(
    model: type[Model], node: Node, prefix: Keys, context: Mapping[str, Any] | None = None
) -> tuple[Model | None, list[FileFault]]:
    """The model of a node, or `None` and every fault; `prefix` is the path of the node in its file."""
    try:
        return model.model_validate(node.plain(), context=dict(context or {})), []
    except ValidationError as error:
        faults = [_fault(model, node, prefix, details) for details in error.errors(include_url=False)]
        return None, list(dict.fromkeys(faults))


def locate(node: Node, prefix: Keys, path: Iterable[str | int], message: str) -> FileFault:
    """A fault at the deepest part of `path` that the file has; list items are shown by their name."""
    here, shown_path = node, list(prefix)
    for key in path:
        below = here.child(key)
        if below is None:
            break
        label = below.child("name") if isinstance(key, int) else None
        shown_path.append(key if label is None or not isinstance(label.value, str) else label.value)
        here = below
    return here.fault(tuple(shown_path), message)


def _fault(model: type[BaseModel], node: Node, prefix: Keys, details: ErrorDetails) -> FileFault:
    path = details["loc"]
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    match kind:
        case "extra_forbidden":
            known = _known_keys(model, path[:-1])
            message = f"unknown key{nearest(str(path[-1]), known) or '; known are ' + ', '.join(known)}"
        case "missing":
            message = f"missing key '{path[-1]}'"
        case "literal_error":
            allowed = [
                choice.strip("'") for choice in str(context["expected"]).replace(" or ", ", ").split(", ")
            ]
            message = f"expected {' or '.join(allowed)}, got {shown(value)}{nearest(str(value), allowed)}"
        case "fault":
            message = details["msg"]
        case _:
            message = f"expected {_EXPECTED.get(kind, 'something else')}, got {shown(value)}"
            if kind not in _EXPECTED:
                message = f"{details['msg']}, got {shown(value)}"
    return locate(node, prefix, path, message)


_EXPECTED = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "an integer",
}


def _known_keys(model: Any, path: Iterable[str | int]) -> list[str]:
    """The keys of the model that stands at `path` below `model`."""
    here = model
    for key in path:
        here = _inner(here, key)
    while here is not None and not _is_model(here):
        here = _inner(here, 0)
    return list(here.model_fields) if here is not None else []


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _inner(kind: Any, key: str | int) -> Any:
    """The type one step below: of a field, or of the items of a list or mapping; unions by their model."""
    if _is_model(kind):
        field = kind.model_fields.get(str(key))
        return _unwrapped(field.annotation) if field else None
    arguments = get_args(kind)
    return _unwrapped(arguments[-1]) if arguments else None


def _unwrapped(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        return _unwrapped(get_args(kind)[0])
    if get_origin(kind) is typing.Union or type(kind).__name__ == "UnionType":
        models = [part for part in map(_unwrapped, get_args(kind)) if _is_model(part) or get_args(part)]
        return models[0] if models else None
    return kind
