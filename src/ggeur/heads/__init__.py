"""The heads by name."""

from functools import lru_cache
from typing import TYPE_CHECKING

from ggeur.core.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.heads.head import Head

HEADS = ("linear",)


@lru_cache(maxsize=8)
def resolve(name: str, *, softmax: bool = False) -> "Head":
    """The head of that name; the same object for the same arguments."""
    from ggeur.heads.linear import linear

    if name != "linear":
        raise GgeurError(f"There is no head '{name}'; there are {', '.join(HEADS)}.")
    return linear(softmax=softmax)
