"""The README shows what the program prints, and its examples run (`pytest --update-golden` refreshes it)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from exactile.load import load_problem

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
SHOWN = re.compile(r"```console\n\$ make run\n\.venv/bin/exactile (.*?)\n(.*?)```", re.DOTALL)
BLOCK = re.compile(r"```console\n\$ exactile ([^\n]*) --picture block.svg\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def without_times(text: str) -> str:
    return re.sub(r"^time .*$", "time", text, flags=re.MULTILINE)


def test_output_is_real(request: pytest.FixtureRequest) -> None:
    found = SHOWN.search(README.read_text(encoding="utf-8"))
    assert found is not None
    command = [sys.executable, "-m", "exactile", *found[1].split()]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if request.config.getoption("--update-golden"):
        text = README.read_text(encoding="utf-8")
        README.write_text(text[: found.start(2)] + printed + text[found.end(2) :], encoding="utf-8")
        return
    assert without_times(printed) == without_times(found[2])


@pytest.mark.slow
def test_the_block_is_solved_as_shown(tmp_path: Path) -> None:
    """Its headline; which of several equally good mappings is found may change."""
    found = BLOCK.search(README.read_text(encoding="utf-8"))
    assert found is not None
    picture = tmp_path / "block.svg"
    command = [sys.executable, "-m", "exactile", *found[1].split(), "--picture", str(picture)]
    command += ["--time-limit", "10min"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[:3] == found[2].splitlines()[:3]
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_problem_of_the_readme_can_be_solved(tmp_path: Path) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(blocks("yaml")[0], encoding="utf-8")
    assert load_problem(path).name == yaml.safe_load(blocks("yaml")[0])["name"]
    command = [sys.executable, "-m", "exactile", "solve", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "optimal" in done.stdout, done.stderr


def test_library_example_runs() -> None:
    done = subprocess.run([sys.executable, "-c", blocks("python")[0]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("optimal 0.0 ")
    assert "for " in done.stdout


@pytest.mark.parametrize("target", ["run", "test"])
def test_the_two_commands_are_targets(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"make {target}" in README.read_text(encoding="utf-8")
