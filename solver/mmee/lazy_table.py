"""Least values of an Einsum's inner table, cell by cell, for searches that ask for few of its cells."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from exactile.formulation.encoding.scores import NodeScore
from exactile.formulation.encoding.tables import Cells

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_SMALL_TABLE = 1 << 21
"""Tables of one metric up to this many values are computed whole even if few cells are asked for."""


_FEW = 16
"""So few cells never ask for the whole table: those of the chosen mapping, in the end."""


class LazyTable:
    """Least values of single metrics of an Einsum's inner table, computed for the cells asked for."""

    def __init__(self, node: NodeScore) -> None:
        self._node = node
        self._known: dict[str, Floats] = {}

    def values(self, name: str, cells: Indices) -> Floats:
        """The least value over all uses of the units, for flat indices of cells."""
        if name not in self._known:
            cells_in_all = self._node.table.size * self._node.table.unknowns
            uses = self._node.table.uses
            if len(cells) > _FEW and cells_in_all * uses <= _SMALL_TABLE:
                self.fill(name, self._node.table.best((name,))[name][0])
            else:
                self._known[name] = np.full(cells_in_all, np.nan)
        known = self._known[name]
        missing = np.unique(cells[np.isnan(known[cells])])
        if len(missing):
            table = self._node.table.best((name,), Cells(*np.divmod(missing, self._node.table.unknowns)))
            known[missing] = table[name][0]
        return known[cells]

    def fill(self, name: str, table: Floats) -> None:
        """Take over a table that is known for all cells."""
        self._known[name] = table.ravel()
