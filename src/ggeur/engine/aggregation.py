"""A server's part of a round: the sum of clients' messages as a method declares it, and the head that comes of it."""

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp

from ggeur.engine.local import folded_key
from ggeur.methods.algorithm import Iterative, Recipe
from ggeur.methods.method import Method, uniform_mean, weighted_mean
from ggeur.methods.parts import Parts, Released, RoundFacts, Sum
from ggeur.stats.types import Tree


def add_messages(method: Method, messages: Parts, weights: jax.Array) -> Parts:
    """Return the `messages`, stacked over clients, as `weights` of sum 1 add them up for `method.aggregate`."""
    return {part: _added(method.adds[part], stacked, weights) for part, stacked in messages.items()}


@lru_cache(maxsize=64)
def aggregation(recipe: Recipe, *, added: bool = False) -> Callable[..., Tree]:
    """(server, messages, ids, weights, names, the method's numbers) -> server: the method's, compiled.

    `recipe` builds the method around its numbers. `messages` are stacked over the clients `ids`, whose `weights` sum to
    1, and added up here, unless they come `added` up; `names` are seed, purpose and round.
    """

    def aggregate(
        server: Tree, messages: Parts, ids: jax.Array, weights: jax.Array, names: jax.Array, numbers: Tree
    ) -> Tree:
        method = recipe(numbers)
        total = messages if added else add_messages(method, messages, weights)
        return method.aggregate(server, total, RoundFacts(len(ids), ids, weights, folded_key(names)))

    return jax.jit(aggregate)


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


def frozen(trained: Iterative) -> Tree:
    """Return what a method neither trains nor sends; nothing for a method without a head of its own."""
    own = trained.method.head
    return () if own is None else jax.tree.map(jnp.asarray, own.frozen())


def heavy(trained: Iterative) -> bool:
    """Return whether every client has a compiled call of its own."""
    return trained.method.head is not None and trained.method.head.heavy


def shown(trained: Iterative, sent: Released, arrays: Tree) -> Tree:
    """Return the head that is scored and saved, from what a server sends: trained, or made of it by the method.

    `arrays` are those that are frozen.
    """
    if trained.method.head is None:
        return sent["params"]
    return _showing(trained.recipe)(sent, arrays, dict(trained.numbers))


@lru_cache(maxsize=64)
def _showing(recipe: Recipe) -> Callable[[Released, Tree, Tree], Tree]:
    def head(sent: Released, arrays: Tree, numbers: Tree) -> Tree:
        own = recipe(numbers).head
        assert own is not None
        return own.shown(sent, arrays)

    return jax.jit(head)
