"""What a client shares: per class the count, the sum and the second moment of its embeddings.

The three add up, so the statistics of a federation are the sum of its clients' in any order and any tree, and a
client that leaves is subtracted again. Means and covariances (Eq. 4 of the paper) are read off the total: the
paper's "local covariances plus scatter of the local means" is the same number written another way.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.core.types import Float
from ggeur.core.validate import check_embeddings, check_labels, check_whole


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Count, sum and second moment of each class, about a shared public `center`; float64.

    With a mean far above the spread, `second / n - mean mean'` cancels; forming the moments about a center near
    the mean keeps the digits. The center is public and must be the same at every client.

    >>> x, y = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]]), np.array([0, 0, 1])
    >>> s = ClassStatistics.from_embeddings(x[:1], y[:1], 2) + ClassStatistics.from_embeddings(x[1:], y[1:], 2)
    >>> s.mean[0], s.covariance[0, 0, 0]
    (array([1., 1.]), np.float64(1.0))
    """

    count: Float  # (C,)
    sum: Float  # (C, p), of x - center
    second: Float  # (C, p, p), of (x - center)(x - center)'
    center: Float = field(repr=False)  # (p,)

    @classmethod
    def from_embeddings(cls, x: ArrayLike, y: ArrayLike, n_classes: int, *, center: ArrayLike | None = None) -> Self:
        """The statistics of one client's rows.

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
        y = check_labels(y, check_whole("n_classes", n_classes), rows=len(x))
        p = x.shape[1]
        center = np.zeros(p) if center is None else np.asarray(center, np.float64)
        if center.shape != (p,):
            raise GgeurError(f"The center has shape {center.shape}; it must have shape ({p},) like a row of x.")
        if not np.isfinite(center).all():
            raise GgeurError("The center holds NaN or infinite values; it must be a public, finite point.")
        count = np.bincount(y, minlength=n_classes).astype(np.float64)
        total, second = np.zeros((n_classes, p)), np.zeros((n_classes, p, p))
        far = False
        rows_by_class = np.split(np.argsort(y, kind="stable"), np.cumsum(count[:-1]).astype(int))
        for c, rows in enumerate(rows_by_class):
            if len(rows):  # in float64 class by class, so that a float16 table is never copied whole
                z = x[rows].astype(np.float64) - center
                total[c], second[c] = z.sum(axis=0), z.T @ z
                mean, spread = total[c] / len(z), z.var(axis=0).sum()
                far |= bool(mean @ mean > 1e8 * spread > 0)
        if not np.isfinite(second).all():
            raise GgeurError("The embeddings are so large that their squares overflow; scale them down.")
        if far:
            warnings.warn(
                "The mean is so far from the center that the covariance loses more than half of its digits; "
                "pass a center near the mean, the same at every client.",
                GgeurWarning,
                stacklevel=2,
            )
        return cls(count, total, second, center)

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Fold many clients' statistics, `parts`, into one, in the order in which they come, holding two at a time."""
        parts = iter(parts)
        first = next(parts, None)
        if first is None:
            raise GgeurError("There are no statistics to merge: the federation has no clients.")
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
        """Which classes have samples; the others' means and covariances are zero and mean nothing."""
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
        center = np.asarray(center, np.float64)
        d = self.center - center
        cross = self.sum[:, :, None] * d
        second = self.second + cross + cross.swapaxes(1, 2) + self.count[:, None, None] * np.outer(d, d)
        return replace(self, sum=self.sum + self.count[:, None] * d, second=second, center=center)

    @property
    def uncentred(self) -> Float:
        """(C, p, p): X X' / n, Eq. 1 as printed."""
        return self.about(np.zeros(self.dimension)).second / self._n[:, None, None]

    def __add__(self, other: Any) -> Self:
        return self.merge([self, other]) if isinstance(other, type(self)) else NotImplemented

    def __sub__(self, other: Any) -> Self:
        if not isinstance(other, ClassStatistics):
            return NotImplemented
        self._check_alike(other)
        count = self.count - other.count
        if (count < 0).any():
            c = int(np.argmin(count))
            raise GgeurError(
                f"Cannot remove {other.count[c]:g} samples of class {c} from {self.count[c]:g}: "
                "those statistics were never added."
            )
        here = count > 0  # an emptied class is exactly empty, free of rounding
        second = self.second - other.second
        if len(second) == len(count):  # not where moments are pooled over the classes
            second = np.where(here[:, None, None], second, 0.0)
        return replace(self, count=count, sum=np.where(here[:, None], self.sum - other.sum, 0.0), second=second)

    def _check_alike(self, other: "ClassStatistics") -> None:
        if self.sum.shape != other.sum.shape or len(self.second) != len(other.second):
            raise GgeurError(
                f"Cannot merge statistics of shape {self.sum.shape} and {other.sum.shape} (classes, dimensions): "
                "all clients must use the same classes, the same encoder and the same kind of statistics."
            )
        if not np.array_equal(self.center, other.center):
            raise GgeurError("Cannot merge statistics about different centers: use s.about(center) first.")
