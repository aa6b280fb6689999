"""What travels, as plain named arrays: trees of a method, and statistics whose symmetric matrices are triangles.

Nothing here knows Flower or pickles; `records` turns these dictionaries into Flower's records and back.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.statistics import ClassStatistics
from ggeur.core.types import Float, Tree

Arrays = dict[str, NDArray[Any]]

_DEEPEST = 50  # of a method's message; the parsers after this one give up at depths of their own


def tree_to_arrays(tree: Tree, prefix: str = "") -> tuple[Arrays, str]:
    """The leaves by number, and as JSON how dictionaries, lists and tuples hold them.

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
                f"A method's message holds a {type(node).__name__}; arrays in dictionaries, lists and tuples travel."
            )
        arrays[f"{prefix}{len(arrays)}"] = leaf
        return len(arrays) - 1

    shape = shape_of(tree)
    return arrays, json.dumps(shape)


def arrays_to_tree(arrays: Mapping[str, NDArray[Any]], shape: str, prefix: str = "") -> Tree:
    """The tree again; a GgeurError ends a sentence about the sender of arrays and shape that do not fit."""

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
        raise GgeurError(f"its message cannot be read ({error!r})") from error


def triangle_size(p: int) -> int:
    return p * (p + 1) // 2


def triangles(matrices: NDArray[Any]) -> NDArray[Any]:
    """(n, p, p) symmetric -> (n, p (p + 1) / 2): the upper triangles, row by row."""
    return np.ascontiguousarray(matrices[:, *np.triu_indices(matrices.shape[-1])])


def from_triangle(triangle: NDArray[Any], p: int) -> NDArray[Any]:
    """One upper triangle -> (p, p), symmetric."""
    upper = np.triu_indices(p)
    full = np.empty((p, p), triangle.dtype)
    full[upper] = triangle
    full.T[upper] = triangle
    return full


@dataclass(frozen=True, eq=False)
class Packed:
    """A site's statistics as they travel; like `ClassStatistics` they add up."""

    count: Float  # (C,)
    sum: Float  # (C, p), of x - center
    second: Float  # (C, p (p + 1) / 2), or (1, ...) summed over classes, or (0, ...) where means suffice

    @property
    def dimension(self) -> int:
        return int(self.sum.shape[1])

    def __add__(self, other: "Packed") -> "Packed":
        return Packed(self.count + other.count, self.sum + other.sum, self.second + other.second)

    def only(self, classes: NDArray[np.bool_]) -> "Packed":
        """The statistics of these classes, the others emptied."""
        second = np.where(classes[:, None], self.second, 0.0) if len(self.second) == len(self.count) else self.second
        return Packed(np.where(classes, self.count, 0.0), np.where(classes[:, None], self.sum, 0.0), second)

    def scatter(self, c: int) -> Float:
        """(p, p): sum of (x - mean)(x - mean)' of class c, or over all classes where they were summed."""
        n = np.where(self.count > 0, self.count, 1.0)
        mine = [c] if len(self.second) == len(self.count) else range(len(self.count))
        between = sum((np.outer(self.sum[i], self.sum[i]) / n[i] for i in mine), np.zeros((self.dimension,) * 2))
        return np.asarray(from_triangle(self.second[c], self.dimension) - between)

    def unpacked(self, center: Float | None = None) -> ClassStatistics:
        """As `ClassStatistics`; second moments that were not sent are zero, and must not be used."""
        p = self.dimension
        second = np.zeros((len(self.count), p, p))
        if len(self.second) == len(self.count):
            for c, triangle in enumerate(self.second):
                second[c] = from_triangle(triangle, p)
        return ClassStatistics(self.count, self.sum, second, np.zeros(p) if center is None else center)


def pack_statistics(s: ClassStatistics, matrices: str) -> Packed:
    """`matrices`: "per-class", "pooled" (one, summed over the classes) or "means" (none)."""
    if matrices == "per-class":
        second = np.stack([triangles(one[None])[0] for one in s.second])
    elif matrices == "pooled":
        second = triangles(s.second.sum(axis=0, keepdims=True))
    else:
        second = np.zeros((0, triangle_size(s.dimension)))
    return Packed(s.count, s.sum, second)
