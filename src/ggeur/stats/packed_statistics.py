"""Statistics as they travel: of each group the count, the sum, and the second moment about its mean, row by row.

A group is the samples of one class in one domain. Its scatter S = sum of (x - mean)(x - mean)' is symmetric, so the
rows of its upper triangle travel. Of n <= p samples S has rank n - 1 at most: then the n - 1 rows of R with S = R'R
travel, triangular and with a diagonal that is not negative. So a group never takes more numbers than its samples do.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance, SiteStatistics, matrices
from ggeur.stats.streaming import Piece, streamed_statistics
from ggeur.stats.types import Bool, Float, Int

_ROUNDING = 1e-9  # share of a scatter's trace: an eigenvalue below minus it is no rounding
_LARGEST = 1e100  # the product of two is still a number


@dataclass(frozen=True, eq=False)
class PackedStatistics:
    """The statistics of one domain of a site.

    `moments` are the rows of all groups, in the order of the classes. Where moments are pooled, all samples are one
    group.
    """

    kind: Covariance
    count: Float  # (C,)
    sum: Float  # (C, p) of the samples
    moments: Float

    @classmethod
    def of(cls, found: SiteStatistics, small: Mapping[int, NDArray[Any]]) -> "PackedStatistics":
        """Return the statistics `found`, whose groups of no more than p samples are `small`, by class."""
        count, p = found.count, found.dimension
        parts: list[Float] = []
        with np.errstate(over="ignore", invalid="ignore"):  # said below, once
            if found.kind == "per-class":
                for c in np.flatnonzero(count > 1).tolist():
                    parts.append(_factor_rows(small[c]) if c in small else found.scatter_of(c)[_upper(p, p)])
            elif found.kind == "pooled":
                parts = [_factor_rows(small[0]) if 0 in small else found.second[0][_upper(p, p)]]
        moments = np.concatenate(parts) if parts else np.zeros(0)
        if not np.isfinite(moments).all():
            raise GgeurError(
                "The embeddings are so large that their squares overflow; scale them down.", code="embeddings-overflow"
            )
        return cls(found.kind, count, found.sum + count[:, None] * found.center, moments)

    @property
    def dimension(self) -> int:
        """Return the dimension p of the embeddings."""
        return int(self.sum.shape[1])

    @property
    def statistics(self) -> SiteStatistics:
        """Return the same as sums and second moments about the mean of all samples."""
        count, p, d = self.count, self.dimension, _shifts(self.count, self.sum)
        second = np.zeros((matrices(self.kind, len(count)), p, p))
        if self.kind == "pooled" and len(self.moments):
            second[0] = _scatter(self.moments, int(count.sum()), p)
        for c, n, rows in self._groups() if self.kind == "per-class" else ():
            second[c] = (0.0 if rows is None else _scatter(rows, n, p)) + n * np.outer(d[c], d[c])
        return SiteStatistics(count, count[:, None] * d, second, _center(count, self.sum))

    def factors(self) -> Iterator[tuple[int, int, Float]]:
        """Yield the class, the number of samples and the factor R (n - 1, p) of each group that travels as one."""
        p = self.dimension
        for c, n, rows in self._groups():
            if rows is not None and n <= p:
                yield c, n, _matrix(rows, n - 1, p)

    def check(self) -> None:
        """Raise ValueError unless some samples can have these statistics."""
        if (self.count < 0).any() or (self.count != np.round(self.count)).any() or not self.count.any():
            raise ValueError("its counts are not numbers of samples")
        if self.sum[self.count == 0].any():
            raise ValueError("it has sums of classes without samples")
        if any(len(a) and np.abs(a).max() > _LARGEST for a in (self.sum, self.moments)):
            raise ValueError(f"it has numbers above {_LARGEST:g}, which no embeddings give")
        if len(self.moments) != packed_length(self.count, self.dimension, self.kind):
            raise ValueError("it has more or fewer moments than its counts need")
        for _, _, factor in self.factors():
            if (np.diagonal(factor) < 0).any():
                raise ValueError("the diagonal of a factor is negative")
        if self.kind == "pooled":
            whole = self.statistics
            _check_scatter(whole.scatter_of(0), float(np.trace(whole.second[0])))
        for _, n, rows in self._groups():
            if rows is not None and n > self.dimension:
                _check_scatter(_scatter(rows, n, self.dimension), _trace(rows, self.dimension))

    def _groups(self) -> Iterator[tuple[int, int, Float | None]]:
        """Yield the class, the number of samples and the rows of every group; of one sample, no rows."""
        at = 0
        sizes = [(0, int(self.count.sum()))] if self.kind == "pooled" else []
        if self.kind == "per-class":
            sizes = [(c, int(self.count[c])) for c in np.flatnonzero(self.count).tolist()]
        for c, n in sizes:
            length = _length(min(n - 1, self.dimension), self.dimension)
            yield c, n, self.moments[at : at + length] if length else None
            at += length


def packed_statistics(
    pieces: Iterable[Piece], n_classes: int, kind: Covariance, *, workers: int = 0
) -> dict[int, PackedStatistics]:
    """Return the statistics of every domain in `pieces`, as they travel; see `streamed_statistics`.

    >>> packed = packed_statistics([Piece(np.eye(3)[:2], np.zeros(2, int), np.zeros(2, int))], 1, "per-class")[0]
    >>> packed.moments, packed.statistics.second[0, 0]
    (array([ 0.707, -0.707,  0.   ]), array([ 0.5, -0.5,  0. ]))
    """
    groups = _SmallGroups(n_classes)
    watched = pieces if kind == "none" else groups.watched(pieces, pooled=kind == "pooled")
    found = streamed_statistics(watched, n_classes, kind, workers=workers, small=False)  # they travel as factors
    with threadpool_limits(1):  # the number of threads decides the last digits
        return {d: PackedStatistics.of(found.pop(d), groups.of_domain(d)) for d in list(found)}


class _SmallGroups:
    """The samples of groups that have no more of them than dimensions, in their order."""

    def __init__(self, n_classes: int) -> None:
        self._classes = n_classes
        self._kept: dict[int, dict[int, list[NDArray[Any]]]] = {}
        self._size: dict[int, Int] = {}

    def watched(self, pieces: Iterable[Piece], *, pooled: bool) -> Iterator[Piece]:
        for piece in pieces:
            for d in np.unique(piece.domain).tolist():
                self._add(d, piece.x, np.flatnonzero(piece.domain == d), np.zeros_like(piece.y) if pooled else piece.y)
            yield piece

    def of_domain(self, d: int) -> dict[int, NDArray[Any]]:
        return {c: np.concatenate(parts) for c, parts in self._kept.get(d, {}).items()}

    def _add(self, d: int, x: NDArray[Any], samples: Int, y: Int) -> None:
        kept = self._kept.setdefault(d, {})
        size = self._size.setdefault(d, np.zeros(self._classes, np.int64))
        samples = samples[size[y[samples]] <= x.shape[1]]
        if not len(samples):
            return
        size += np.bincount(y[samples], minlength=len(size))
        order = samples[np.argsort(y[samples], kind="stable")]
        classes, starts = np.unique(y[order], return_index=True)
        for c, own in zip(classes.tolist(), np.split(order, starts[1:]), strict=True):
            if size[c] > x.shape[1]:
                kept.pop(c, None)
            else:
                kept.setdefault(c, []).append(x[own])


def packed_length(count: Float, p: int, kind: Covariance) -> int:
    """Return how many numbers the moments of groups with these counts (C,) take.

    >>> packed_length(np.array([1.0, 3.0, 100.0]), 4, "per-class")  # none, two rows of a factor, a triangle
    17
    """
    sizes = count if kind == "per-class" else count.sum(keepdims=True)[: matrices(kind, len(count))]
    return sum(_length(min(int(n) - 1, p), p) for n in sizes if n > 1)


def triangular_factor(z: Float) -> Float:
    """Return R (n - 1, p), triangular with a diagonal that is not negative, of n <= p samples `z` about their mean.

    >>> r = triangular_factor(np.array([[1.0, 0.0, 2.0], [-1.0, 0.0, -2.0]]))
    >>> r.T @ r
    array([[2., 0., 4.],
           [0., 0., 0.],
           [4., 0., 8.]])
    """
    k = np.arange(1, len(z))[:, None]
    contrasts = (np.cumsum(z, axis=0)[:-1] - k * z[1:]) / np.sqrt(k * (k + 1))  # Helmert's: all but the mean
    r = np.asarray(np.linalg.qr(contrasts, mode="r"))
    return np.asarray(r * np.where(np.diagonal(r) < 0, -1.0, 1.0)[:, None] + 0.0)


def _factor_rows(x: NDArray[Any]) -> Float:
    n, p = x.shape
    z = x.astype(np.float64)
    z -= z.mean(axis=0)
    return triangular_factor(z)[_upper(n - 1, p)] if np.isfinite(np.vdot(z, z)) else np.full(1, np.inf)


def _scatter(rows: Float, n: int, p: int) -> Float:
    """(p, p): the scatter of `n` samples, symmetric to the bit."""
    if n <= p:
        factor = _matrix(rows, n - 1, p)
        upper = np.triu(factor.T @ factor)
    else:
        upper = _matrix(rows, p, p)
    return np.asarray(upper + np.triu(upper, 1).T)


def _matrix(rows: Float, k: int, p: int) -> Float:
    made = np.zeros((k, p))
    made[_upper(k, p)] = rows
    return made


def _trace(rows: Float, p: int) -> float:
    return float(np.trace(_matrix(rows, p, p)))


def _check_scatter(scatter: Float, trace: float) -> None:
    try:  # fails unless every eigenvalue is positive, at a tenth of what finding them costs
        np.linalg.cholesky(scatter + (_ROUNDING * abs(trace) + 1e-300) * np.eye(len(scatter)))
    except np.linalg.LinAlgError as error:
        raise ValueError("one of its variances is negative") from error


def _length(k: int, p: int) -> int:
    """Return how many numbers the first `k` rows of a triangle (p, p) have."""
    return k * p - k * (k - 1) // 2


@lru_cache(maxsize=64)
def _upper(k: int, p: int) -> Bool:
    return np.triu(np.ones((k, p), np.bool_))


def _center(count: Float, total: Float) -> Float:
    return np.asarray(total.sum(axis=0) / count.sum())


def _shifts(count: Float, total: Float) -> Float:
    """(C, p): the mean of each class less the mean of all; zero for a class without samples."""
    n = np.where(count > 0, count, 1.0)[:, None]
    return np.where(count[:, None] > 0, total / n - _center(count, total), 0.0)
