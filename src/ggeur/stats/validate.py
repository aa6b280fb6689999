"""Checks that every public function of the core shares, each with a sentence that says what is wrong and where."""

import os
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.stats.errors import GgeurError, nearest

_MOST_CLASSES = 1_000_000  # a label beyond it, where nothing names the classes, is damage and not a class

T = TypeVar("T")


def check_is(name: str, value: T, kind: type | UnionType, what: str) -> T:
    """Return `value`, where it is of a `kind`; else raise a GgeurError that says `what` it must be."""
    if not isinstance(value, kind):
        raise GgeurError(f"{name} is {reprlib.repr(value)}; it must be {what}.", code="argument-type")
    return value


def check_all(name: str, values: Iterable[T], kind: type, what: str) -> Iterator[T]:
    """Return each of `values` in turn, where it is a `kind`; else raise a GgeurError that says `what` they must be."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise GgeurError(f"{name} is {reprlib.repr(values)}; it must be a list of {what}.", code="argument-not-list")
    return (check_is(f"One of {name}", value, kind, f"one of several {what}") for value in values)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise a GgeurError unless `value` is one of the `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise GgeurError(
            f"{name} is {reprlib.repr(value)}; it must be one of {', '.join(choices)}.{nearest(str(value), choices)}",
            code="argument-not-choice",
        )


def check_path(name: str, value: Any) -> Path:
    """Return a path, or raise a GgeurError."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise GgeurError(
            f"{name} is {reprlib.repr(value)}; it must be a path, as text or a Path.", code="argument-not-path"
        )
    if "\0" in os.fspath(value):
        raise GgeurError(f"{name} is {reprlib.repr(value)}; no path has a zero in it.", code="argument-path-null")
    return Path(value)


def check_share(name: str, value: Any) -> float:
    """Return a number above 0 and up to 1, or raise a GgeurError."""
    if not isinstance(value, float | int | np.floating) or isinstance(value, bool) or not 0 < value <= 1:
        raise GgeurError(
            f"{name} is {reprlib.repr(value)}; it must be above 0 and at most 1.", code="argument-not-fraction"
        )
    return float(value)


def check_numbers(name: str, value: Any, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Return finite numbers in an array of this `shape`, where None is any length; else raise a GgeurError."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise GgeurError(
            f"{name} is {reprlib.repr(value)}; it must be numbers.", code="argument-not-numbers"
        ) from error
    fits = array.ndim == len(shape) and all(m in (None, n) for m, n in zip(shape, array.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise GgeurError(
            f"{name} has shape {array.shape}; it must have shape ({wanted}{',' * (len(shape) == 1)}).",
            code="array-shape",
        )
    if not np.isfinite(array).all():
        raise GgeurError(f"{name} holds NaN or infinite values.", code="array-not-finite")
    return array


@contextmanager
def fits_memory(what: str) -> Iterator[None]:
    """Turn a MemoryError of the block into a sentence about `what`."""
    try:
        yield
    except MemoryError as error:
        raise GgeurError(f"There is not enough memory for {what}.", code="memory-insufficient") from error


def check_whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`, or raise a GgeurError."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise GgeurError(
            f"{name} is {reprlib.repr(value)}; it must be a whole number, {least} or more.",
            code="argument-not-whole-number",
        )
    if most is not None and value > most:
        raise GgeurError(f"{name} is {reprlib.repr(value)}; it must be at most {most:,}.", code="argument-too-large")
    return int(value)


def as_array(what: str, value: Any) -> NDArray[Any]:
    """Return `value` as an array of any type, or raise a GgeurError."""
    try:
        return np.asarray(value)
    except ValueError as error:  # entries of different lengths
        raise GgeurError(
            f"The {what} are ragged: all entries must have the same length.", code="samples-ragged"
        ) from error


def check_embeddings(x: ArrayLike, name: str = "x") -> NDArray[Any]:
    """Return an (n, p) array of finite floats, or raise a GgeurError."""
    x = as_array(f"embeddings {name}", x)
    if x.dtype.kind not in "fiu":
        raise GgeurError(f"The embeddings {name} have type {x.dtype}; they must be numbers.", code="embeddings-type")
    if x.ndim != 2 or x.shape[1] == 0:
        raise GgeurError(
            f"The embeddings {name} have shape {x.shape}; they must be (samples, dimensions).", code="embeddings-shape"
        )
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise GgeurError(
            f"The embeddings {name} hold NaN or infinite values, first in sample {bad}; remove or re-embed it.",
            code="embeddings-not-finite",
        )
    return x


def check_labels(y: ArrayLike, n_classes: int | None, samples: int | None, name: str = "y") -> NDArray[np.int64]:
    """Return `samples` whole numbers in 0..n_classes-1, or raise a GgeurError; None: any number of them."""
    y = as_array(f"labels {name}", y)
    if y.ndim != 1 or samples not in (None, len(y)):
        raise GgeurError(
            f"The labels {name} have shape {y.shape}; they must be ({samples or 'samples'},).", code="labels-shape"
        )
    whole = y.dtype.kind in "biu" or (y.dtype.kind == "f" and (np.isfinite(y) & (y == np.round(y))).all())
    if not whole:
        raise GgeurError(f"The labels {name} must be whole numbers.", code="labels-not-integers")
    most = _MOST_CLASSES if n_classes is None else n_classes
    outside = (y < 0) | (y >= most)
    if outside.any():
        bad = int(np.argmax(outside))
        raise GgeurError(
            f"The label {y[bad]} in sample {bad} of {name} is outside 0..{most - 1}.", code="labels-out-of-range"
        )
    return y.astype(np.int64)
