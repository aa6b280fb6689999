"""Cells too small to share are left out of a message."""

from typing import TypeVar

from ggeur.core.errors import GgeurError
from ggeur.core.message import Message

M = TypeVar("M", bound=Message)


def withheld(message: M, min_count: int) -> M:
    """The `message` without its classes of fewer than `min_count` rows.

    Pooled moments are of all rows together, and a message does not say what a class adds to them: a class must leave
    before moments are pooled.

    >>> m = Message.from_embeddings([[0.0], [2.0], [5.0]], [0, 0, 1], 2)
    >>> withheld(m, 2).count
    array([2., 0.])
    """
    shared = message.count >= min_count
    if message.kind == "pooled" and not shared[message.present].all():
        raise GgeurError("Pooled moments hold the rows of every class; leave a class out before they are pooled.")
    return message.only(shared)
