"""The heads by name."""

from functools import cache
from typing import TYPE_CHECKING

from ggeur.core.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.heads.head import Head

HEADS = ("linear", "mlp")


@cache
def resolve(name: str, *, hidden: int = 256, softmax: bool = False) -> "Head":
    """The head of that name; the same object for the same arguments, so that nothing is compiled twice."""
    from ggeur.heads.linear import linear
    from ggeur.heads.mlp import mlp

    if name == "linear":
        return linear(softmax=softmax)
    if name == "mlp":
        return mlp(hidden=hidden, softmax=softmax)
    raise GgeurError(f"There is no head '{name}'; there are {', '.join(HEADS)}.")
