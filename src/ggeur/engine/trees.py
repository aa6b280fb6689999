"""Trees of arrays that are stacked over clients: taking, putting and joining some of them."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.stats.types import Tree


def take(tree: Tree, at: Any) -> Tree:
    """The clients `at` of `tree`: a number, numbers or a slice."""
    return jax.tree.map(lambda a: a[at], tree)


def put(tree: Tree, at: Any, values: Tree) -> Tree:
    """A copy of `tree` with the clients `at` replaced by `values`."""

    def replaced(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        changed = np.array(old)
        changed[at] = new
        return changed

    return jax.tree.map(replaced, tree, values)


def stack(trees: Sequence[Tree]) -> Tree:
    """One client from each of `trees`."""
    return jax.tree.map(lambda *a: np.stack(a), *trees)


def concatenate(trees: Sequence[Tree]) -> Tree:
    """The clients of all `trees`, one after the other."""
    return jax.tree.map(lambda *a: np.concatenate(a), *trees)


def scatter(trees: Sequence[Tree], at: Sequence[Any], length: int) -> Tree:
    """The clients of `trees` in one of `length`, each tree's where `at` says; every array is copied once."""

    def fill(*pieces: NDArray[Any]) -> NDArray[Any]:
        whole = np.empty((length, *pieces[0].shape[1:]), pieces[0].dtype)
        for piece, place in zip(pieces, at, strict=True):
            whole[place] = piece
        return whole

    return jax.tree.map(fill, *trees)


def size_in_bytes(tree: Tree) -> int:
    """Return the bytes of all arrays of `tree` together."""
    return sum(int(leaf.nbytes) for leaf in jax.tree.leaves(tree))
