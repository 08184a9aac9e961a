"""Imports go one way, the judges share only data types, and importing the package costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "exactile": ROOT / "exactile",
    "exactile.formulation": ROOT / "formulation",
    "exactile.solver": ROOT / "solver",
    "exactile.workloads": ROOT / "workloads",
    "exactile.hw_specs": ROOT / "hw_specs",
    "exactile.problems": ROOT / "problems",
}
# which other rooms a room may import
ALLOWED = {
    "formulation": set(),
    "solver": {"formulation"},
    "workloads": {"formulation"},
    "hw_specs": set(),
    "problems": set(),
    "front": {"formulation", "solver", "workloads", "hw_specs", "problems", "front"},
}
DATA_TYPES = {"cascade", "cost", "einsum", "equation", "faults", "hardware", "mapping", "problem", "units"}
HEAVY = {"highspy", "networkx", "numpy", "ortools", "pint", "pulp", "pydantic", "rich", "typer", "yaml"}


def modules() -> dict[str, Path]:
    found = {}
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            parts = [part for part in path.relative_to(folder).with_suffix("").parts if part != "__init__"]
            found[".".join([package, *parts])] = path
    return found


MODULES = modules()


def imported(name: str) -> Iterator[str]:
    """Modules of this project that a module imports anywhere in its code."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            targets = [f"{base}.{alias.name}" for alias in node.names]
        for target in targets:
            while target and target not in MODULES:
                target = target.rpartition(".")[0]
            if target and target != "exactile" and target != name:
                yield target


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and f"exactile.{parts[1]}" in FOLDERS else "front"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_go_one_way(name: str) -> None:
    here = room(name)
    wrong = [
        target for target in imported(name) if room(target) != here and room(target) not in ALLOWED[here]
    ]
    assert not wrong, f"{name} ({here}) must not import {wrong}"


@pytest.mark.parametrize(
    "package", ["exactile.formulation.core", "exactile.formulation.encoding", "exactile.solver.replay"]
)
def test_judges_share_only_data_types(package: str) -> None:
    """Core, encodings and replay import themselves and the data types: none may repeat another's error."""
    for name in MODULES:
        if name == package or name.startswith(f"{package}."):
            for target in imported(name):
                own = target == package or target.startswith(f"{package}.")
                data = target.startswith("exactile.formulation.") and target.split(".")[2] in DATA_TYPES
                assert own or data or target == "exactile.formulation", f"{name} must not import {target}"


def test_every_package_is_shipped() -> None:
    """A folder with code that pyproject.toml does not name would be missing from the wheel."""
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert packages == listed


def _loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not _loaded_by("import exactile") & HEAVY


def test_solving_loads_no_library_it_does_not_need() -> None:
    loaded = _loaded_by("import exactile as ex\nex.optimize(ex.load_problem('bert-base-attention'))")
    assert not loaded & {"highspy", "jinja2", "networkx", "ortools", "pulp", "rich", "typer"}


def test_every_public_name_exists() -> None:
    import exactile

    for name in exactile.__all__:
        assert getattr(exactile, name) is not None
