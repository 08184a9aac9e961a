"""One Einsum as a file or a caller writes it: an equation, or a mapping with the equation and more keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, get_args

from exactile.formulation.einsum import Access, BarrierMode, Einsum
from exactile.formulation.equation import EquationError, default_op, parse
from exactile.formulation.faults import Fault, nearest, shown

EINSUM_KEYS = ("einsum", "op", "cost", "unit", "reduce", "in_place", "over", "mode")
REDUCTIONS = ("sum", "max")
MAX_COUNT = 10**12

# ops that are functions of a whole row: without its rank the barrier would be lost silently
ROW_OPS = ("softmax",)


def read_einsum(spec: object) -> tuple[Einsum | None, list[Fault]]:
    """The Einsum and every fault of its keys, paths relative to the entry; `None` if it has no equation."""
    if isinstance(spec, Einsum):
        return spec, []
    entry = {"einsum": spec} if isinstance(spec, str) else spec
    if not isinstance(entry, Mapping) or not isinstance(entry.get("einsum"), str):
        return None, [
            Fault((), f"expected an equation or a mapping with the key 'einsum', got {shown(spec)}")
        ]
    faults = [
        Fault((str(key),), f"unknown key{nearest(str(key), EINSUM_KEYS)}")
        for key in entry
        if key not in EINSUM_KEYS
    ]
    try:
        output, expression = parse(entry["einsum"])
    except EquationError as error:
        return None, [*faults, Fault((), str(error))]
    faults += _key_faults(entry)
    op = entry["op"] if isinstance(entry.get("op"), str) else default_op(output, expression)
    over = entry["over"] if isinstance(entry.get("over"), str) else None
    einsum = Einsum(
        output,
        expression,
        op,
        _cost(entry.get("cost"), op, faults),
        entry["reduce"] if entry.get("reduce") in REDUCTIONS else "sum",
        None,
        over,
        _mode(entry, over),
        entry["unit"] if isinstance(entry.get("unit"), str) else None,
    )
    target = _overwritten(einsum, entry.get("in_place"), faults)
    if target is not None:
        einsum = Einsum(
            output, expression, op, einsum.cost, einsum.reduce, target, over, einsum.mode, einsum.unit
        )
    return einsum, faults


def read_count(value: object) -> Fraction:
    """A number of operations, not negative. Raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | str) or len(str(value)) > 40:
        raise ValueError("not a number")
    if isinstance(value, str) and not value.replace(".", "", 1).replace("/", "", 1).isdecimal():
        raise ValueError("not a number")  # no exponents: 1e999999999 would be built digit by digit
    try:
        count = Fraction(str(value))
    except ZeroDivisionError:
        raise ValueError("not a number") from None
    if not 0 <= count <= MAX_COUNT:
        raise ValueError("out of range")
    return count


def _key_faults(entry: Mapping[str, Any]) -> Iterator[Fault]:
    for key in ("op", "over", "unit"):
        if entry.get(key) is not None and not isinstance(entry[key], str):
            yield Fault((key,), f"expected a name, got {shown(entry[key])}")
    for key, allowed in (("mode", get_args(BarrierMode)), ("reduce", REDUCTIONS)):
        value = entry.get(key)
        if value is not None and value not in allowed:
            yield Fault(
                (key,), f"expected {' or '.join(allowed)}, got {shown(value)}{nearest(str(value), allowed)}"
            )
    if entry.get("mode") is not None and entry.get("over") is None:
        yield Fault(("mode",), "expected 'over' (the rank of the statistic) beside 'mode'")


def _mode(entry: Mapping[str, Any], over: str | None) -> BarrierMode | None:
    """`row` unless the entry says otherwise; nothing without a rank."""
    if over is None:
        return None
    return "online" if entry.get("mode") == "online" else "row"


def _cost(declared: object, op: str, faults: list[Fault]) -> dict[str, Fraction]:
    """Operations per point by op, one `op` unless declared."""
    if declared is None:
        return {op: Fraction(1)}
    if not isinstance(declared, Mapping) or not declared:
        faults.append(
            Fault(("cost",), f"expected operations per point by op, like {{exp: 1}}, got {shown(declared)}")
        )
        return {op: Fraction(1)}
    cost: dict[str, Fraction] = {}
    for name, count in declared.items():
        try:
            cost[str(name)] = read_count(count)
        except ValueError:
            message = f"expected a count of operations from 0 to 10^12, got {shown(count)}"
            faults.append(Fault(("cost", str(name)), message))
    return cost


def _overwritten(einsum: Einsum, wanted: object, faults: list[Fault]) -> str | None:
    """The input that `in_place` names (`true`: the first one that fits)."""
    if wanted is None or wanted is False:
        return None
    fitting = [access.tensor for access in einsum.inputs if _fits(access, einsum.output)]
    target = fitting[0] if wanted is True and fitting else wanted
    if not isinstance(target, str) or target not in fitting or einsum.reduction or not einsum.output.plain:
        message = (
            f"expected true or an input with the ranks of {einsum.output} to overwrite, got {shown(wanted)}"
        )
        faults.append(Fault(("in_place",), message))
        return None
    return target


def _fits(access: Access, output: Access) -> bool:
    return access.indices == output.indices and access.tensor != output.tensor
