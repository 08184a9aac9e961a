"""Shared by all tests: golden texts, and a registry of invented engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import fake_engines
from exactile.solver.engines import ENGINES

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden texts with what is printed now"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares a text with `tests/golden/name.txt`."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text(text + "\n", encoding="utf-8")
        assert text + "\n" == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the real engines only the enumeration, and the invented ones beside it."""
    for name in ENGINES.keys() - {"mmee"}:
        monkeypatch.delitem(ENGINES, name)
    for name, facts in fake_engines.ENGINES.items():
        monkeypatch.setitem(ENGINES, name, facts)
