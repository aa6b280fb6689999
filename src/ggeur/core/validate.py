"""Checks that every door into the core shares, each with a sentence that says what is wrong and where."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.core.errors import GgeurError


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


def check_labels(y: ArrayLike, n_classes: int, rows: int, name: str = "y") -> NDArray[np.int64]:
    """`rows` whole numbers in 0..n_classes-1, or a GgeurError."""
    y = np.asarray(y)
    if y.shape != (rows,):
        raise GgeurError(f"The labels {name} have shape {y.shape}; with {rows} embeddings it must be ({rows},).")
    if y.size and (y.dtype.kind not in "iu" and not np.array_equal(y, np.round(y))):
        raise GgeurError(f"The labels {name} must be whole numbers.")
    y = y.astype(np.int64)
    if y.size and (y.min() < 0 or y.max() >= n_classes):
        bad = int(np.argmax((y < 0) | (y >= n_classes)))
        raise GgeurError(f"The label {y[bad]} in row {bad} of {name} is outside 0..{n_classes - 1}.")
    return y
