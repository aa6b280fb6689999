"""Ridge regression on landmark features, alone or with `ggeur-limit` or `mixture`: above training on pooled samples.

    phi(x) = [0.1 z, sqrt(p) exp(-|z - l_j|^2 / p)_j],   z = x in units,   j = 1..D             (`stats/features`)
    W = (G + alpha tr(G)/D' I)^{-1} A',  b = mean(y) - W mean(phi),   D' = D + p
    G = sum_i w_i (phi_i - mean)(phi_i - mean)',   A_c = sum_{i of c} w_i (phi_i - mean)

Sites are asked twice: for the statistics of samples, and then for those of features. The counts of the groups, which
are the samples of a class in a domain, decide on the form:

    one domain                              10 K              w = 1,      alpha 1e-4
    every group has 20 samples or more      10 K + mixture/4  w = 1,      alpha 1e-4
    a group is smaller, or empty            10 K + F          w = 1/n_sc, alpha 1e-3,  F the scores of `ggeur-limit`

In the last, the server adds 200 draws of N(M_sc, T) for every group, which weigh 10 / (n_sc + 10) together, and M_sc
and T are those of F. The landmarks are N(0, I) in units ("public"), or draws of N(M_sc, T), as many of every group
("class"). D is a quarter of the number of samples, in steps of 250 up to 3000.

Second moments are pooled over classes: those of every class are no better here, and beside features they would give the
samples of small groups away (`privacy/feature_attacks`).
"""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ggeur.heads.head import Params
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.fill import filled_means
from ggeur.methods.oneshot.ggeur_limit import ggeur_limit
from ggeur.methods.oneshot.linear_head import BELOW
from ggeur.methods.oneshot.mixture import mixture
from ggeur.stats.errors import GgeurError
from ggeur.stats.features import LINEAR, FeatureMap, FeatureQuery, Precision
from ggeur.stats.geometry import shrunk
from ggeur.stats.hyperparameters import Count, Positive
from ggeur.stats.seeding import generator
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics
from ggeur.stats.streaming import Piece
from ggeur.stats.types import Float
from ggeur.stats.units import Units

Form = Literal["alone", "limit", "mixture"]
_ENOUGH = 20.0  # samples of a group that is well filled
_SHARPER, _OF_MIXTURE = 10.0, 0.25  # what scores of K, which are about 0 to 1, and of the mixture are multiplied by
_DRAWS, _FILL, _ADDITIVE = 200, 10.0, 2.0  # draws of a group; samples that they, and its additive mean, count for
_STEP, _MOST, _SHARE = 250, 3000, 4  # of D: its steps, its most, and how many samples there are for a landmark
_SAFE = 1e-4  # penalty from which on sums in float32 leave a matrix that Cholesky can factorise
_SHRINKAGE = 0.1  # of T, as `ggeur-limit` has it


def kernel(
    *,
    features: Count | None = None,
    landmarks: Literal["public", "class"] = "public",
    alpha: Annotated[float, Field(ge=1e-5, allow_inf_nan=False)] | None = None,
    form: Form | None = None,
    precision: Precision = "float32",
    more: bool = False,
    shift: float | list[float] | None = None,
    scale: Positive | None = None,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> ClosedForm:
    """`features`: D, by default a quarter of the number of samples. `landmarks`: where they are drawn.

    `alpha`: penalty, as a share of the mean eigenvalue of G. `form`: K "alone", with "limit" or with "mixture"; by
    default what the groups' counts say. `precision`: of features on their way. `more`: allow more landmarks than a
    quarter of the number of samples. `shift`, `scale`: units that are declared in public, in place of those of all
    samples, so that sites join and leave without being asked again. `seed`: of landmarks and draws, public.
    """
    limit, mixed = ggeur_limit(covariance="pooled"), mixture()
    if (shift is None) != (scale is None):
        raise GgeurError("[method.kernel] shift and scale: give both, or neither.", code="features-units-incomplete")

    def asks(total: FederationStatistics, task: Task) -> FeatureQuery:
        groups = Groups.of(total)
        d = _number_of_landmarks(features, more, total)
        rng = generator(seed, "landmarks")
        units = total.units if shift is None or scale is None else _declared(shift, scale, total.dimension)
        if landmarks == "public":
            z = rng.normal(size=(d, total.dimension))
        else:
            z = (groups.landmarks(d, rng) * total.units.scale + total.units.shift - units.shift) / units.scale
        weights = None
        if (form or groups.form) == "limit":
            weights = np.zeros((max(total.domain) + 1, total.n_classes))
            weights[list(total.domain)] = 1 / np.where(groups.samples > 0, groups.samples, np.inf)
        public = landmarks == "public" and shift is not None
        return FeatureQuery(FeatureMap(units, z.astype(np.float32)), weights, precision, public)

    def solve(total: FederationStatistics, task: Task) -> Params:
        assert total.features is not None
        asked, s = total.features.asked, total.features.total
        groups = Groups.of(total)
        kind = form or groups.form
        if kind == "limit":
            s = groups.drawn(asked, generator(seed, "group draws")) + s
        w, b = ridge_of_features(s, alpha or (1e-3 if kind == "limit" else 1e-4), exact=precision == "float64")
        w, b, units = _SHARPER * w, _SHARPER * b, asked.map.units
        if kind == "limit":  # F is linear in z, as the first features are
            linear = limit.solve(total, task)
            w[:, : total.dimension] += linear["W"].astype(np.float64) * (units.scale / LINEAR)
            b += linear["b"] + linear["W"].astype(np.float64) @ units.shift
        here = total.present
        w, b = np.where(here[:, None], w, w[here].mean(axis=0)), np.where(here, b, b[here].mean() - BELOW)
        params = {
            "center": units.shift,
            "scale": np.float64(units.scale),
            "landmarks": asked.map.landmarks,
            "W": w,
            "b": b,
        }
        if kind == "mixture":
            params |= {"mixture": mixed.solve(total, task), "t": np.float64(_OF_MIXTURE)}
        return params

    return ClosedForm("pooled", solve, mixed.apart, head="kernel", features=asks)


class Groups(NamedTuple):
    """The groups of a federation, as their statistics tell them."""

    total: FederationStatistics
    samples: Float  # (S, C): how many

    @classmethod
    def of(cls, total: FederationStatistics) -> "Groups":
        """From the total of all samples, with every domain apart."""
        if not total.present.any():
            raise GgeurError(
                "There are no samples at all, so no classifier can be computed.", code="training-samples-missing"
            )
        return cls(total, np.stack([m.count for m in total.apart]))

    @property
    def form(self) -> Form:
        """Return the form that suits the counts."""
        if len(self.samples) == 1:
            return "alone"
        return "limit" if (self.samples[:, self.total.present] < _ENOUGH).any() else "mixture"

    @property
    def means(self) -> Float:
        """(S, C, p): M_sc, in units."""
        mean = np.stack([m.mean for m in self.total.standard.apart])
        return filled_means(self.samples, mean, _ADDITIVE) if len(mean) > 1 else mean

    @property
    def root(self) -> Float:
        """R (p, p), R R' = T in units: the covariance within classes, shrunk."""
        t = shrunk(self.total.standard.within, _SHRINKAGE)
        return np.asarray(np.linalg.cholesky(t + 1e-12 * np.eye(len(t))))

    def landmarks(self, d: int, rng: np.random.Generator) -> Float:
        """(d, p): draws of N(M_sc, T) in units, as many of every group; of one domain by count of its classes."""
        here = np.flatnonzero(self.total.present)
        share = np.ones((len(self.samples), len(here))) if len(self.samples) > 1 else self.samples[:, here]
        upto = np.cumsum(share) / share.sum()
        groups = np.minimum(np.searchsorted(upto, (np.arange(d) + 0.5) / d), share.size - 1)
        z = rng.normal(size=(d, self.total.dimension)) @ self.root.T
        return np.asarray(z + self.means[groups // len(here), here[groups % len(here)]])

    def drawn(self, asked: FeatureQuery, rng: np.random.Generator) -> SiteStatistics:
        """Return the statistics of features of draws of every group."""
        here, means, units = np.flatnonzero(self.total.present), self.means, self.total.units
        weights, y = _FILL / (self.samples + _FILL) / _DRAWS, np.repeat(here, _DRAWS)
        root, of_draws = self.root, asked._replace(weights=weights)

        def of_domain(s: int) -> Piece:
            z = means[s, y] + rng.normal(size=(len(y), len(root))) @ root.T
            return Piece(z * units.scale + units.shift, y, np.full(len(y), s))

        return of_draws.of_pieces(map(of_domain, range(len(self.samples))), self.total.n_classes)


def ridge_of_features(s: SiteStatistics, alpha: float, *, exact: bool) -> tuple[Float, Float]:
    """W and b of `s`; where that is not `exact`, and the penalty small, without eigenvalues that rounding made."""
    n, mean = float(s.count.sum()), s.sum.sum(axis=0) / s.count.sum()
    gram = s.second[0] - np.outer(n * mean, mean)
    about = (s.sum - s.count[:, None] * mean).T
    penalty = alpha * float(np.trace(gram)) / len(gram) or 1.0  # where all samples are alike there is nothing to learn
    w = None
    if exact or alpha >= _SAFE:
        try:
            w = cho_solve(cho_factor(gram + penalty * np.eye(len(gram)), overwrite_a=True), about).T
        except LinAlgError:
            w = None
    if w is None:
        size, axes = np.linalg.eigh(gram)
        w = (axes @ ((axes.T @ about) / (np.maximum(size, 0.0) + penalty)[:, None])).T
    return np.asarray(w), np.asarray(s.count / n - w @ (s.center + mean))


def _declared(shift: float | list[float], scale: float, p: int) -> Units:
    """Return these units, for samples of `p` dimensions."""
    if not isinstance(shift, list):
        return Units(np.full(p, float(shift)), scale)
    if len(shift) != p:
        raise GgeurError(
            f"[method.kernel] shift has {len(shift)} numbers, and the samples {p} dimensions.",
            code="features-units-mismatch",
        )
    return Units(np.array(shift, np.float64), scale)


def _number_of_landmarks(given: int | None, more: bool, total: FederationStatistics) -> int:
    """Return D: what is `given`, if it may be, or else a quarter of the number of samples, within limits."""
    n, classes = int(total.count.sum()), int(total.present.sum())
    allowed = max(n // _SHARE // _STEP, 1) * _STEP
    if given is None:
        return max(min(allowed, _MOST), -(-classes // _STEP) * _STEP)
    if given < classes:
        raise GgeurError(
            f"[method.kernel] features = {given} is less than the {classes} classes: take at least as many, or leave "
            "it out.",
            code="features-too-few",
        )
    if given > allowed and not more:
        raise GgeurError(
            f"[method.kernel] features = {given} is more than a quarter of the {n:,} samples, {allowed}: take "
            "fewer, or set more = true if you mean it.",
            code="features-too-many",
        )
    return given
