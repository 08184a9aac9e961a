"""In place: which Einsums of a group can overwrite their input, and when that is never worse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from exactile.formulation.cascade import Cascade
from exactile.formulation.einsum import Einsum


def leaves(cascade: Cascade, tensor: str, inside: set[str]) -> bool:
    """Whether a tensor is needed outside the Einsums `inside`."""
    users = cascade.consumers[tensor]
    return cascade.tensors[tensor].role == "output" or any(user.name not in inside for user in users)


def in_place_chain(cascade: Cascade, tensor: str, overwriting: frozenset[str]) -> Iterator[str]:
    """`tensor` and what overwrites it in turn."""
    yield tensor
    for user in cascade.consumers[tensor]:
        if user.name in overwriting and user.in_place == tensor:
            yield from in_place_chain(cascade, user.name, overwriting)


def able(cascade: Cascade, einsums: Sequence[Einsum]) -> list[str]:
    """The Einsums that can work in place: written here, what they overwrite is needed by nobody later."""
    at = {einsum.name: position for position, einsum in enumerate(einsums)}
    return [
        einsum.name
        for position, einsum in enumerate(einsums)
        if einsum.in_place in at
        and all(at.get(user.name, len(at)) <= position for user in cascade.consumers[einsum.in_place])
    ]


def never_worse(order: Sequence[str], others: Sequence[Sequence[str]], again: Iterable[str]) -> bool:
    """Whether to overwrite is at least as good as a second shared buffer of the same width.

    `order` is how the Einsums run, `others` are the users of all other shared buffers, `again` the Einsums
    that write to the second buffer and may be executed more than once.

    Let both buffers move to the smaller of their two residencies and become one: it lives where one of
    them did, nothing is visited more often and fewer loops are shared. That is legal but for two cases.
    Einsums that other buffers keep together no longer stand together; not if each of those serves
    neighbours. And an Einsum would be executed again in a loop that it still shares through another
    buffer, with what it read overwritten.
    """
    at = {name: place for place, name in enumerate(order)}
    together = all(at[users[-1]] - at[users[0]] < len(users) for users in others)
    return together and not any(name in users for name in again for users in others)
