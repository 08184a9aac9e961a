"""Numbers as people read them: grouped digits, binary sizes, metric prefixes. Exact values stay exact."""

from __future__ import annotations

from fractions import Fraction

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_METRIC = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


def grouped(value: int | Fraction) -> str:
    """`1 611 399 168`; a fraction is shown with up to three decimals."""
    whole = Fraction(value)
    if whole.denominator == 1:
        return f"{whole.numerator:,}".replace(",", " ")
    return f"{float(whole):,.3f}".rstrip("0").rstrip(".").replace(",", " ")


def size(bits: int | Fraction) -> str:
    """A number of bits as a size in bytes: `768 B`, `4 KiB`, `1.25 MiB`."""
    value = Fraction(bits, 8)
    for unit in _BINARY:
        if value < 1024 or unit == _BINARY[-1]:
            break
        value /= 1024
    return f"{_short(value)} {unit}"


def metric(value: Fraction, exponent: int, unit: str) -> str:
    """`value · 10**exponent` of `unit` with the prefix that reads best: `(1500, -12, "J")` is `1.5 nJ`."""
    if value == 0:
        return f"0 {unit}"
    scaled = value * Fraction(10) ** exponent
    best = max((e for e in _METRIC if abs(scaled) >= Fraction(10) ** e), default=min(_METRIC))
    return f"{_short(scaled / Fraction(10) ** best)} {_METRIC[best]}{unit}"


def percent(part: int | Fraction, whole: int | Fraction) -> str:
    """`12 %`; below one percent with one more digit, so that a small share is not taken for none."""
    if not whole:
        return "0 %"
    share = float(100 * Fraction(part) / Fraction(whole))
    return f"{share:.0f} %" if share >= 1 or share == 0 else f"{share:.1f} %" if share >= 0.05 else "<0.1 %"


def _short(value: Fraction) -> str:
    """At most four significant digits, no trailing zeros."""
    number = float(value)
    digits = 0 if number >= 1000 else 1 if number >= 100 else 2
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
