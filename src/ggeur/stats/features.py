"""Features of samples that lie near landmarks, and the statistics that a site sends of its samples' features.

    phi(x) = [0.1 z, sqrt(p) exp(-|z - l_j|^2 / p)_j],    z = (x - shift) / scale,    landmarks l_j, j = 1..D

A site sends, per class, the sum of weights and of weighted features, and one matrix of second moments for all classes.
All of them are about a public center, which is near the mean of the features: so little is lost where they are added up
in float32. They are formed in blocks of samples, so that memory does not grow with the number of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.streaming import Piece
from ggeur.stats.types import Float, FloatArray, Int
from ggeur.stats.units import Units

Precision = Literal["float32", "float64"]
LINEAR = 0.1  # what the samples themselves are multiplied by, beside the kernel
_BLOCK = 2048  # samples whose features are held at once


def kernel_values(z: Any, landmarks: Any, exp: Callable[[Any], Any] = np.exp) -> Any:
    """Return sqrt(p) exp(-|z - l_j|^2 / p), (n, D), of samples `z` (n, p) in units, in the type of `z`.

    Arrays of JAX come with its `exp`.
    """
    p = z.shape[1]
    apart = (z**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1) - 2 * (z @ landmarks.T)
    return p**0.5 * exp(apart / -p)


class FeatureMap(NamedTuple):
    """The map from samples to features: the units that samples are taken in, and the landmarks in these units."""

    units: Units
    landmarks: FloatArray  # (D, p)

    @property
    def kind(self) -> str:
        """Return what the features are, as a question to a site says it."""
        return "kernel"

    @property
    def dimension(self) -> int:
        """Return how many features a sample has: one for each landmark and each of its dimensions."""
        return sum(self.landmarks.shape)

    @property
    def center(self) -> Float:
        """(p + D,): the mean of the features of x ~ N(shift, scale^2 I), which is public and near that of samples."""
        p, landmarks = self.landmarks.shape[1], self.landmarks.astype(np.float64)
        width = p / 2  # sigma^2, of which p is twice
        near = np.exp(-(landmarks**2).sum(axis=1) / (2 * (width + 1)) - p / 2 * np.log1p(1 / width))
        return np.concatenate([np.zeros(p), p**0.5 * near])

    def __call__(self, x: NDArray[Any], precision: Precision = "float64") -> NDArray[Any]:
        """Return the features (n, p + D) of samples `x` (n, p)."""
        z = ((x.astype(np.float64) - self.units.shift) / self.units.scale).astype(precision)
        return np.concatenate([LINEAR * z, kernel_values(z, self.landmarks.astype(precision))], axis=1)


def table_values(z: Any, corners: Any) -> Any:
    """Return 1 where a sample of `z` (n, p) lies in a corner, and 0 elsewhere, (n, D), in the type of `z`.

    A row of `corners` (D, p) is 1 or -1 for each dimension that must be above zero or not, and 0 for all others.
    """
    side = 2 * (z > 0).astype(z.dtype) - 1
    return (side @ corners.T > abs(corners).sum(axis=1) - 0.5).astype(z.dtype)


class TableMap(FeatureMap):
    """The map to entries of tables: in place of landmarks it has corners, and a sample's features are its corners."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """Return what the features are."""
        return "tables"

    @property
    def dimension(self) -> int:
        """Return how many features a sample has: one for each corner."""
        return len(self.landmarks)

    @property
    def center(self) -> Float:
        """(D,): the mean of the features of samples that are on either side of zero alike."""
        return np.asarray(0.5 ** np.abs(self.landmarks).sum(axis=1), np.float64)

    def __call__(self, x: NDArray[Any], precision: Precision = "float64") -> NDArray[Any]:
        """Return the features (n, D) of samples `x` (n, p)."""
        z = (x.astype(np.float64) - self.units.shift) / self.units.scale
        return np.asarray(table_values(z.astype(precision), self.landmarks.astype(precision)))


class FeatureQuery(NamedTuple):
    """A question to all sites: the statistics of their samples' features.

    `weights` (domains, C) are those of a sample of each group, by default one. Features and products of a block are of
    that `precision`; blocks are added up in float64 and, in float32, rounded once before they are sent. A map is
    `public` where no site's samples have a part in it.
    """

    map: FeatureMap
    weights: Float | None = None
    precision: Precision = "float32"
    public: bool = False

    def statistics(self, x: NDArray[Any], y: Int, domain: Int, n_classes: int) -> SiteStatistics:
        """Return those of the samples `x` (n, p) of these classes and domains."""
        return self.of_pieces([Piece(x, y, domain)], n_classes)

    def of_pieces(self, pieces: Iterable[Piece], n_classes: int) -> SiteStatistics:
        """Return those of samples that come in `pieces`; how they are cut does not matter to a bit."""
        center = self.map.center
        count, total = np.zeros(n_classes), np.zeros((n_classes, len(center)))
        second = np.zeros((len(center), len(center)))
        for x, of, domain in _blocks(pieces):
            f = self.map(x, self.precision)
            f -= center.astype(self.precision)
            w = np.ones(len(of)) if self.weights is None else self.weights[domain, of]
            f *= np.sqrt(w).astype(self.precision)[:, None]
            by_class = np.zeros((n_classes, len(of)), self.precision)
            by_class[of, np.arange(len(of))] = np.sqrt(w)
            count += np.bincount(of, weights=w, minlength=n_classes)
            total += by_class @ f
            second += f.T @ f
        sent = second.astype(self.precision).astype(np.float64)
        return SiteStatistics(count, total, sent[None], center)

    def bytes(self, n_classes: int) -> tuple[int, int]:
        """Return the bytes that the statistics take up, and the question down, of one site."""
        d, weights = self.map.dimension, 0 if self.weights is None else self.weights.nbytes
        up = 8 * n_classes * (1 + d) + np.dtype(self.precision).itemsize * (d * (d + 1) // 2)
        return up, self.map.landmarks.nbytes + self.map.units.pack().nbytes + weights


def _blocks(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the samples of all pieces in blocks of the same size, but for the last."""
    rest: Piece | None = None
    for piece in pieces:
        held = piece if rest is None else Piece(*(np.concatenate(pair) for pair in zip(rest, piece, strict=True)))
        whole = len(held.y) // _BLOCK * _BLOCK
        for first in range(0, whole, _BLOCK):
            yield Piece(*(column[first : first + _BLOCK] for column in held))
        rest = Piece(*(column[whole:] for column in held))
    if rest is not None and len(rest.y):
        yield rest


class FeatureStatistics(NamedTuple):
    """The total of all sites' statistics of features, and what was asked for."""

    asked: FeatureQuery
    total: SiteStatistics
