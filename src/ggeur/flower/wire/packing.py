"""Pack trees of a method, and statistics with symmetric matrices as triangles, into plain named arrays.

Nothing here uses Flower or pickle; `records` turns these dictionaries into Flower's records and back.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.storage import read_arrays, write_atomically
from ggeur.stats.triangles import from_triangles, triangles
from ggeur.stats.types import Float, Tree

Arrays = dict[str, NDArray[Any]]
MESSAGE = ("count", "sum", "second")  # the arrays of a message

_DEEPEST = 50  # of a method's message; the parsers after this one give up at depths of their own


def tree_to_arrays(tree: Tree, prefix: str = "") -> tuple[Arrays, str]:
    """Return the leaves of `tree` by `prefix` and number, and its structure of dictionaries, lists and tuples as JSON.

    >>> tree_to_arrays({"W": np.ones(2), "rest": (np.zeros(1),)})[1]
    '{"W": 0, "rest": ["tuple", 1]}'
    """
    arrays: Arrays = {}

    def shape_of(node: Tree) -> Any:
        if isinstance(node, Mapping):
            return {str(key): shape_of(part) for key, part in node.items()}
        if type(node) in (tuple, list):
            return [type(node).__name__, *map(shape_of, node)]
        leaf = np.asarray(None) if isinstance(node, tuple) else np.asarray(node)  # a named tuple has lost its names
        if leaf.dtype.hasobject:
            raise GgeurError(
                f"A method's message holds a {type(node).__name__}; use arrays in dictionaries, lists and tuples.",
                code="method-message-content",
            )
        arrays[f"{prefix}{len(arrays)}"] = leaf
        return len(arrays) - 1

    shape = shape_of(tree)
    return arrays, json.dumps(shape)


def arrays_to_tree(arrays: Mapping[str, NDArray[Any]], shape: str, prefix: str = "") -> Tree:
    """Return the tree from the `arrays` and the `shape` of `tree_to_arrays`, with the same `prefix`.

    Raise GgeurError, with the end of a sentence about the sender, where they do not fit.
    """

    def build(node: Any, room: int = _DEEPEST) -> Tree:
        if not room:
            raise ValueError("it is nested too deeply")
        if isinstance(node, dict):
            return {key: build(part, room - 1) for key, part in node.items()}
        if isinstance(node, list):
            kind, *parts = node
            if kind not in ("tuple", "list"):
                raise ValueError(f"{kind!r} is neither a tuple nor a list")
            return (tuple if kind == "tuple" else list)(build(part, room - 1) for part in parts)
        if type(node) is not int:
            raise ValueError(f"{node!r} is not the number of an array")
        return arrays[f"{prefix}{node}"]

    try:
        return build(json.loads(shape))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise GgeurError(f"its message cannot be read ({one_line(error)})", code="message-unreadable") from error


def save_tree(path: Path, tree: Tree) -> None:
    """Write `tree` to `path` atomically."""
    arrays, shape = tree_to_arrays(tree, "leaf")
    with write_atomically(path) as file:
        np.savez(file, allow_pickle=False, shape=np.array(shape), **arrays)


def load_tree(path: Path) -> Tree:
    """Return the tree that was written to `path`; raise GgeurError where it is missing or damaged."""
    arrays = read_arrays(path)
    return arrays_to_tree(arrays, str(arrays.get("shape")), "leaf")


def pack_factors(factors: NDArray[Any], rest: NDArray[Any]) -> Arrays:
    """Return symmetric `factors` (m, p, p) as triangles, or low-rank ones (m, r, p) as they are, with `rest` (m,)."""
    if factors.shape[1] == factors.shape[2]:
        return {"factors": triangles(factors)}
    return {"factors": factors, "rest": rest}


def unpack_factors(arrays: Mapping[str, NDArray[Any]], p: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the factors and their rest from the `arrays` of `pack_factors`."""
    if "rest" in arrays:
        return arrays["factors"], arrays["rest"]
    return from_triangles(arrays["factors"], p), np.zeros(len(arrays["factors"]), np.float32)


def pack_message(message: SiteStatistics, prefix: str = "") -> Arrays:
    """Return a site's statistics as arrays without their center, which the server has; names begin with `prefix`."""
    arrays = {"count": message.count, "sum": message.sum, "second": triangles(message.second)}
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def unpack_message(arrays: Mapping[str, NDArray[Any]], center: Float | None) -> SiteStatistics:
    """Return the statistics sent as `arrays`, about the `center` that they were asked for, or zero."""
    p = arrays["sum"].shape[1]
    second = from_triangles(arrays["second"], p)
    return SiteStatistics(arrays["count"], arrays["sum"], second, np.zeros(p) if center is None else center)
