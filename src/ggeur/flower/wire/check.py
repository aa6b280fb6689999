"""Check nodes' messages: refuse statistics that no data can have, and training messages that are not numbers.

A federation adds up what it is sent, so one broken or hostile site could spoil everybody's result. Each check raises
GgeurError with half a sentence that says what is wrong; the caller says whose it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.flower.wire.packing import MESSAGE, unpack_message
from ggeur.flower.wire.requested import RequestedPart, RequestedStatistics, announced
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance, SiteStatistics, matrices
from ggeur.stats.triangles import triangle_size
from ggeur.stats.types import Float, Int, Tree
from ggeur.stats.units import SampleMoments

NEGATIVE = 1e-8  # how far below zero an eigenvalue may be, as a share of the covariance's trace
_ROUNDING = 1e-12  # the same as a share of the second moment's trace: a single sample's covariance is rounding alone
LARGEST = 1e9  # of an embedding's or a parameter's components; real ones are below a thousand
_MOST_ROWS = 1e12


def checked_messages(
    arrays: Mapping[str, NDArray[Any]], wanted: RequestedStatistics, held: Int, p: int, center: Float | None
) -> dict[RequestedPart, SiteStatistics]:
    """A site's messages, or a GgeurError unless some data could have them all.

    `arrays` are as they came, `wanted` and `center` what was asked for, `p` is how many dimensions there are, and
    `held` (D, C) what the site said before that it holds.
    """
    parts = wanted.parts(np.flatnonzero(held.any(axis=1)).tolist())
    if arrays.keys() != {part.prefix + name for part in parts for name in MESSAGE}:
        raise GgeurError(
            "its statistics are not counts, sums and second moments of what it was asked for",
            code="message-statistics-invalid",
        )
    found = {}
    for part in parts:
        own = {name: arrays[part.prefix + name] for name in MESSAGE}
        if wanted.noisy:
            found[part] = checked_noise(own, wanted.kind, held.shape[1], p)
        else:
            found[part] = checked_message(own, wanted.kind, held.shape[1], p, center, announced(part, held))
    return found


def checked_message(
    arrays: Mapping[str, NDArray[Any]],
    kind: Covariance,
    classes: int,
    p: int,
    center: Float | None,
    count: Float,
    rounding: float = 0.0,
) -> SiteStatistics:
    """One of a site's messages, as `checked_messages` does it.

    Its `arrays` are three, of `kind`, of so many `classes`; `count` (C,) are the samples that the site said
    before. Their moments were rounded by up to `rounding` in fixed point.
    """
    held = _check_numbers(arrays, kind, classes, p)
    n = arrays["count"]
    if (n < 0).any():
        raise GgeurError(f"its count of class {int(np.argmin(n))} is negative", code="message-count-negative")
    if (n != np.round(n)).any() or (n > _MOST_ROWS).any():
        raise GgeurError("its counts are not numbers of samples", code="message-counts-invalid")
    if (n != count).any():
        raise GgeurError("its counts are not those it announced", code="message-counts-changed")
    if (np.abs(arrays["sum"]) > LARGEST * n[:, None]).any():
        raise GgeurError(
            f"its sums are absurdly large, or of classes it does not hold (beyond {LARGEST:g} a sample)",
            code="message-sums-too-large",
        )
    most = LARGEST**2 * (n if held == classes else n.sum(keepdims=True)[:held])
    if (np.abs(arrays["second"]) > most[:, None]).any():
        raise GgeurError(
            f"its second moments are absurdly large, or of classes it does not hold (beyond {LARGEST:g} squared a "
            f"sample)",
            code="message-moments-too-large",
        )
    message = unpack_message(arrays, center)
    for c in np.flatnonzero(most > 0):
        check_scatter(message, int(c), 4 * p * rounding)
    return message


def checked_noise(arrays: Mapping[str, NDArray[Any]], kind: Covariance, classes: int, p: int) -> SiteStatistics:
    """The same of a message with noise in it, which may be anything that is not absurd."""
    _check_numbers(arrays, kind, classes, p)
    if any((np.abs(array) > _MOST_ROWS * LARGEST**2).any() for array in arrays.values()):
        raise GgeurError("its statistics are absurdly large", code="message-statistics-too-large")
    return unpack_message(arrays, None)


def _check_numbers(arrays: Mapping[str, NDArray[Any]], kind: Covariance, classes: int, p: int) -> int:
    """Raise unless they are numbers, as many as there must be; how many second moments."""
    held = matrices(kind, classes)
    shapes = {"count": (classes,), "sum": (classes, p), "second": (held, triangle_size(p))}
    for key, shape in shapes.items():
        array, name = arrays[key], "second moments" if key == "second" else f"{key}s"
        if array.shape != shape or array.dtype != np.float64:
            raise GgeurError(
                f"its {name} have shape {array.shape} and type {array.dtype}, not {shape} and float64",
                code="message-array-shape",
            )
        if not np.isfinite(array).all():
            raise GgeurError(f"its {name} hold NaN or infinite values", code="message-not-finite")
    return held


def checked_sums(arrays: Mapping[str, NDArray[Any]], p: int, samples: int) -> SampleMoments:
    """A site's sums over its `samples` of `p` dimensions, in `arrays` as they came; a GgeurError if no data has
    them.
    """
    packed = arrays.get("sums", np.zeros(0))
    if packed.shape != (p + 2,) or packed.dtype != np.float64 or not np.isfinite(packed).all():
        raise GgeurError(
            "its sums over samples are not finite numbers, one for each dimension", code="message-sample-sums-invalid"
        )
    sums = SampleMoments(float(packed[0]), packed[2:], float(packed[1]))
    if sums.samples != samples:
        raise GgeurError("its sums are not over the samples it announced", code="message-sums-count-mismatch")
    possible = 0 <= sums.square <= LARGEST**2 * p * samples
    if not possible or sums.sum @ sums.sum > (1 + NEGATIVE) * samples * sums.square:
        raise GgeurError(
            "its sums over samples are absurdly large, or such as no data has", code="message-sample-sums-implausible"
        )
    return sums


def check_scatter(m: SiteStatistics, c: int, rounding: float) -> None:
    """Cholesky of the scatter, lifted by the tolerance, exists if and only if no eigenvalue is further below zero."""
    scatter = m.scatter_of(c)
    trace, whole = float(np.trace(scatter)), float(np.trace(m.second[c]))
    lift = NEGATIVE * max(trace, 0.0) + _ROUNDING * max(whole, 0.0) + rounding
    try:
        np.linalg.cholesky(scatter + lift * np.eye(m.dimension))
    except np.linalg.LinAlgError:
        if scatter.any() or lift > 0:
            name = f"covariance of class {c}" if m.kind == "per-class" else "covariance"
            raise GgeurError(
                f"its {name} is not positive semi-definite, which no data has", code="message-covariance-not-positive"
            ) from None


def check_leaves(leaves: Sequence[NDArray[Any]], expected: Sequence[Any], what: str) -> None:
    """Raise unless `leaves`, the arrays of a `what`, look like those of `expected` and hold reasonable numbers."""
    if len(leaves) != len(expected):
        raise GgeurError(f"its {what} has {len(leaves)} arrays, not {len(expected)}", code="message-arrays-number")
    for leaf, like in zip(leaves, expected, strict=True):
        if leaf.shape != tuple(like.shape) or leaf.dtype != like.dtype:
            raise GgeurError(
                f"its {what} holds an array of shape {leaf.shape} and type {leaf.dtype}, not {tuple(like.shape)} and "
                f"{like.dtype}",
                code="message-array-shape",
            )
        if leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
            raise GgeurError(
                f"its {what} holds NaN or infinite values (a smaller train.learning_rate may help)",
                code="message-not-finite",
            )
        if leaf.dtype.kind == "f" and leaf.size and float(np.abs(leaf).max()) > LARGEST:
            raise GgeurError(
                f"its {what} holds absurdly large values (beyond {LARGEST:g})", code="message-values-too-large"
            )


def check_tree(message: Tree, like: Tree, what: str) -> None:
    """Raise, with half a sentence about its sender, unless `message` can be added up with others.

    `like` is built as it must be, of arrays of the right shapes and types; `what` is how the sentence calls it.
    """
    structure: Any = jax.tree.structure(like)
    if jax.tree.structure(message) != structure:
        raise GgeurError(f"its {what} is not built as this method's messages are", code="message-structure-mismatch")
    check_leaves(jax.tree.leaves(message), jax.tree.leaves(like), what)
