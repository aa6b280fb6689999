"""The statistics a client shares: per class the count, the sum and the second moment of its embeddings.

The three add up, so the statistics of a federation are the sum of its clients' in any order and any tree, and a
client that leaves is subtracted again. Means and covariances (Eq. 4 of the paper) are read off the total: the
paper's "local covariances plus scatter of the local means" is the same number written another way.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.stats.errors import GgeurError
from ggeur.stats.moments import class_moments
from ggeur.stats.storage import read_arrays, write_atomically
from ggeur.stats.types import Float
from ggeur.stats.validate import (
    check_all,
    check_embeddings,
    check_is,
    check_labels,
    check_numbers,
    check_path,
    check_whole,
)

_SAME = "statistics of the same kind"
_ROUNDING = 1e-9  # share of a second moment's trace: an eigenvalue of what is left below minus it is no rounding


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Count, sum and second moment of each class, about a shared public `center`; float64, checked when made.

    With a mean far above the spread, `second / n - mean mean'` cancels; forming the moments about a center near
    the mean keeps the digits. The center is public and must be the same at every client.

    Parameters
    ----------
    count : samples of each class, (C,).
    sum : sum of the samples of each class about `center`, (C, p).
    second : sum of outer products about `center`, (C, p, p).
    center : the public point, (p,), the same at every site; zeros will do for embeddings near zero.

    Attributes
    ----------
    n_classes : number of classes C.
    dimension : number of dimensions p.
    present : which classes have samples, (C,).
    mean : mean of each class, (C, p).
    covariance : population covariance of each class, (C, p, p), Eq. 4 after a merge.
    within : covariance within classes, over all classes, (p, p).

    >>> x, y = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]]), np.array([0, 0, 1])
    >>> s = ClassStatistics.from_embeddings(x[:1], y[:1], 2) + ClassStatistics.from_embeddings(x[1:], y[1:], 2)
    >>> s.mean[0], s.covariance[0, 0, 0]
    (array([1., 1.]), np.float64(1.0))
    """

    count: Float  # (C,)
    sum: Float  # (C, p), of x - center
    second: Float  # (C, p, p), of (x - center)(x - center)'
    center: Float = field(repr=False)  # (p,)

    least_count: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        count = check_numbers("count", self.count, (None,))
        total = check_numbers("sum", self.sum, (len(count), None))
        p = total.shape[1]
        second = check_numbers("second", self.second, (None, p, p))
        if len(second) not in self._moments(len(count)):
            raise GgeurError(
                f"second holds {len(second)} moments; there must be one for each of {len(count)} classes.",
                code="statistics-moments-shape",
            )
        if (count < self.least_count).any():
            raise GgeurError(
                f"count is {count.min():g} for class {int(count.argmin())}; a count cannot be negative.",
                code="statistics-count-negative",
            )
        center = check_numbers("center", self.center, (p,))
        for name, value in (("count", count), ("sum", total), ("second", second), ("center", center)):
            object.__setattr__(self, name, value)

    @staticmethod
    def _moments(n_classes: int) -> tuple[int, ...]:
        """Return how many second moments there may be."""
        return (n_classes,)

    @classmethod
    def from_embeddings(cls, x: ArrayLike, y: ArrayLike, n_classes: int, *, center: ArrayLike | None = None) -> Self:
        """Return the statistics of one client's samples.

        Parameters
        ----------
        x : embeddings (n, p), of any float type; sums are formed in float64.
        y : labels (n,), whole numbers from 0 to n_classes - 1.
        n_classes : how many classes there are, held here or not; the same at every client.
        center : a public point (p,) about which moments are formed, the same at every client. Default: zero, which
            serves unless the mean is far above the spread.

        Raises GgeurError for NaN or infinite values, shapes that do not match and labels out of range.
        """
        x = check_embeddings(x)
        y = check_labels(y, check_whole("n_classes", n_classes, most=10**18), samples=len(x))
        p = x.shape[1]
        center = np.zeros(p) if center is None else check_numbers("center", center, (p,))
        return cls(*class_moments(x, y, n_classes, center), center)

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Fold many clients' statistics, `parts`, into one, in the order in which they come, holding two at a time."""
        parts = check_all("parts", parts, ClassStatistics, "statistics, as `from_embeddings` makes them")
        first = next(parts, None)
        if first is None:
            raise GgeurError(
                "There are no statistics to merge: the federation has no clients.", code="statistics-missing"
            )
        total = replace(first, count=first.count.copy(), sum=first.sum.copy(), second=first.second.copy())
        for one in parts:
            total._check_alike(one)
            for mine, theirs in ((total.count, one.count), (total.sum, one.sum), (total.second, one.second)):
                mine += theirs
        return total

    @property
    def n_classes(self) -> int:
        return len(self.count)

    @property
    def dimension(self) -> int:
        return int(self.sum.shape[1])

    @property
    def present(self) -> NDArray[np.bool_]:
        """Marks (C,) of classes with samples; the others' means and covariances are zero and mean nothing."""
        return self.count > 0

    @property
    def _n(self) -> Float:
        return np.where(self.present, self.count, 1.0)

    @property
    def mean(self) -> Float:
        """(C, p): mu_i of Eq. 4; zero for a class without samples (see `present`)."""
        return np.where(self.present[:, None], self.center + self.sum / self._n[:, None], 0.0)

    @property
    def covariance(self) -> Float:
        """(C, p, p): Sigma_i of Eq. 4, centred and divided by n; zero for a class without samples."""
        shift = self.sum / self._n[:, None]  # mean - center
        sigma = self.second / self._n[:, None, None] - shift[:, :, None] * shift[:, None, :]
        return np.asarray((sigma + sigma.swapaxes(1, 2)) / 2)

    @property
    def within(self) -> Float:
        """(p, p): the classes' covariances averaged by count, one covariance for all of them."""
        total = max(float(self.count.sum()), 1.0)
        return np.asarray(np.einsum("c,cpq->pq", self.count / total, self.covariance))

    def about(self, center: ArrayLike) -> Self:
        """The same statistics with moments about another `center` (p,)."""
        center = check_numbers("center", center, (self.dimension,))
        if np.array_equal(center, self.center):
            return self
        d = self.center - center
        second, square = self.second.copy(), np.outer(d, d)
        for c, one in enumerate(second):  # class by class, whose matrices stay in the processor's cache
            cross = self.sum[c][:, None] * d
            one += cross
            one += cross.T
            one += self.count[c] * square
        return replace(self, sum=self.sum + self.count[:, None] * d, second=second, center=center)

    @property
    def uncentred(self) -> Float:
        """(C, p, p): X X' / n, Eq. 1 as printed."""
        return self.about(np.zeros(self.dimension)).second / self._n[:, None, None]

    def __add__(self, other: Any) -> Self:
        return self.merge([self, check_is("What is added to statistics", other, type(self), _SAME)])

    def __radd__(self, other: Any) -> Self:
        raise GgeurError(
            f"Cannot add statistics to {reprlib.repr(other)}: `merge` adds up a list of them.",
            code="statistics-operand-type",
        )

    def __rsub__(self, other: Any) -> Self:
        raise GgeurError(
            f"Cannot take statistics from {reprlib.repr(other)}: only statistics hold any.",
            code="statistics-operand-type",
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to `path` (.npz), which a site may send by any means it likes.

        The file holds `count` (C,), `sum` (C, p), `second` (C, p, p) and `center` (p,), float64, and nothing else: no
        sample, no class name. Statistics of few samples reveal samples: a class of one sample is that
        sample. `ggeur audit` says what an attacker would find of a table.

        >>> from tempfile import TemporaryDirectory
        >>> s = ClassStatistics.from_embeddings([[0.0, 1.0], [2.0, 1.0]], [0, 0], 2)
        >>> with TemporaryDirectory() as folder:
        ...     s.save(f"{folder}/site.npz")
        ...     ClassStatistics.load(f"{folder}/site.npz").mean[0]
        array([1., 1.])
        """
        arrays = {"count": self.count, "sum": self.sum, "second": self.second, "center": self.center}
        with write_atomically(check_path("path", path)) as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote to `path`, checked as the constructor checks; nothing in it is executed."""
        path, names = check_path("path", path), ("count", "sum", "second", "center")
        arrays = read_arrays(path, names)
        if absent := [name for name in names if name not in arrays]:
            raise GgeurError(f"{path} holds no statistics: it lacks {', '.join(absent)}.", code="file-not-statistics")
        try:
            return cls(*(arrays[name] for name in names))
        except GgeurError as error:
            raise GgeurError(f"{path}: {error}", code=error.code) from error

    def __sub__(self, other: Any) -> Self:
        self._check_alike(check_is("What is taken from statistics", other, ClassStatistics, _SAME))
        count = self.count - other.count
        if (count < 0).any():
            c = int(np.argmin(count))
            raise GgeurError(
                f"Cannot remove {other.count[c]:g} samples of class {c} from {self.count[c]:g}: "
                "those statistics were never added.",
                code="statistics-not-added",
            )
        here = count > 0  # an emptied class is exactly empty, free of rounding
        second = self.second - other.second
        if len(second) == len(count):  # not where moments are pooled over the classes
            second = np.where(here[:, None, None], second, 0.0)
        left = replace(self, count=count, sum=np.where(here[:, None], self.sum - other.sum, 0.0), second=second)
        for i, rest in left._scatters():
            try:  # fails unless every eigenvalue is positive, at a tenth of what finding them costs
                np.linalg.cholesky(rest + (self._slack[i] + 1e-300) * np.eye(len(rest)))
            except np.linalg.LinAlgError as error:
                raise GgeurError(
                    f"Cannot remove these statistics: what would be left of {left._named(i)} has a negative variance, "
                    "so they were never added.",
                    code="statistics-not-added",
                ) from error
        return left

    @property
    def _slack(self) -> Float:
        """Return how far below zero rounding may take an eigenvalue of each scatter."""
        return np.asarray(_ROUNDING * np.trace(self.second, axis1=1, axis2=2))

    @property
    def rounding(self) -> Float:
        """(C,): how far below zero rounding may take an eigenvalue of a class's covariance."""
        return self._slack / self._n

    def _scatters(self) -> Iterable[tuple[int, Float]]:
        """Each second moment about its mean, times the number of samples."""
        return ((int(c), sigma) for c, sigma in enumerate(self.covariance * self.count[:, None, None]))

    def _named(self, i: int) -> str:
        return f"class {i}"

    def _check_alike(self, other: ClassStatistics) -> None:
        if self.sum.shape != other.sum.shape or len(self.second) != len(other.second):
            raise GgeurError(
                f"Cannot merge statistics of shape {self.sum.shape} and {other.sum.shape} (classes, dimensions): "
                "all clients must use the same classes, the same encoder and the same kind of statistics.",
                code="statistics-mismatch",
            )
        if not np.array_equal(self.center, other.center):
            raise GgeurError(
                "Cannot merge statistics about different centers: use s.about(center) first.",
                code="statistics-center-mismatch",
            )
