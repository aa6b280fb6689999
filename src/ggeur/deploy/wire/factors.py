"""The global shape on its way to a site: what the server sends of it, and the noise a site makes from that.

A site needs of each class only V s(L) V' (see `Geometry.factor`), and only of classes it draws from: it travels as an
upper triangle in float32, a quarter of the eigenvectors in float64. The eigendecomposition is the server's alone, so
sites with other linear algebra draw the same noise.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.geometry import Geometry, Scale
from ggeur.core.seeding import generator
from ggeur.core.statistics import ClassStatistics
from ggeur.core.types import Float, Int
from ggeur.core.virtual import _BLOCK, BankLayout
from ggeur.deploy.wire.packing import Packed, from_triangle, triangle_size, triangles


class Shapes(NamedTuple):
    """Factors of the classes' shapes; several classes may share one."""

    factors: NDArray[np.float32]  # (m, p (p + 1) / 2)
    factor_of: Int  # (C,) row of `factors`, -1 where a class has none
    largest: float  # eigenvalue, for the warning about units

    def of(self, classes: NDArray[np.bool_]) -> "Shapes":
        """What a site that draws from these classes needs."""
        rows = np.unique(self.factor_of[classes & (self.factor_of >= 0)])
        place = np.full(len(self.factors) + 1, -1)
        place[rows] = np.arange(len(rows))
        return Shapes(self.factors[rows], np.where(classes, place[self.factor_of], -1), self.largest)


def class_shapes(s: Packed, center: Float | None, scale: Scale) -> Shapes:
    """One factor per class, class by class, so that no more than two covariances are held at once."""
    held = np.flatnonzero(s.count > 0)
    origin = np.zeros(s.dimension) if center is None else center

    def one(c: int) -> tuple[NDArray[np.float32], float]:
        second = from_triangle(s.second[c], s.dimension)[None]
        own = ClassStatistics(s.count[c : c + 1], s.sum[c : c + 1], second, origin)
        return _factor(Geometry.from_statistics(own), scale)

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(one, map(int, held)))
    factor_of = np.full(len(s.count), -1)
    factor_of[held] = np.arange(len(held))
    return Shapes(_stacked([f for f, _ in made], s.dimension), factor_of, max((v for _, v in made), default=0.0))


def shared_shape(covariance: Float, present: NDArray[np.bool_], scale: Scale) -> Shapes:
    """One covariance (p, p) that serves every class."""
    factor, largest = _factor(Geometry.from_covariance(covariance[None], np.ones(1, np.bool_)), scale)
    return Shapes(factor[None], np.where(present, 0, -1), largest)


def shapes_of_covariances(covariance: Float, present: NDArray[np.bool_], scale: Scale) -> Shapes:
    """Covariances (C, p, p) of all classes."""
    each = [_factor(Geometry.from_covariance(one[None], np.ones(1, np.bool_)), scale) for one in covariance]
    factors = _stacked([f for f, _ in each], covariance.shape[-1])
    return Shapes(factors, np.where(present, np.arange(len(present)), -1), max(v for _, v in each))


def _factor(geometry: Geometry, scale: Scale) -> tuple[NDArray[np.float32], float]:
    factor = geometry.factor(0, scale).astype(np.float32)
    return triangles(factor[None])[0], float(geometry.eigenvalues.max(initial=0.0))


def _stacked(factors: list[NDArray[np.float32]], p: int) -> NDArray[np.float32]:
    return np.stack(factors) if factors else np.zeros((0, triangle_size(p)), np.float32)


def own_noise(
    label: Int, shapes: Shapes, size: Int, offset: Int, client: int, seed: int, p: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Signed rows for the site's draws, and the bank they point into: the simulation's, without the rows of others.

    `size` (C,) is how many rows each class's whole bank has, `offset` (C,) where this client starts in it.
    """
    layout = BankLayout(size, np.zeros((client + 1, len(size)), np.int64) + offset)
    signed = layout.noise_rows(client, label, seed)
    first = 1 + np.cumsum(size) - size
    bank = np.zeros((1 + len(label), p), np.float32)
    for c in np.unique(label):
        at = np.flatnonzero(label == c)
        row = np.abs(signed[at]) - first[c]
        own = bank[1 + at[0] : 1 + at[0] + len(at)]  # labels come class by class
        for block in np.unique(row // _BLOCK):
            drawn = generator(seed, "noise", int(c), int(block * _BLOCK)).standard_normal((_BLOCK, p), np.float32)
            here = row // _BLOCK == block
            own[here] = drawn[row[here] % _BLOCK]
        own[:] = own @ from_triangle(shapes.factors[shapes.factor_of[c]], p)
    return (np.sign(signed) * np.arange(1, 1 + len(label))).astype(np.int32), bank
