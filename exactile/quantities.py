"""Quantities with units, exact: text such as `7.5 pJ/bit` becomes a rational in base units.

Base units are bit, value, op, cycle, second and picojoule. The registry is our own: in pint's default one
bits and bytes are dimensionless, `cycle` is an angle and `Gb` a gilbert.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from exactile.formulation.faults import nearest, shown
from exactile.formulation.hardware import Rate

if TYPE_CHECKING:
    import pint

Per = Literal["bit", "value"]

_DEFINITIONS = """
femto- = 1e-15 = f-
pico- = 1e-12 = p-
nano- = 1e-9 = n-
micro- = 1e-6 = u- = µ- = μ-
milli- = 1e-3 = m-
kilo- = 1e3 = k-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
kibi- = 1024 = Ki-
mebi- = 1048576 = Mi-
gibi- = 1073741824 = Gi-
tebi- = 1099511627776 = Ti-
bit = [bit]
byte = 8 bit = B
value = [value]
op = [op]
cycle = [cycle]
second = [second] = s
hertz = cycle / second = Hz
joule = [joule] = J
"""

_NUMBER = re.compile(
    r"\s*([+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?)(?![\d.]|[eE][+-]?\d)\s*(.*?)\s*\Z",
    re.DOTALL,
)
_UNIT = re.compile(r"(?:[^\W\d_]+|/|\*|\s){1,40}\Z")
_NAMES = (
    *("bit", "B", "KiB", "MiB", "GiB", "kB", "MB", "GB", "value", "op", "cycle"),
    *("s", "ms", "us", "ns", "Hz", "MHz", "GHz", "J", "mJ", "uJ", "nJ", "pJ", "fJ"),
)
_PICO = Fraction(10) ** 12

Dimension = frozenset[tuple[str, int]]


class QuantityError(ValueError):
    """The text is not the quantity wanted; the message says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in base units, and the exponent of each base unit."""

    number: Fraction
    dimension: Dimension


@cache
def _registry() -> pint.UnitRegistry[Any]:
    import pint

    registry: pint.UnitRegistry[Any] = pint.UnitRegistry(None, non_int_type=Fraction)
    registry.load_definitions(_DEFINITIONS.strip().splitlines())
    return registry


@cache
def _unit(text: str) -> Amount:
    """One of a unit such as `pJ/bit` or `/value`, in base units."""
    if not text:
        return Amount(Fraction(1), frozenset())
    if not _UNIT.match(text) or "//" in text or "**" in text:
        raise QuantityError(f"cannot read the unit '{text[:40]}'")
    for name in re.findall(r"[^\W\d_]+", text):
        if name not in _registry():
            raise QuantityError(f"unknown unit '{name[:40]}'{_hint(name)}")
    try:
        quantity = _registry().Quantity(Fraction(1), "1 " + text if text.startswith("/") else text)
        base = quantity.to_base_units()
    except Exception as error:  # pint raises many kinds, its tokenizer's among them
        raise QuantityError(f"cannot read the unit '{text}'") from error
    exponents = {name.strip("[]"): int(str(power)) for name, power in base.dimensionality.items()}
    number = Fraction(base.magnitude) * _PICO ** exponents.get("joule", 0)
    return Amount(number, frozenset(exponents.items()))


def _hint(name: str) -> str:
    if name.startswith("K") and "k" + name[1:] in _registry():
        return f": write k{name[1:]} (1000) or Ki{name[1:]} (1024)"
    if name.endswith("b"):
        return f": write {name[:-1]}bit or {name[:-1]}B"
    same = [known for known in _NAMES if known.lower() == name.lower()]
    return f"; did you mean '{same[0]}'?" if same else nearest(name, _NAMES)


def parse(value: object) -> Amount:
    """The quantity that a text or a bare number stands for. Raises `QuantityError`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError("not a quantity")
    match = _NUMBER.match(str(value))
    if match is None:
        raise QuantityError("expected a number and its unit")
    unit = _unit(match[2])
    return Amount(Fraction(match[1]) * unit.number, unit.dimension)


def _dimension(**exponents: int) -> Dimension:
    return frozenset(exponents.items())


def _read(
    value: object, expected: str, *dimensions: Dimension, least: Fraction | None = Fraction(0)
) -> Amount:
    """Parse and insist on one of `dimensions`; `least=None` asks for a positive number."""
    try:
        amount = parse(value)
    except QuantityError as error:
        raise QuantityError(f"expected {expected}, got {shown(value)} ({error})") from None
    if amount.dimension not in dimensions:
        missing = " without a unit" if not amount.dimension else ""
        raise QuantityError(f"expected {expected}, got {shown(value)}{missing}")
    if amount.number < 0 or (least is None and amount.number == 0):
        raise QuantityError(
            f"expected {expected}{' above zero' if least is None else ', not negative'}, got {shown(value)}"
        )
    return amount


def frequency(value: object) -> Fraction:
    """Hertz (cycles per second), positive."""
    return _read(value, "a frequency like '1 GHz'", _dimension(cycle=1, second=-1), least=None).number


def data(value: object) -> int:
    """Bits, a positive whole number."""
    expected = "an amount of data like '1 MiB'"
    bits = _read(value, expected, _dimension(bit=1), least=None).number
    if bits.denominator != 1 or bits.numerator > 2**62:
        raise QuantityError(f"expected {expected} (whole bits, below 2^62), got {shown(value)}")
    return int(bits)


def duration(value: object, clock: Fraction | None) -> Fraction:
    """Cycles; seconds are converted by `clock` (hertz)."""
    amount = _read(value, "a time like '100 cycle' or '2 us'", _dimension(cycle=1), _dimension(second=1))
    return _cycles(amount, clock, value, 1)


def cycles_per_op(value: object) -> Fraction:
    """Cycles per operation: a positive count, or `4 cycle`, or `4 cycle/op`."""
    dimensions = (_dimension(), _dimension(cycle=1), _dimension(cycle=1, op=-1))
    return _read(value, "a number of cycles like 4", *dimensions, least=None).number


def energy_rate(value: object) -> tuple[Rate, str]:
    """Energy per bit or value in picojoules or unit-free, and the energy unit: `pJ` or `1`."""
    forms: dict[Dimension, tuple[Per, str]] = {
        _dimension(joule=1, bit=-1): ("bit", "pJ"),
        _dimension(joule=1, value=-1): ("value", "pJ"),
        _dimension(bit=-1): ("bit", "1"),
        _dimension(value=-1): ("value", "1"),
    }
    amount = _read(value, "an energy like '7.5 pJ/bit' or '200 /value'", *forms)
    per, unit = forms[amount.dimension]
    return Rate(amount.number, per), unit


def op_energy(value: object) -> tuple[Fraction, str]:
    """Energy of one operation in picojoules or unit-free, and the energy unit: `pJ` or `1`."""
    joule = (_dimension(joule=1), _dimension(joule=1, op=-1))
    amount = _read(value, "an energy like '0.05 pJ' or '1 /op'", *joule, _dimension(op=-1))
    return amount.number, "pJ" if amount.dimension in joule else "1"


def bandwidth(value: object, clock: Fraction | None) -> Rate:
    """Bits or values per cycle, positive; seconds are converted by `clock` (hertz)."""
    forms: dict[Dimension, Per] = {
        _dimension(**{datum: 1, time: -1}): datum
        for datum in ("bit", "value")
        for time in ("cycle", "second")
    }
    expected = "a bandwidth like '60 GB/s', '64 B/cycle' or '64 value/cycle'"
    amount = _read(value, expected, *forms, least=None)
    return Rate(_cycles(amount, clock, value, -1), forms[amount.dimension])


def _cycles(amount: Amount, clock: Fraction | None, value: object, power: int) -> Fraction:
    """The amount with its seconds (to the `power`) turned into cycles."""
    if ("second", power) not in amount.dimension:
        return amount.number
    if clock is None:
        raise QuantityError(
            f"{shown(value)} is in seconds, but the machine has no clock: add 'clock: 1 GHz' or write cycles"
        )
    return amount.number * clock**power


def limit(quantity: str, value: object, energy_unit: str, clock: Fraction | None) -> Fraction:
    """The bound of an objective in its base unit.

    Bytes, the machine's energy unit, cycles, energy times cycles, operations.
    """
    joules = {"joule": 1} if energy_unit == "pJ" else {}
    match quantity:
        case "dram_traffic":
            return _read(value, "an amount of data like '3 MB'", _dimension(bit=1)).number / 8
        case "latency":
            return duration(value, clock)
        case "operations":
            return _read(value, "a number of operations like '1e9'", _dimension(), _dimension(op=1)).number
        case "energy":
            example = (
                "an energy like '5 mJ'"
                if joules
                else "a number without unit (the machine's energies have none)"
            )
            return _read(value, example, _dimension(**joules)).number
    example = "'5 mJ*ms' or '5 mJ*cycle'" if joules else "'5 cycle' (the machine's energies have no unit)"
    forms = (_dimension(cycle=1, **joules), _dimension(second=1, **joules))
    return _cycles(_read(value, f"an energy times a time like {example}", *forms), clock, value, 1)
