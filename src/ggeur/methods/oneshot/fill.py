"""Means for all groups, also for those that nobody holds: an additive model of domains and classes fills them.

A group is the samples of one class in one domain. With n_sc samples of mean m_sc in it,

    w_sc = n_sc / (1 + n_sc / 30)
    (a, b) = argmin sum_sc w_sc |m_sc - a_s - b_c|^2 + sum_s |a_s|^2
    M_sc = (n_sc m_sc + k (a_s + b_c)) / (n_sc + k)

A large group counts as 30 samples at most, since groups differ by more than sampling noise. The penalty decides
whether a common shift is part of a or of b.
"""

import numpy as np

from ggeur.stats.types import Float

_MOST, _PENALTY = 30.0, 1.0  # samples that a group counts for at most; penalty on a_s, in samples


def additive_means(count: Float, mean: Float) -> Float:
    """Return a_s + b_c (S, C, p), fitted to groups of `count` (S, C) samples with these means (S, C, p).

    An empty group's mean is not looked at. Of a class without any sample, b_c is zero.
    """
    n = np.maximum(count, 0.0)
    w = n / (1 + n / _MOST)
    held = w.sum(axis=0)
    normal = np.block([[np.diag(w.sum(axis=1) + _PENALTY), w], [w.T, np.diag(held + (held == 0))]])
    weighted = w[:, :, None] * mean
    fit = np.linalg.solve(normal, np.concatenate([weighted.sum(axis=1), weighted.sum(axis=0)]))
    return np.asarray(fit[: len(n), None] + fit[None, len(n) :])


def filled_means(count: Float, mean: Float, k: float) -> Float:
    """Return M_sc (S, C, p) of every group, in which the additive mean counts as `k` samples.

    >>> count, mean = np.array([[9e9, 9e9], [9e9, 0.0]]), np.array([[[0.0], [1.0]], [[5.0], [0.0]]])
    >>> filled_means(count, mean, 2.0)[1, 1].round(1)  # the other class is at 5, and one above it in the other domain
    array([5.8])
    """
    n = np.maximum(count, 0.0)[:, :, None]
    return np.asarray((n * mean + k * additive_means(count, mean)) / (n + k))
