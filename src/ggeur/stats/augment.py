"""GGEUR, Algorithms 1 and 2: simulate the global distribution locally by drawing along the global shape.

Which sample is drawn around which sample is arithmetic (`plan_draws`); what is added to it is noise along the
class's shape (`shape_noise`). `augment` puts the two together for one client. Leaving the noise out gives the two
controls every reader asks for: Step 1 without noise only repeats samples (`resample`), Steps 1 and 2 without noise
repeat samples and prototypes (`prototypes`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.stats.augmented_sets import BankPiece, DrawRule, Draws, plan_draws
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.geometry import Geometry, Scale, units_note
from ggeur.stats.statistics import ClassStatistics
from ggeur.stats.types import Int
from ggeur.stats.validate import (
    as_array,
    check_all,
    check_choice,
    check_embeddings,
    check_is,
    check_labels,
    check_whole,
    fits_memory,
)


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Class means of the *other* domains: mean (D, C, p), and which of them exist, present (D, C).

    Parameters
    ----------
    mean : mean of each class in each other domain, (D, C, p).
    present : which of them exist, (D, C).

    >>> other = ClassStatistics.from_embeddings([[1.0, 2.0], [3.0, 4.0]], [1, 1], n_classes=2)
    >>> others = Prototypes.from_statistics([other])
    >>> others.present, others.mean[0, 1]
    (array([[False,  True]]), array([2., 3.]))
    """

    mean: NDArray[Any]
    present: NDArray[np.bool_]

    def __post_init__(self) -> None:
        mean, present = as_array("prototypes", self.mean), as_array("marks of prototypes", self.present)
        if mean.ndim != 3 or present.shape != mean.shape[:2] or present.dtype != np.bool_:
            raise GgeurError(
                f"The prototypes have shape {mean.shape} and present {present.shape} of {present.dtype}; they must be "
                "(domains, classes, dimensions) and a boolean for each domain and class.",
                code="prototypes-shape",
            )

    @classmethod
    def from_statistics(cls, domains: Sequence[ClassStatistics]) -> Self:
        """Return one prototype per class from each of the `domains`, the merged statistics of the other domains."""
        found = list(check_all("domains", domains, ClassStatistics, "statistics"))
        if not found or len({s.sum.shape for s in found}) > 1:
            raise GgeurError(
                "The domains must be one or more, of the same classes and dimensions.", code="prototypes-domains-differ"
            )
        return cls(np.stack([s.mean for s in found]), np.stack([s.present for s in found]))


def shape_noise(geometry: Geometry, c: int, n: int, scale: Scale, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return n vectors beta (Algorithm 1, line 4) for class c: one factorisation, one matrix product."""
    eps = rng.standard_normal((n, geometry.dimension), dtype=np.float32)
    return np.asarray(eps @ geometry.factor(c, scale).astype(np.float32))


def augment(
    x: ArrayLike,
    y: ArrayLike,
    geometry: Geometry | None,
    *,
    target: int = 2000,
    per_sample: int | None = None,
    prototypes: Prototypes | ArrayLike | None = None,
    per_prototype: int = 500,
    scale: Scale | None = "sqrt-eigenvalue",
    empty_group: Literal["all", "first"] = "all",
    seed: int = 0,
    client: int = 0,
    drawn_before: ArrayLike | None = None,
) -> tuple[NDArray[Any], Int]:
    """Return one client's augmented set: its own samples first, then the draws of Algorithm 1 (and 2, with prototypes).

    Parameters
    ----------
    x : the client's samples (n, p), which come first in what is returned.
    y : their labels (n,), whole numbers from 0 on.
    geometry : the global shape of every class; None where no noise is added.
    target : number of samples that each class the client holds is topped up to.
    per_sample : N of Algorithm 1, draws around each own sample, in place of `target`.
    prototypes : other domains' class means: a `Prototypes`, or an array (D, C, p), all present. Default: Step 1 only.
    per_prototype : draws around each of them.
    scale : "eigenvalue" is the printed beta = sum eps lambda xi; "sqrt-eigenvalue" draws from a Gaussian with the class
        covariance; None adds no noise (the controls).
    empty_group : for a class that the client lacks, draw around "all" prototypes of it, or the "first" only.
    seed : of the noise, a whole number.
    client : the client's number, which decides the signs of its noise.
    drawn_before : draws of each class (C,) by the clients before this one, which took the noise before its own: then
        this is what `ggeur.run` trains the client on, while its bank of noise does not wrap around. Default: none.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(30, 4)), np.repeat([0, 1], [25, 5])
    >>> g = Geometry.from_statistics(ClassStatistics.from_embeddings(x, y, 2))
    >>> x2, y2 = augment(x, y, g, target=100)
    >>> x2.shape, np.bincount(y2), np.array_equal(x2[:30], x)
    ((200, 4), array([100, 100]), True)
    """
    x = check_embeddings(x)
    x = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
    if prototypes is not None and not isinstance(prototypes, Prototypes):
        mean = as_array("prototypes", prototypes)
        prototypes = Prototypes(mean, np.ones(mean.shape[:2], np.bool_))
    n_classes: int | None = None
    if geometry is not None:
        n_classes = check_is("geometry", geometry, Geometry, "a Geometry, or None").n_classes
    elif scale is not None:
        raise GgeurError(
            "augment needs a geometry to draw along; pass scale=None for no noise.", code="geometry-missing"
        )
    elif prototypes is not None:
        n_classes = prototypes.mean.shape[1]
    y = check_labels(y, n_classes, samples=len(x))
    if n_classes is None:
        n_classes = int(y.max(initial=-1)) + 1
    if prototypes is not None and prototypes.mean.shape[1:] != (n_classes, x.shape[1]):
        raise GgeurError(
            f"The prototypes have shape {prototypes.mean.shape}; they must be (domains, {n_classes}, {x.shape[1]}).",
            code="prototypes-shape",
        )
    if geometry is not None and geometry.dimension != x.shape[1]:
        raise GgeurError(
            f"The geometry has {geometry.dimension} dimensions and the embeddings {x.shape[1]}: use one encoder.",
            code="geometry-dimension-mismatch",
        )
    for name, value in (("target", target), ("per_prototype", per_prototype), ("per_sample", per_sample)):
        if value is not None or name != "per_sample":
            check_whole(name, value, least=1, most=10**18)
    check_choice("empty_group", empty_group, ("all", "first"))
    for name, value in (("seed", seed), ("client", client)):
        check_whole(name, value, least=0)
    first = np.zeros(n_classes, np.int64)
    if drawn_before is not None:
        first = check_labels(drawn_before, None, samples=n_classes, name="drawn_before")
    if scale is not None:
        check_choice("scale", scale, get_args(Scale))
    rule = DrawRule(target, per_sample, per_prototype, empty_group)
    base = x
    if prototypes is not None:
        means = check_embeddings(prototypes.mean.reshape(-1, x.shape[1]), "of the prototypes")
        base = np.concatenate([x, means], dtype=x.dtype)
    with fits_memory("so many draws: lower target, per_sample or per_prototype"):
        draws = plan_draws(y, n_classes, rule, None if prototypes is None else prototypes.present)
        new = base[draws.sample]
    if geometry is not None and scale is not None:
        if scale == "eigenvalue" and (note := units_note(float(geometry.eigenvalues.max(initial=0.0)))):
            warnings.warn(note, GgeurWarning, stacklevel=2)
        new += _noise(geometry, scale, draws, seed, client, first)
    return np.concatenate([x, new]), np.concatenate([y, draws.label])


def _noise(geometry: Geometry, scale: Scale, draws: Draws, seed: int, client: int, first: Int) -> NDArray[np.float32]:
    """Return the noise of the draws: of each class, what its bank has from `first` on, with the client's signs."""
    count = np.bincount(draws.label, minlength=geometry.n_classes)
    held = np.flatnonzero(count)
    geometry.require(held)
    factor_of = np.full(len(count), -1)
    factor_of[held] = np.arange(len(held))
    factors = np.array([geometry.factor(int(c), scale) for c in held], np.float32).reshape(
        -1, *[geometry.dimension] * 2
    )
    piece = BankPiece(first, count, first + count)
    signed = piece.noise_rows(np.zeros_like(count), client, draws.label, seed)
    return np.sign(signed)[:, None] * piece.noise(factors, factor_of, seed)[np.abs(signed)]
