"""Encode real numbers as integers modulo 2^64, in which masks are uniform and totals are exact.

A number is divided by a public bound, a power of two, and keeps as many binary places as the total of all sites leaves
room for: 60 for four sites, 56 for fifty. Numbers beyond their bound are refused, as they would decode wrongly.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.errors import GgeurError

Vector = NDArray[np.uint64]
_LEAST_BITS = 40


class Block(NamedTuple):
    """An array of a message: its name, its shape, and the bound of its numbers at one site."""

    name: str
    shape: tuple[int, ...]
    bound: float

    @property
    def size(self) -> int:
        """Return how many numbers it has."""
        return math.prod(self.shape)

    @property
    def exponent(self) -> int:
        """Return the exponent of the power of two above its bound."""
        return math.frexp(self.bound)[1]


def places(terms: int) -> int:
    """Return the binary places that numbers keep in a total of so many `terms`.

    >>> places(4), places(50)
    (60, 56)
    """
    bits = 62 - (terms - 1).bit_length()
    if bits < _LEAST_BITS:
        raise GgeurError(
            f"A secure aggregation of {terms} sites would keep fewer than {_LEAST_BITS} binary places.",
            code="secure-aggregation-precision-lost",
        )
    return bits


def encode(arrays: Mapping[str, NDArray[Any]], blocks: Sequence[Block], terms: int) -> Vector:
    """Return all `arrays`, which match `blocks`, as one vector for a total of so many `terms`."""
    bits, vector, at = places(terms), np.empty(sum(b.size for b in blocks), np.uint64), 0
    for block in blocks:
        values = np.asarray(arrays[block.name], np.float64)
        if values.shape != block.shape:
            raise GgeurError(
                f"the array '{block.name}' has shape {values.shape}, not {block.shape}", code="site-array-shape"
            )
        if not np.isfinite(values).all():
            raise GgeurError(
                f"the array '{block.name}' holds NaN or infinite values, which cannot be added up",
                code="site-array-not-finite",
            )
        if values.size and float(np.abs(values).max()) > block.bound:
            raise GgeurError(
                f"the array '{block.name}' holds values beyond {block.bound:g}, the public bound of a secure "
                f"aggregation",
                code="site-array-beyond-bound",
            )
        whole = np.rint(np.ldexp(values.ravel(), bits - block.exponent)).astype(np.int64)
        vector[at : at + block.size] = whole.view(np.uint64)
        at += block.size
    return vector


def decode(total: Vector, blocks: Sequence[Block], terms: int) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of a `total` of so many `terms`."""
    bits, found, at = places(terms), {}, 0
    for block in blocks:
        whole = total[at : at + block.size].view(np.int64).astype(np.float64)
        found[block.name] = np.ldexp(whole, block.exponent - bits).reshape(block.shape)
        at += block.size
    return found
