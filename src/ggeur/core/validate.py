"""Checks that every door into the core shares, each with a sentence that says what is wrong and where."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.core.errors import GgeurError

_MOST_CLASSES = 1_000_000  # a label beyond it, where nothing names the classes, is damage and not a class


def check_whole(name: str, value: Any, least: int = 1) -> int:
    """A whole number from `least` on, or a GgeurError."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise GgeurError(f"{name} is {value!r}; it must be a whole number, {least} or more.")
    return int(value)


def check_embeddings(x: ArrayLike, name: str = "x") -> NDArray[Any]:
    """An (n, p) array of finite floats, or a GgeurError."""
    try:
        x = np.asarray(x)
    except ValueError as error:  # rows of different lengths
        raise GgeurError(f"The embeddings {name} are ragged: every row must have the same length.") from error
    if x.dtype.kind not in "fiu":
        raise GgeurError(f"The embeddings {name} have type {x.dtype}; they must be numbers.")
    if x.ndim != 2 or x.shape[1] == 0:
        raise GgeurError(f"The embeddings {name} have shape {x.shape}; they must be (samples, dimensions).")
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise GgeurError(
            f"The embeddings {name} hold NaN or infinite values, first in row {bad}; remove or re-embed it."
        )
    return x


def check_labels(y: ArrayLike, n_classes: int | None, rows: int | None, name: str = "y") -> NDArray[np.int64]:
    """`rows` whole numbers in 0..n_classes-1, or a GgeurError; None where nothing says how many there are."""
    try:
        y = np.asarray(y)
    except ValueError as error:  # rows of different lengths
        raise GgeurError(f"The labels {name} are ragged: every row has one label.") from error
    if y.ndim != 1 or rows not in (None, len(y)):
        raise GgeurError(f"The labels {name} have shape {y.shape}; they must be ({rows or 'rows'},).")
    whole = y.dtype.kind in "biu" or (y.dtype.kind == "f" and (np.isfinite(y) & (y == np.round(y))).all())
    if not whole:
        raise GgeurError(f"The labels {name} must be whole numbers.")
    most = _MOST_CLASSES if n_classes is None else n_classes
    outside = (y < 0) | (y >= most)
    if outside.any():
        bad = int(np.argmax(outside))
        raise GgeurError(f"The label {y[bad]} in row {bad} of {name} is outside 0..{most - 1}.")
    return y.astype(np.int64)
