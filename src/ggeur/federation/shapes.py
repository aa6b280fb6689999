"""The shape of every class from merged messages, as the matrices that turn white noise into a class's noise.

A site needs of a class only V s(L) V' (see `Geometry.factor`), or U and s where it does not draw (`LowRank`). The
eigendecomposition is the server's alone, so sites with other linear algebra draw the same noise.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.geometry import Geometry, units_note
from ggeur.core.low_rank import LowRank, low_rank
from ggeur.core.means import covariance_from_means
from ggeur.core.site_statistics import SiteStatistics
from ggeur.core.statistics import ClassStatistics
from ggeur.core.types import Bool, Float, Int
from ggeur.federation.augmentation import Augmentation

_AT_ONCE = 8  # classes whose covariances and eigenvectors are held together


class Shapes(NamedTuple):
    """Factors F of the classes' noise, whose covariance is F'F + s I; several classes may share one."""

    factors: NDArray[np.float32]  # (m, p, p), or (m, r, p) of low rank
    rest: NDArray[np.float32]  # (m,) s: zero but for factors of low rank
    factor_of: Int  # (C,) sample of `factors`, -1 where a class has none
    largest: float  # eigenvalue, for the warning about units

    @classmethod
    def none(cls, n_classes: int, p: int) -> "Shapes":
        return cls(np.zeros((0, p, p), np.float32), np.zeros(0, np.float32), np.full(n_classes, -1), 0.0)

    def of(self, classes: Bool) -> "Shapes":
        """Return what a site that draws from these classes needs."""
        samples = np.unique(self.factor_of[classes & (self.factor_of >= 0)])
        place = np.full(len(self.factors) + 1, -1)
        place[samples] = np.arange(len(samples))
        factor_of = np.where(classes, place[self.factor_of], -1)
        return Shapes(self.factors[samples], self.rest[samples], factor_of, self.largest)

    @property
    def by_class(self) -> LowRank | None:
        """Return what the bound of an expected loss takes, with zeros for a class without a shape; None if none has
        one.
        """
        if len(self.factors) < 2:  # one for all, or none
            return LowRank(self.factors, self.rest) if len(self.factors) else None
        held = (self.factor_of >= 0).astype(np.float32)
        return LowRank(held[:, None, None] * self.factors[self.factor_of], held * self.rest[self.factor_of])


def merged_shapes(total: SiteStatistics, augmentation: Augmentation) -> Shapes:
    """From the total: a shape for each class that somebody holds, or one for all where moments are pooled."""
    if augmentation.covariance == "pooled":
        covariances: Iterator[Float] = iter([total.within[None]])
        return _shapes(covariances, np.where(total.present, 0, -1), augmentation)
    held = np.flatnonzero(total.present)
    factor_of = np.full(total.n_classes, -1)
    factor_of[held] = np.arange(len(held))
    return _shapes(_covariances(total, held), factor_of, augmentation)


def shapes_from_means(count: Float, mean: Float, domain: Int, augmentation: Augmentation) -> Shapes:
    """From every client's class counts (K, C) and means (K, C, p) alone; `domain` (K,) is each client's, or -1."""
    sigma = covariance_from_means(count, mean, domain)
    return _shapes(iter([sigma]), np.where(count.sum(axis=0) > 0, np.arange(len(sigma)), -1), augmentation)


def _covariances(s: SiteStatistics, held: Int) -> Iterator[Float]:
    """Class by class, so that of all of them only the second moments are held."""
    for first in range(0, len(held), _AT_ONCE):
        some = held[first : first + _AT_ONCE]
        yield ClassStatistics(s.count[some], s.sum[some], s.second[some], s.center).covariance


def _shapes(covariances: Iterator[Float], factor_of: Int, a: Augmentation) -> Shapes:
    assert a.noise is not None
    factors: list[NDArray[np.float32]] = []
    rest: list[NDArray[np.float32]] = []
    largest = 0.0
    for some in covariances:
        geometry = Geometry.from_covariance(some, np.ones(len(some), np.bool_))
        made = a.noise(geometry)
        few = LowRank(made, np.zeros(len(made))) if a.rank is None else low_rank(made, a.rank)
        factors.append(np.asarray(few.U, np.float32))
        rest.append(np.asarray(few.s, np.float32))
        largest = max(largest, float(geometry.eigenvalues.max(initial=0.0)))
    return Shapes(np.concatenate(factors), np.concatenate(rest), factor_of, largest)


def note_on_units(shapes: Shapes, a: Augmentation) -> str:
    """Return what to say where the noise of `a` depends on the embedding's units, and these do not suit it; else
    nothing.
    """
    return "" if a.noise is None or a.unit_free else units_note(shapes.largest)
