"""What the replay refuses to execute."""

from __future__ import annotations


class ReplayError(ValueError):
    """The mapping cannot be executed, or executing it would compute a wrong number.

    The message names the tensor, the Einsum and the tile.
    """
