"""The aggregation of clients' messages, part by part, as a method says in `adds` and `prepared_adds`."""

from collections.abc import Mapping
from typing import Literal, get_args

import jax
import jax.numpy as jnp

from ggeur.methods.method import Method, uniform_mean, weighted_mean
from ggeur.methods.parts import Parts, PreparedSum, Sum
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Tree


def check_message(method: Method, sender: Literal["upload", "prepare"], message: Parts) -> None:
    """Raise where the method does not say of each part of `message` how it adds up; `sender` is what made it.

    It is called while a program is traced, so once for each, and before anything is computed.
    """
    field = "adds" if sender == "upload" else "prepared_adds"
    adds: Mapping[str, str] = getattr(method, field)
    known = get_args(Sum if sender == "upload" else PreparedSum)
    if not isinstance(message, dict):
        raise GgeurError(
            f"The message that the method's {sender} returns must be a dictionary of its parts.",
            code="method-message-type",
        )
    if set(message) != set(adds):
        sent, named = (", ".join(map(repr, parts)) or "nothing" for parts in (message, adds))
        raise GgeurError(
            f"The method's {sender} sends {sent}, and its {field} names {named}: they must be the same.",
            code="method-declaration-mismatch",
        )
    for part, how in adds.items():
        if how not in known:
            raise GgeurError(
                f"The method's {field} says {how!r} of {part!r}; it may say {', '.join(known)}.",
                code="method-declaration-unknown",
            )


def add_messages(method: Method, messages: Parts, weights: jax.Array) -> Parts:
    """Return the `messages`, stacked over clients, as `weights` of sum 1 add them up for `method.aggregate`."""
    return {part: _added(method.adds[part], stacked, weights) for part, stacked in messages.items()}


def add_prepared(method: Method, messages: Parts) -> Parts:
    """Return what `method.init` is given: the clients' first `messages` as they add up, or {}.

    They are stacked over all clients in their order, with zeros for those without samples.
    """
    if not method.prepares:
        return {}
    return {part: _added(method.prepared_adds[part], stacked) for part, stacked in messages.items()}


def _added(how: Sum, stacked: Tree, weights: jax.Array | None = None) -> Tree:
    if how == "weighted":
        assert weights is not None, "weights are of a round"
        return weighted_mean(stacked, weights)
    if how == "equal":
        return uniform_mean(stacked)
    if how == "sum":
        return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), stacked)
    return stacked
