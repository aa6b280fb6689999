"""Partition samples among clients: by label (Dirichlet), by domain, or by both at once (Office-Home-LDS).

Every function returns one sorted array of sample indices per client, never of test samples; client k is the k-th.

>>> [part.tolist() for part in by_domain([0, 0, 1, 1, 1])]
[[0, 1], [2, 3, 4]]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.stats.errors import GgeurError
from ggeur.stats.seeding import generator
from ggeur.stats.validate import check_labels, check_numbers, check_share, check_whole

Samples = NDArray[np.int64]
_SMALLEST_BETA = 1e-3  # below it a Dirichlet draw is one-hot in float64, and its gamma variates underflow


def dirichlet(
    y: ArrayLike,
    clients: int = 10,
    beta: float = 0.1,
    *,
    min_per_class: int = 1,
    test: ArrayLike | None = None,
    seed: int = 0,
) -> list[Samples]:
    """Split by label skew: every client gets `min_per_class` samples of a class, the rest by Dirichlet(beta) shares.

    Parameters
    ----------
    y : the class of every sample.
    clients : how many there are.
    beta : of the Dirichlet distribution; the smaller, the more skewed.
    min_per_class : samples of every class that every client gets whatever the draw.
    test : a mask of samples that no client gets.
    seed : of the draw.

    Raises GgeurError where a class is too small to give every client `min_per_class` samples.

    >>> parts = dirichlet([0] * 50 + [1] * 50, clients=3, beta=0.5)
    >>> sorted(np.concatenate(parts).tolist()) == list(range(100))
    True
    """
    y, train = _labels(y, test)
    _check_beta(beta)
    check_whole("clients", clients)
    check_whole("min_per_class", min_per_class, least=0)
    split: list[list[Samples]] = []  # by class and client
    for c in np.unique(y[train]):
        rng = generator(seed, "dirichlet", int(c))
        samples = rng.permutation(np.flatnonzero(train & (y == c)))
        rest = len(samples) - clients * min_per_class
        if rest < 0:
            raise GgeurError(
                f"Class {c} has {len(samples)} training samples, too few to give each of {clients} clients "
                f"{min_per_class}: use fewer clients or a smaller min_per_class.",
                code="partition-samples-too-few",
            )
        count = min_per_class + _whole_shares(_dirichlet_shares(rng, beta, clients), rest)
        split.append(np.split(samples, np.cumsum(count)[:-1]))
    if not split:
        return [np.zeros(0, np.int64) for _ in range(clients)]
    return [np.sort(np.concatenate(own)) for own in zip(*split, strict=True)]


def by_domain(
    domain: ArrayLike,
    *,
    share: float = 1.0,
    taken: float | None = None,
    test: ArrayLike | None = None,
    seed: int = 0,
) -> list[Samples]:
    """Split by domain: client k holds `share` of all samples of domain k, drawn from its training samples.

    Parameters
    ----------
    domain : the domain of every sample, from 0 on.
    share : of a domain's samples, above 0 and at most 1.
    taken : the share of a domain that the training samples already are (a table's `meta["share"]`): of those only
        share / taken is kept, so a share is never taken twice.
    test : a mask of samples that no client gets.
    seed : of the draw.
    """
    domain, train = _labels(domain, test)
    check_share("share", share)
    if taken is not None:
        check_share("taken", taken)
    parts = []
    for d in range(int(domain.max(initial=-1)) + 1):
        samples = np.flatnonzero(train & (domain == d))
        whole = int((domain == d).sum()) if taken is None else len(samples)
        keep = min(int(share / (taken or 1.0) * whole + 1e-9), len(samples))
        order = generator(seed, "by-domain", d).permutation(len(samples))
        parts.append(np.sort(samples[order[:keep]]))
    return parts


def label_and_domain(
    y: ArrayLike, domain: ArrayLike, beta: float = 0.1, *, test: ArrayLike | None = None, seed: int = 0
) -> list[Samples]:
    """Split by label and domain (Office-Home-LDS): client k holds, of domain k's class c, the share M[k, c].

    M is clients x classes; its columns are Dirichlet(beta) and sum to 1. What a client does not take is left unused,
    as in the paper's constructor.

    Parameters
    ----------
    y, domain : the class and the domain of every sample.
    beta : of the Dirichlet distribution; the smaller, the more skewed.
    test : a mask of samples that no client gets.
    seed : of the draw.
    """
    y, train = _labels(y, test)
    domain, _ = _labels(domain, test)
    if domain.shape != y.shape:
        raise GgeurError(
            f"There are {len(y)} labels and {len(domain)} domains; each sample needs both.",
            code="labels-domains-mismatch",
        )
    n_classes, n_domains = int(y.max(initial=-1)) + 1, int(domain.max(initial=-1)) + 1
    shares = share_matrix(n_domains, n_classes, beta, seed=seed)
    parts = []
    for d in range(n_domains):
        rng = generator(seed, "label-and-domain", d)
        samples = rng.permutation(np.flatnonzero(train & (domain == d)))
        own = [samples[y[samples] == c] for c in range(n_classes)]
        kept = [r[: int(shares[d, c] * len(r) + 1e-9)] for c, r in enumerate(own)]
        parts.append(np.sort(np.concatenate(kept)) if kept else samples)
    return parts


def share_matrix(clients: int, n_classes: int, beta: float, *, seed: int = 0) -> NDArray[np.float64]:
    """Return the `clients` x `n_classes` matrix of Office-Home-LDS; a column is a Dirichlet(`beta`) draw by `seed`."""
    _check_beta(beta)
    rng = generator(seed, "share-matrix")
    columns = [_dirichlet_shares(rng, beta, clients) for _ in range(n_classes)]
    return np.reshape(columns, (n_classes, clients)).T


def _dirichlet_shares(rng: np.random.Generator, beta: float, clients: int) -> NDArray[np.float64]:
    if beta < _SMALLEST_BETA:
        return np.asarray(rng.permutation(np.eye(clients)[0]))
    return rng.dirichlet(np.full(clients, beta))


def _whole_shares(shares: NDArray[np.float64], total: int) -> Samples:
    """Split `total` by `shares` into whole numbers that add up: the largest remainders get one more."""
    exact = shares * total
    count = np.floor(exact).astype(np.int64)
    short = total - int(count.sum())
    count[np.argsort(count - exact, kind="stable")[:short]] += 1
    return count


def _labels(labels: ArrayLike, test: ArrayLike | None) -> tuple[Samples, NDArray[np.bool_]]:
    labels = check_labels(labels, None, samples=None)
    train = np.ones(len(labels), np.bool_)
    if test is not None:
        train = check_numbers("test", test, labels.shape) == 0
    return labels, train


def _check_beta(beta: float) -> None:
    if not isinstance(beta, float | int | np.floating) or isinstance(beta, bool) or not 0 < beta < 1e300:
        raise GgeurError(
            f"beta is {beta}; a Dirichlet parameter must be positive and below 1e300.", code="partition-beta-invalid"
        )
