"""Structures of group shapes, computed once: shipped with the package, then in the user's cache folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np

from exactile.formulation.encoding.shape import Shape
from exactile.formulation.encoding.sharing import Masks
from exactile.formulation.encoding.structures import TooManyStructures, structures

FORMAT = 9
"""Part of every file name: raise it whenever enumeration or dominance changes."""


_KEPT = 512
_known: dict[Shape, Masks] = {}
_given_up: dict[Shape, int] = {}


def cached_structures(
    shape: Shape, most: int | None = None, checkpoint: Callable[[], None] = lambda: None
) -> Masks:
    """The undominated structures of a shape, from the nearest place that has them.

    Those that are nowhere yet are listed, with the limit `most` and the `checkpoint` of `structures`.
    """
    if shape in _known:
        return _known[shape]
    if most is not None and _given_up.get(shape, 0) >= most:
        raise TooManyStructures
    try:
        found = _found(shape, most, checkpoint)
    except TooManyStructures:
        _given_up[shape] = max(most or 0, _given_up.get(shape, 0))
        raise
    while len(_known) >= _KEPT:
        _known.pop(next(iter(_known)))
    _known[shape] = found
    return found


def forget() -> None:
    """Drop what is kept in memory."""
    _known.clear()
    _given_up.clear()


def _found(shape: Shape, most: int | None, checkpoint: Callable[[], None]) -> Masks:
    name = f"{shape.key}-{FORMAT}.npy"
    shipped = resources.files("exactile.solver") / "structures" / name
    if shipped.is_file():
        with shipped.open("rb") as file:
            return np.asarray(np.load(file, allow_pickle=False), dtype=np.int64)
    path = cache_folder() / name
    # no such file yet, or one that a crash left half written, is computed again
    with contextlib.suppress(OSError, ValueError, EOFError):
        found = np.asarray(np.load(path, allow_pickle=False), dtype=np.int64)
        if found.ndim == 2 and found.shape[1] == len(shape.slots):
            return found
    # the limit that was too low last time
    tried = path.with_suffix(".more")
    with contextlib.suppress(OSError, ValueError):
        if most is not None and int(tried.read_text()) >= most:
            raise TooManyStructures
    try:
        found = structures(shape, most, checkpoint)
    except TooManyStructures:
        with contextlib.suppress(OSError):
            tried.parent.mkdir(parents=True, exist_ok=True)
            tried.write_text(str(most))
        raise
    store(path, found)
    return found


def cache_folder() -> Path:
    """The user's cache folder, or `EXACTILE_CACHE`."""
    override = os.environ.get("EXACTILE_CACHE")
    if override:
        return Path(override)
    from platformdirs import user_cache_path

    return user_cache_path("exactile")


def store(path: Path, masks: Masks) -> None:
    """Write atomically; a folder that cannot be written is no fault, only slower next time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            np.save(file, masks.astype(np.int16 if masks.max(initial=0) < 1 << 15 else np.int64))
        try:
            os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
