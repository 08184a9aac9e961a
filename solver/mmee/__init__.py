"""MMEE: matrix-encoded enumeration of every fused group, and the best partition into groups.

The mapspace of a problem on a machine with one buffer level is: partitions into fused groups × ways to
share inputs × execution orders × structures × tilings × uses of the units. This engine lists all of it
(`docs/engines.md`): groups are scored one by one (`search`), then combined.
"""

from __future__ import annotations

from exactile.solver.mmee.engine import mmee

__all__ = ["mmee"]
