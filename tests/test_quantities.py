"""Quantities with units: exact, in base units, and refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactile import quantities as q

GIGA = Fraction(10**9)
CLOCK = 940 * 10**6 * Fraction(1)


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (q.data, "1 MiB", 8 * 2**20),
        (q.data, "1 MB", 8 * 10**6),
        (q.data, "1MB", 8 * 10**6),
        (q.data, "512 bytes", 4096),
        (q.data, "0.5 KiB", 4096),
        (q.data, "3 bit", 3),
        (q.data, "2 kbit", 2000),
        (q.data, "4 Gibit", 2**32),
        (q.frequency, "1 GHz", GIGA),
        (q.frequency, "940 MHz", CLOCK),
        (q.frequency, "5 cycle/s", Fraction(5)),
        (q.frequency, "5 cycle/us", Fraction(5 * 10**6)),
        (q.cycles_per_op, 4, Fraction(4)),
        (q.cycles_per_op, "4 cycle", Fraction(4)),
        (q.cycles_per_op, "0.5 cycle/op", Fraction(1, 2)),
    ],
)
def test_reads_exactly(read: Callable[[object], Any], text: object, expected: object) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "amount", "per", "unit"),
    [
        ("7.5 pJ/bit", Fraction(15, 2), "bit", "pJ"),
        ("0.132 pJ/bit", Fraction(132, 1000), "bit", "pJ"),
        ("8 pJ/B", Fraction(1), "bit", "pJ"),
        ("1 nJ/value", Fraction(1000), "value", "pJ"),
        ("2 fJ/bit", Fraction(2, 1000), "bit", "pJ"),
        ("200 /value", Fraction(200), "value", "1"),
        ("200/value", Fraction(200), "value", "1"),
        ("1e-3 /bit", Fraction(1, 1000), "bit", "1"),
    ],
)
def test_energy_per_datum(text: str, amount: Fraction, per: str, unit: str) -> None:
    rate, found = q.energy_rate(text)
    assert (rate.amount, rate.per, found) == (amount, per, unit)


@pytest.mark.parametrize(
    ("text", "expected", "unit"),
    [
        ("0.05 pJ", "1/20", "pJ"),
        ("0.05 pJ/op", "1/20", "pJ"),
        ("1 /op", "1", "1"),
        ("2 uJ", "2000000", "pJ"),
        ("2 µJ", "2000000", "pJ"),
    ],
)
def test_energy_of_an_operation(text: str, expected: str, unit: str) -> None:
    assert q.op_energy(text) == (Fraction(expected), unit)


def test_the_clock_turns_seconds_into_cycles() -> None:
    assert q.bandwidth("60 GB/s", GIGA).amount == 480
    assert q.bandwidth("400 GiB/s", CLOCK).amount == Fraction(400 * 2**30 * 8, 940 * 10**6)
    assert q.bandwidth("64 value/cycle", None) == q.Rate(Fraction(64), "value")
    assert q.bandwidth("64 value/s", Fraction(2)) == q.Rate(Fraction(32), "value")
    assert q.duration("2 us", GIGA) == 2000
    assert q.duration("7 cycles", None) == 7
    with pytest.raises(q.QuantityError, match="no clock"):
        q.bandwidth("60 GB/s", None)
    with pytest.raises(q.QuantityError, match="no clock"):
        q.duration("2 us", None)


def test_limits_of_objectives() -> None:
    assert q.limit("energy", "5 mJ", "pJ", None) == 5 * 10**9
    assert q.limit("energy", 5, "1", None) == 5
    assert q.limit("dram_traffic", "3 MB", "pJ", None) == 3 * 10**6
    assert q.limit("latency", "1 ms", "pJ", GIGA) == 10**6
    assert q.limit("latency", "10 cycle", "1", None) == 10
    assert q.limit("edp", "5 mJ*ms", "pJ", GIGA) == 5 * 10**9 * 10**6
    assert q.limit("edp", "5 cycle", "1", None) == 5
    assert q.limit("operations", "1e9", "pJ", None) == 10**9
    with pytest.raises(q.QuantityError, match="without a unit"):
        q.limit("energy", 5, "pJ", None)
    with pytest.raises(q.QuantityError, match="a number without unit"):
        q.limit("energy", "5 mJ", "1", None)
    with pytest.raises(q.QuantityError, match="'3 MB'"):
        q.limit("dram_traffic", "5 mJ", "pJ", None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (5, "without a unit"),
        ("5", "without a unit"),
        ("1 KB", "kB (1000) or KiB (1024)"),
        ("1 Gb", "Gbit or GB"),
        ("1 MIB", "did you mean 'MiB'"),
        ("1 Mbyt", "unknown unit 'Mbyt'"),
        ("1 pJ", "amount of data"),
        ("-1 MiB", "above zero"),
        ("0 MiB", "above zero"),
        ("MiB", "a number and its unit"),
        ("", "a number and its unit"),
        (None, "got nothing"),
        (True, "YAML boolean"),
        ([1], "got a list"),
        ({}, "got a mapping"),
        ("1.5 bit", "whole bits"),
        ("1e400 GiB", "whole bits"),
        ("1e99999999999 B", "a number and its unit"),
        ("9" * 5000 + " B", "a number and its unit"),
        ("1 B^2", "cannot read the unit"),
        ("1 B**99999999", "cannot read the unit"),
        ("1 B//B", "cannot read the unit"),
        ("1 __import__", "cannot read the unit"),
        ("1 \x00", "cannot read the unit"),
        ("nan B", "a number and its unit"),
        (float("inf"), "a number and its unit"),
    ],
)
def test_refuses_with_the_reason(text: object, words: str) -> None:
    with pytest.raises(q.QuantityError) as caught:
        q.data(text)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 250


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    for read in (q.data, q.frequency, q.cycles_per_op, q.energy_rate, q.op_energy):
        try:
            read(text)
        except q.QuantityError as error:
            assert str(error)


@given(
    st.fractions(min_value=0, max_value=10**9, max_denominator=1), st.sampled_from(["bit", "B", "kB", "KiB"])
)
def test_prefixes_are_exact(number: Fraction, unit: str) -> None:
    factor = {"bit": 1, "B": 8, "kB": 8000, "KiB": 8192}[unit]
    if number:
        assert q.data(f"{number.numerator} {unit}") == number * factor
