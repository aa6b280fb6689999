"""How rows fall to clients: by label (Dirichlet), by domain, or by both at once (Office-Home-LDS).

Every function returns one sorted array of row indices per client, never of test rows; client k is known by k.

>>> [part.tolist() for part in by_domain([0, 0, 1, 1, 1])]
[[0, 1], [2, 3, 4]]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.seeding import generator
from ggeur.core.validate import check_labels, check_numbers, check_share, check_whole

Rows = NDArray[np.int64]
_SMALLEST_BETA = 1e-3  # below it a Dirichlet draw is one-hot in float64, and its gamma variates underflow


def dirichlet(
    y: ArrayLike,
    clients: int = 10,
    beta: float = 0.1,
    *,
    min_per_class: int = 1,
    test: ArrayLike | None = None,
    seed: int = 0,
) -> list[Rows]:
    """Label skew: of each class every client gets `min_per_class` rows, the rest goes by Dirichlet(beta) shares.

    Parameters
    ----------
    y : the class of every row.
    clients : how many there are.
    beta : of the Dirichlet distribution; the smaller, the more skewed.
    min_per_class : rows of every class that every client gets whatever the draw.
    test : a mask of rows that no client gets.
    seed : of the draw.

    Raises GgeurError where a class is too small to give every client `min_per_class` rows.

    >>> parts = dirichlet([0] * 50 + [1] * 50, clients=3, beta=0.5)
    >>> sorted(np.concatenate(parts).tolist()) == list(range(100))
    True
    """
    y, train = _labels(y, test)
    _check_beta(beta)
    check_whole("clients", clients)
    check_whole("min_per_class", min_per_class, least=0)
    split: list[list[Rows]] = []  # by class and client
    for c in np.unique(y[train]):
        rng = generator(seed, "dirichlet", int(c))
        rows = rng.permutation(np.flatnonzero(train & (y == c)))
        rest = len(rows) - clients * min_per_class
        if rest < 0:
            raise GgeurError(
                f"Class {c} has {len(rows)} training rows, too few to give each of {clients} clients "
                f"{min_per_class}: use fewer clients or a smaller min_per_class."
            )
        count = min_per_class + _whole_shares(_dirichlet_shares(rng, beta, clients), rest)
        split.append(np.split(rows, np.cumsum(count)[:-1]))
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
) -> list[Rows]:
    """Domain skew: client k holds `share` of all rows of domain k, drawn from its training rows.

    Parameters
    ----------
    domain : the domain of every row, from 0 on.
    share : of a domain's rows, above 0 and at most 1.
    taken : the share of a domain that the training rows already are (a table's `meta["share"]`): of those only
        share / taken is kept, so a share is never taken twice.
    test : a mask of rows that no client gets.
    seed : of the draw.
    """
    domain, train = _labels(domain, test)
    check_share("share", share)
    if taken is not None:
        check_share("taken", taken)
    parts = []
    for d in range(int(domain.max(initial=-1)) + 1):
        rows = np.flatnonzero(train & (domain == d))
        whole = int((domain == d).sum()) if taken is None else len(rows)
        keep = min(int(share / (taken or 1.0) * whole + 1e-9), len(rows))
        order = generator(seed, "by-domain", d).permutation(len(rows))
        parts.append(np.sort(rows[order[:keep]]))
    return parts


def label_and_domain(
    y: ArrayLike, domain: ArrayLike, beta: float = 0.1, *, test: ArrayLike | None = None, seed: int = 0
) -> list[Rows]:
    """Both skews at once (Office-Home-LDS): client k holds, of domain k's class c, the share M[k, c].

    M is clients x classes; its columns are Dirichlet(beta) and sum to 1. What a client does not take is left unused,
    as in the paper's constructor.

    Parameters
    ----------
    y, domain : the class and the domain of every row.
    beta : of the Dirichlet distribution; the smaller, the more skewed.
    test : a mask of rows that no client gets.
    seed : of the draw.
    """
    y, train = _labels(y, test)
    domain, _ = _labels(domain, test)
    if domain.shape != y.shape:
        raise GgeurError(f"There are {len(y)} labels and {len(domain)} domains; each row needs both.")
    n_classes, n_domains = int(y.max(initial=-1)) + 1, int(domain.max(initial=-1)) + 1
    shares = share_matrix(n_domains, n_classes, beta, seed=seed)
    parts = []
    for d in range(n_domains):
        rng = generator(seed, "label-and-domain", d)
        rows = rng.permutation(np.flatnonzero(train & (domain == d)))
        own = [rows[y[rows] == c] for c in range(n_classes)]
        kept = [r[: int(shares[d, c] * len(r) + 1e-9)] for c, r in enumerate(own)]
        parts.append(np.sort(np.concatenate(kept)) if kept else rows)
    return parts


def share_matrix(clients: int, n_classes: int, beta: float, *, seed: int = 0) -> NDArray[np.float64]:
    """The `clients` x `n_classes` matrix of Office-Home-LDS: each column is one Dirichlet(`beta`) draw, by `seed`."""
    _check_beta(beta)
    rng = generator(seed, "share-matrix")
    columns = [_dirichlet_shares(rng, beta, clients) for _ in range(n_classes)]
    return np.reshape(columns, (n_classes, clients)).T


def _dirichlet_shares(rng: np.random.Generator, beta: float, clients: int) -> NDArray[np.float64]:
    if beta < _SMALLEST_BETA:
        return np.asarray(rng.permutation(np.eye(clients)[0]))
    return rng.dirichlet(np.full(clients, beta))


def _whole_shares(shares: NDArray[np.float64], total: int) -> Rows:
    """`total` things by `shares`, in whole numbers that add up: the largest remainders get one more."""
    exact = shares * total
    count = np.floor(exact).astype(np.int64)
    short = total - int(count.sum())
    count[np.argsort(count - exact, kind="stable")[:short]] += 1
    return count


def _labels(labels: ArrayLike, test: ArrayLike | None) -> tuple[Rows, NDArray[np.bool_]]:
    labels = check_labels(labels, None, rows=None)
    train = np.ones(len(labels), np.bool_)
    if test is not None:
        train = check_numbers("test", test, labels.shape) == 0
    return labels, train


def _check_beta(beta: float) -> None:
    if not isinstance(beta, float | int | np.floating) or isinstance(beta, bool) or not 0 < beta < 1e300:
        raise GgeurError(f"beta is {beta}; a Dirichlet parameter must be positive and below 1e300.")
