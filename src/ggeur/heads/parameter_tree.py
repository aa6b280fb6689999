"""Trees of arrays by path, without JAX: one-shot classifiers are NumPy's, and importing JAX takes a second."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ggeur.stats.types import Tree


def by_path(tree: Tree) -> dict[str, Any]:
    """Return the leaves of a tree by path: those of {"W": w, "deep": [{"b": b}]} are "W" and "deep/0/b".

    >>> list(by_path({"b": 1.0, "W": (2.0, None)}))
    ['W/0', 'b']
    """
    if isinstance(tree, np.ndarray | np.generic | float):
        return {"": tree}
    if (steps := _steps(tree)) is None:
        return _by_jax(tree)
    found: dict[str, Any] = {}
    for step, part in steps:
        found |= {f"{_name(step)}/{path}" if path else _name(step): leaf for path, leaf in by_path(part).items()}
    return found


def mapped(f: Callable[[Any], Any], tree: Tree) -> Tree:
    """Return the tree with `f` of every leaf.

    >>> mapped(abs, {"W": [-1.0, 2.0]})
    {'W': [1.0, 2.0]}
    """
    if isinstance(tree, np.ndarray | np.generic | float):
        return f(tree)
    if (steps := _steps(tree)) is None:
        import jax

        return jax.tree.map(f, tree)
    parts = [(step, mapped(f, part)) for step, part in steps]
    return dict(parts) if isinstance(tree, dict) else None if tree is None else type(tree)(part for _, part in parts)


def _steps(tree: Tree) -> list[tuple[Any, Tree]] | None:
    """The parts of a tree in JAX's order, each with its key; None where JAX is to say what it is."""
    if tree is None:
        return []
    if type(tree) is dict:
        return sorted(tree.items(), key=lambda item: item[0])
    return list(enumerate(tree)) if type(tree) in (list, tuple) else None


def _by_jax(tree: Tree) -> dict[str, Any]:
    from jax.tree_util import keystr, tree_flatten_with_path

    def names(path: Any) -> str:
        return "/".join(_name(keystr((step,), simple=True)) for step in path)

    return {names(path): leaf for path, leaf in tree_flatten_with_path(tree)[0]}


def _name(step: Any) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")  # as in a JSON pointer: no two alike
