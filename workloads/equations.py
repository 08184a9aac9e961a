"""Equations as templates: written with every rank that they may have, kept to those that there are."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

from exactile.workloads.arguments import Spec

_ACCESS = re.compile(r"(\w+)\[([^\]]*)\]")


def spec(
    name: str,
    ranks: Mapping[str, int],
    bits: int,
    einsums: Iterable[Any],
    streams: Container[str] = (),
    optional: Container[str] = (),
) -> Spec:
    """The content of a workload file, from templates.

    `optional` ranks of extent one disappear from the equations. With `streams`, the inputs that are data,
    every other tensor that is never written is declared a weight.
    """
    kept = {rank: extent for rank, extent in ranks.items() if extent > 1 or rank not in optional}
    written = [rewritten(einsum, {}, kept) for einsum in einsums]
    made: Spec = {"name": name, "ranks": kept, "bits": bits, "einsums": written}
    if streams:
        weights = [tensor for tensor in inputs(written) if tensor not in streams]
        made["tensors"] = {tensor: {"role": "weight"} for tensor in weights}
    return made


def rewritten(einsum: Any, names: Mapping[str, str], ranks: Container[str] | None = None) -> Any:
    """An Einsum with the tensors of `names` renamed, and with those `ranks` only."""

    def access(match: re.Match[str]) -> str:
        tensor = names.get(match[1], match[1])
        indices = [index for index in match[2].split(",") if ranks is None or index in ranks]
        return f"{tensor}[{','.join(indices)}]" if indices else tensor

    if isinstance(einsum, str):
        return _ACCESS.sub(access, einsum)
    changed = {**einsum, "einsum": _ACCESS.sub(access, einsum["einsum"])}
    if isinstance(einsum.get("in_place"), str):
        changed["in_place"] = names.get(einsum["in_place"], einsum["in_place"])
    return changed


def tensors(einsum: Any) -> list[str]:
    """The tensors of an Einsum that have indices, its output first."""
    equation: str = einsum if isinstance(einsum, str) else einsum["einsum"]
    return [match[1] for match in _ACCESS.finditer(equation)]


def inputs(einsums: Iterable[Any]) -> list[str]:
    """The tensors that are read and never written, in the order of their first use."""
    uses = [tensors(einsum) for einsum in einsums]
    written = {use[0] for use in uses}
    return list(dict.fromkeys(tensor for use in uses for tensor in use[1:] if tensor not in written))
