"""An upper bound of GGEUR's loss with infinitely many draws, which is convex: its minimum is the head.

GGEUR trains on x ~ N(m, T_c) around prototypes m. By Jensen, a linear head's expected cross-entropy there is at most

    log sum_j exp((w_j - w_c)'m + b_j - b_c + k/2 (w_j - w_c)' T_c (w_j - w_c))

(Wang et al. 2019, inside the training of a network). Its mean over prototypes plus decay/2 ||W||^2 has one minimum in
W, and in b up to a shift: no seed, no learning rate, no rounds. With Sigma = sum_c n_c/n Sigma_c,

    T_c = (1 - g)(a_c Sigma_c + (1 - a_c) Sigma) + g tr(.)/p I,    a_c = n_c / (n_c + kappa p)

With several domains there is a prototype for every class in every domain. Those that nobody holds are filled by the
additive means of `fill`: without them a classifier takes a domain for evidence of the classes that it happens to hold.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np

from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.descent import ROUGH, Coordinates, minimum
from ggeur.methods.oneshot.fill import filled_means
from ggeur.methods.oneshot.linear_head import linear_head, of_the_last
from ggeur.stats.geometry import shrunk
from ggeur.stats.hyperparameters import AtLeastZero, Fraction, Positive
from ggeur.stats.moments import covariance_from_means
from ggeur.stats.site_statistics import Breakdown, Covariance, FederationStatistics
from ggeur.stats.types import Float, Int

Fill = Literal["additive", "none"]
_ADDITIVE = 2.0  # number of samples that a group's additive mean counts for


@lru_cache  # one object, so that its result is computed once
def ggeur_limit(
    *,
    kappa: AtLeastZero = 4.0,
    shrinkage: Fraction = 0.1,
    scale: AtLeastZero = 1.0,
    decay: Positive = 1e-5,
    fill: Fill = "additive",
    covariance: Covariance = "per-class",
) -> ClosedForm:
    """`kappa`: number of samples, in dimensions, at which a class's covariance counts as much as the pooled one.

    `shrinkage`: g. `scale`: k, how much of the covariance is drawn. `decay`: of W, for samples in units of their
    spread. `fill`: with several domains, "additive" fills the classes that a domain lacks; "none" leaves them out.
    `covariance` is that of [augment]: with "pooled" all classes have one covariance; with "none" they are estimated
    from the scatter of the clients' means.
    """

    @of_the_last
    def solve(s: FederationStatistics, task: Task) -> tuple[Float, Float]:
        here = np.flatnonzero(s.present)  # a class that nobody holds has no prototypes, and no say
        m, y, weight = class_prototypes(s, fill)
        w, b = np.zeros((s.n_classes, s.dimension)), np.zeros(s.n_classes)
        w[here], b[here] = minimum(m, np.searchsorted(here, y), weight, shapes(s, kappa, shrinkage, scale), decay)
        return w, b

    @of_the_last
    def near(s: FederationStatistics, task: Task, start: tuple[Float, Float] | None) -> tuple[Float, Float]:
        here = np.flatnonzero(s.present)
        m, y, weight = class_prototypes(s, fill)
        w, b = np.zeros((s.n_classes, s.dimension)), np.zeros(s.n_classes)
        first = None if start is None else np.column_stack([start[1][here], start[0][here]])
        t, known = unscaled_shapes(kappa, shrinkage)(s)
        w[here], b[here] = minimum(m, np.searchsorted(here, y), weight, t, decay, first, ROUGH, known, scale)
        return w, b

    return linear_head(covariance, solve, Breakdown("none", "client" if covariance == "none" else "domain"), near)


def class_prototypes(s: FederationStatistics, fill: Fill = "additive") -> tuple[Float, Int, Float]:
    """Return points (n, p), their classes and their weights: with several domains every group's mean, all alike.

    That is Step 2's balance. With one domain every class's mean, weighted by count. `fill` "additive" takes a group for
    every domain and every class that somebody holds, "none" only the groups that have samples.
    """
    domains = sorted(set(s.domain))
    by_domain = [
        FederationStatistics.of((0, m) for d, m in zip(s.domain, s.apart, strict=True) if d == one) for one in domains
    ]
    if fill == "additive" and len(domains) > 1:
        return _filled(s, by_domain)
    groups = [(m.mean[c], c, m.count[c]) for m in by_domain for c in np.flatnonzero(m.present)]
    points, y, n = (np.array(column) for column in zip(*groups, strict=True))
    return points, y, np.full(len(y), 1 / len(y)) if len(domains) > 1 else n / n.sum()


def _filled(s: FederationStatistics, by_domain: list[FederationStatistics]) -> tuple[Float, Int, Float]:
    """The same of all groups, each with the mean that `fill` gives it."""
    count, mean = np.stack([m.count for m in by_domain]), np.stack([m.mean for m in by_domain])
    means = filled_means(count, mean, _ADDITIVE)
    alone = s.present & ~(count > 0).any(axis=0)  # under noise, of which each domain's part may be too small to be kept
    means[:, alone] = s.mean[alone]
    here = np.flatnonzero(s.present)
    points = means[:, here].reshape(-1, s.dimension)
    return points, np.tile(here, len(by_domain)), np.full(len(points), 1 / len(points))


@lru_cache
def unscaled_shapes(kappa: float, g: float) -> Callable[[FederationStatistics], tuple[list[Float], Coordinates]]:
    """Return T_c of the last total and its coordinates, which `ggeur_limit` of any scale and decay shares."""

    @of_the_last
    def found(s: FederationStatistics) -> tuple[list[Float], Coordinates]:
        t = shapes(s, kappa, g, 1.0)
        return t, Coordinates.of(t)

    return found


def shapes(s: FederationStatistics, kappa: float, g: float, k: float) -> list[Float]:
    """k T_c of every class that somebody holds, or one for all where the covariances are pooled."""
    here, p = np.flatnonzero(s.present), s.dimension
    if s.kind == "none":
        count, mean = np.stack([m.count for m in s.apart]), np.stack([m.mean for m in s.apart])
        return list(k * covariance_from_means(count, mean, np.array(s.domain), shrinkage=g)[here])
    sigma = s.within
    if s.kind == "pooled":
        return [k * shrunk(sigma, g)]
    a = s.count / (s.count + kappa * p)
    return [k * shrunk(a[c] * s.scatter_of(int(c)) / s.count[c] + (1 - a[c]) * sigma, g) for c in here]
