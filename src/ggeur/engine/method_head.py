"""Methods with a head of their own: their frozen arrays on this machine, and the head they come to."""

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp

from ggeur.methods.algorithm import Iterative, Recipe
from ggeur.methods.parts import Released
from ggeur.stats.types import Tree


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
