"""The geometric shape of a class: the eigenpairs of its covariance, all or few (Section 2 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.errors import GgeurError
from ggeur.stats.statistics import ClassStatistics
from ggeur.stats.types import THREADS, Float
from ggeur.stats.validate import as_array, check_choice, check_is, check_numbers, check_share, check_whole

Scale = Literal["eigenvalue", "sqrt-eigenvalue"]


@dataclass(frozen=True, eq=False)
class Geometry:
    """GD of Eq. 2 for every class: eigenvalues (C, r), descending, and eigenvectors (C, p, r), as columns.

    Parameters
    ----------
    eigenvalues : of every class's covariance, descending, (C, r).
    eigenvectors : as columns, (C, p, r).
    present : which classes have a shape, (C,).
    centred : whether they are of covariances, rather than of uncentred second moments.

    Attributes
    ----------
    n_classes : number of classes C.
    dimension : number of dimensions p.

    >>> x, y = [[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], [0, 0, 1, 1]
    >>> shape = Geometry.from_statistics(ClassStatistics.from_embeddings(x, y, 2))
    >>> shape.eigenvalues  # each class varies along one axis
    array([[1., 0.],
           [1., 0.]])
    """

    eigenvalues: Float
    eigenvectors: Float
    present: NDArray[np.bool_]  # classes without samples have no shape
    centred: bool = True

    def __post_init__(self) -> None:
        parts = self.eigenvalues, self.eigenvectors, self.present
        values, vectors, present = (as_array("parts of a geometry", part).shape for part in parts)
        if len(vectors) != 3 or values != (vectors[0], vectors[2]) or present != values[:1]:
            raise GgeurError(
                f"A geometry has eigenvalues (classes, rank), eigenvectors (classes, dimensions, rank) and present "
                f"(classes,), not {values}, {vectors} and {present}.",
                code="geometry-shape",
            )

    @classmethod
    def from_statistics(
        cls,
        statistics: ClassStatistics,
        rank: int | None = None,
        *,
        energy: float | None = None,
        centred: bool = True,
    ) -> Self:
        """Eigendecompose every class's covariance.

        Parameters
        ----------
        statistics : of one client, or the sum over all of them.
        rank : how many leading directions to keep; default: all p.
        energy : keep as many directions as carry this share (0..1) of each class's variance, and zero the rest.
        centred : False for Eq. 1 as printed, X X' / n, which is good for `similarity` only.
        """
        check_is("statistics", statistics, ClassStatistics, "a ClassStatistics")
        check_is("centred", centred, bool | np.bool_, "true or false")
        sigma = statistics.covariance if centred else statistics.uncentred
        return cls.from_covariance(
            sigma, statistics.present, rank, energy=energy, centred=centred, rounding=statistics.rounding
        )

    @classmethod
    def from_covariance(
        cls,
        covariance: Float,
        present: NDArray[np.bool_],
        rank: int | None = None,
        *,
        energy: float | None = None,
        centred: bool = True,
        rounding: Float | None = None,
    ) -> Self:
        """Eigendecompose `covariance` (C, p, p), or one (1, p, p) that serves all classes.

        `present` (C,) marks the classes that have a shape; `rank`, `energy` and `centred` are as in `from_statistics`.
        An eigenvalue below minus its covariance's `rounding` (C,) is refused; what else is negative becomes zero.
        """
        covariance = check_numbers("covariance", covariance, (None, None, None))
        classes, p, q = covariance.shape
        present = as_array("marks of classes", present)
        if p != q or present.ndim != 1 or present.dtype != np.bool_ or classes not in (1, len(present)):
            raise GgeurError(
                f"The covariance has shape {covariance.shape} and present {present.shape} of {present.dtype}; they "
                "must be (classes, dimensions, dimensions) and a boolean for each class.",
                code="covariance-shape",
            )
        if rank is not None and not 1 <= check_whole("rank", rank, least=0) <= p:
            raise GgeurError(
                f"rank is {rank}; it must be between 1 and the {p} dimensions of the embeddings.",
                code="geometry-rank-range",
            )
        if energy is not None:
            check_share("energy", energy)
        check_is("centred", centred, bool | np.bool_, "true or false")
        slack = np.inf if rounding is None else check_numbers("rounding", rounding, (classes,))
        values, vectors = _eigh(covariance)
        if (below := values[:, 0] < -slack).any():
            c = int(np.argmax(below))
            raise GgeurError(
                f"The covariance of class {c} has the eigenvalue {values[c, 0]:.3g}, and no data has a negative "
                "variance: its count, sum and second moment are not of the same samples.",
                code="covariance-not-positive",
            )
        values = np.clip(values[:, ::-1], 0.0, None)  # rounding leaves tiny negatives
        vectors = vectors[:, :, ::-1]
        if energy is not None:
            total = values.sum(axis=1, keepdims=True)
            before = np.cumsum(values, axis=1) - values  # variance carried by the directions ahead of this one
            values = np.where(before < energy * total, values, 0.0)
        values, vectors = np.ascontiguousarray(values[:, :rank]), np.ascontiguousarray(vectors[:, :, :rank])
        shared = (len(present), *values.shape[1:]), (len(present), *vectors.shape[1:])
        return cls(np.broadcast_to(values, shared[0]), np.broadcast_to(vectors, shared[1]), present, centred)

    @property
    def n_classes(self) -> int:
        return len(self.eigenvalues)

    @property
    def dimension(self) -> int:
        return int(self.eigenvectors.shape[1])

    def require(self, classes: Sequence[int] | NDArray[np.integer]) -> None:
        """Raise unless every one of `classes` has a shape to draw along."""
        if not self.centred:
            raise GgeurError(
                "This geometry is of uncentred moments (Eq. 1): it serves similarity, not drawing.",
                code="geometry-uncentred",
            )
        wanted = [check_whole("A class", c, least=0) for c in np.asarray(classes, dtype=object).ravel()]
        if any(c >= self.n_classes for c in wanted):
            raise GgeurError(
                f"There is no class {max(wanted)}: the geometry is of classes 0 to {self.n_classes - 1}.",
                code="geometry-class-unknown",
            )
        absent = [c for c in wanted if not self.present[c]]
        if absent:
            raise GgeurError(
                f"No client holds class {absent[0]}, so it has no shape; leave it out.", code="geometry-class-absent"
            )

    def factor(self, c: int, scale: Scale) -> Float:
        """Return V s(L) V' of class `c`, from white noise to noise along the shape; `scale`: s is lambda or its root.

        With eps in R^p, V s(L) V' eps has the law of sum_m eps_m s(lambda_m) xi_m and does not depend on the
        signs and the basis that the eigensolver happened to choose.
        """
        self.require([check_whole("A class", c, least=0)])
        check_choice("scale", scale, get_args(Scale))
        values, vectors = self.eigenvalues[c], self.eigenvectors[c]
        return np.asarray((vectors * (values if scale == "eigenvalue" else np.sqrt(values))) @ vectors.T)

    def factors(self, scale: Scale) -> Float:
        """Return the factors of all classes, (C, p, p), by the same `scale`."""
        return np.stack([self.factor(c, scale) for c in range(self.n_classes)])


def units_note(largest: float) -> str:
    """Return a warning where noise is scaled by lambda, in squared units, and the `largest` is not about 1; else ""."""
    if 0.1 <= largest <= 10:
        return ""
    return (
        f"scale='eigenvalue' depends on the embedding's units, and the largest eigenvalue, {largest:.3g}, is "
        "outside 0.1..10; scale='sqrt-eigenvalue' is free of units."
    )


def _eigh(matrices: Float) -> tuple[Float, Float]:
    """Return np.linalg.eigh of a stack, matrix by matrix on a few threads of one BLAS thread each.

    BLAS gains next to nothing from threads of its own here, and where something else runs they wait for each other:
    several times slower, seen often.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), ThreadPoolExecutor(THREADS) as pool:
        pairs = list(pool.map(np.linalg.eigh, matrices))
    return np.stack([values for values, _ in pairs]), np.stack([vectors for _, vectors in pairs])


def similarity(a: Geometry, b: Geometry, top: int = 5) -> Float:
    """Return S of Eq. 3 between every class of `a` and every class of `b`, (C_a, C_b), over the `top` eigenvectors.

    Between 0 and `top`; pairs are compared rank by rank, as the paper writes it.

    Parameters
    ----------
    a : shapes of C_a classes.
    b : shapes of C_b classes, in as many dimensions.
    top : number of leading eigenvectors that are compared.

    Returns
    -------
    Similarity of every pair of classes, (C_a, C_b), between 0 and `top`.

    >>> x, y = [[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], [0, 0, 1, 1]
    >>> shape = Geometry.from_statistics(ClassStatistics.from_embeddings(x, y, 2))
    >>> similarity(shape, shape, top=1)  # the two classes vary along different axes
    array([[1., 0.],
           [0., 1.]])
    """
    for name, g in (("a", a), ("b", b)):
        check_is(name, g, Geometry, "a Geometry")
        if not g.present.all():
            raise GgeurError(
                f"Class {int(np.argmin(g.present))} has no samples, so it has no shape to compare.",
                code="geometry-class-absent",
            )
    check_whole("top", top, least=0)
    ranks = min(a.eigenvalues.shape[1], b.eigenvalues.shape[1])
    if a.dimension != b.dimension or not 1 <= top <= ranks:
        raise GgeurError(
            f"Cannot compare the top {top} eigenvectors of geometries with dimensions {a.dimension} and "
            f"{b.dimension} and {ranks} common directions.",
            code="geometry-not-comparable",
        )
    inner = np.einsum("apm,bpm->abm", a.eigenvectors[:, :, :top], b.eigenvectors[:, :, :top], optimize=True)
    return np.asarray(np.abs(inner).sum(axis=2))


def shrunk(sigma: Float, g: float) -> Float:
    """Return `sigma` (p, p) moved by the share `g` towards a sphere of the same trace."""
    p = len(sigma)
    return np.asarray((1 - g) * sigma + g * np.trace(sigma) / p * np.eye(p))


class LowRank(NamedTuple):
    """T_c = U_c U_c' + s_c I of every class, or one T for all of them."""

    U: Any  # (C or 1, r, p): the columns of U_c, as rows
    s: Any  # (C or 1,)


def low_rank(factors: Float, rank: int) -> LowRank:
    """Reduce T = F'F of the noise that `factors` F (m, p, p) make to `rank` directions; exact where that is p.

    The `rank` largest eigenvalues l_i of T are kept, and each of the others becomes their mean s, so that the trace
    stays: U has the columns sqrt(l_i - s) xi_i. All p of them need no eigenvectors, as F' is such a U.
    """
    m, p = len(factors), factors.shape[-1]
    if rank >= p:
        return LowRank(factors, np.zeros(m))
    geometry = Geometry.from_covariance(np.matmul(factors.transpose(0, 2, 1), factors), np.ones(m, np.bool_))
    s = geometry.eigenvalues[:, rank:].mean(axis=1)
    root = np.sqrt(np.maximum(geometry.eigenvalues[:, :rank] - s[:, None], 0.0))
    return LowRank(root[:, :, None] * geometry.eigenvectors[:, :, :rank].transpose(0, 2, 1), s)
