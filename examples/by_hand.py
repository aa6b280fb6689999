"""A whole federation by hand, in NumPy: statistics, geometry, GGEUR, two rounds of FedAvg, and a one-shot classifier.

Its classifiers are those of `ggeur.run` with the same settings, to rounding. Read it from the bottom.
"""

import numpy as np

import ggeur

SEED, ROUNDS, BATCH, RATE, MOMENTUM, DECAY = 0, 2, 16, 0.05, 0.9, 1e-5
TARGET, PER_PROTOTYPE, SHRINKAGE = 40, 10, 0.1


def draws_of(y, others, n_classes):
    """How often a client draws for each class: up to the target around its own, and around others' prototypes."""
    held = np.bincount(y, minlength=n_classes)
    return np.where(held > 0, np.maximum(TARGET - held, 0), 0) + PER_PROTOTYPE * others.present.sum(axis=0)


def ggeur_sets(clients, statistics, n_classes):
    """Algorithms 1 and 2: every client's own samples and its draws along the geometry of the merged statistics."""
    geometry = ggeur.Geometry.from_statistics(ggeur.ClassStatistics.merge(statistics))
    before, sets = np.zeros(n_classes, np.int64), []
    for k, (x, y) in enumerate(clients):
        others = ggeur.Prototypes.from_statistics([s for j, s in enumerate(statistics) if j != k])
        sizes = {"target": TARGET, "prototypes": others, "per_prototype": PER_PROTOTYPE}
        sets.append(ggeur.augment(x, y, geometry, **sizes, seed=SEED, client=k, drawn_before=before))
        before += draws_of(y, others, n_classes)
    return sets


def gradient(w, b, x, y):
    """Of the mean cross-entropy of the logits x W' + b."""
    z = x @ w.T + b
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return p.T @ x / len(y), p.mean(axis=0)


def local_epoch(w, b, x, y, number, client):
    """One epoch of SGD as torch has it: decay is added to the gradient, momentum starts at zero."""
    velocity, steps = [np.zeros_like(w), np.zeros_like(b)], -(-len(y) // BATCH)
    for some in ggeur.batch_order(SEED, number, client, len(y), steps, BATCH).reshape(steps, BATCH):
        some = some[some >= 0]  # the last batch of an epoch may be short
        for i, (leaf, g) in enumerate(zip((w, b), gradient(w, b, x[some], y[some]), strict=True)):
            velocity[i] = MOMENTUM * velocity[i] + g + DECAY * leaf
        w, b = w - RATE * velocity[0], b - RATE * velocity[1]
    return w, b


def fedavg(sets, dimension, n_classes):
    """Rounds of local training, each followed by the mean of the clients' heads, weighted by their samples."""
    w, b = (np.asarray(leaf, np.float64) for leaf in ggeur.first_head(dimension, n_classes, SEED))
    share = np.array([len(y) for _, y in sets]) / sum(len(y) for _, y in sets)
    for number in range(1, ROUNDS + 1):
        ends = [local_epoch(w, b, x, y, number, k) for k, (x, y) in enumerate(sets)]
        w, b = (sum(s * end[i] for s, end in zip(share, ends, strict=True)) for i in (0, 1))
    return w, b


def lda(statistics):
    """A one-shot classifier: class means and one covariance, shrunk towards a sphere."""
    total = ggeur.ClassStatistics.merge(statistics)
    prior = total.count / total.count.sum()
    sigma = np.einsum("c,cpq->pq", prior, total.covariance)
    sigma = (1 - SHRINKAGE) * sigma + SHRINKAGE * np.trace(sigma) / len(sigma) * np.eye(len(sigma))
    w = np.linalg.solve(sigma, total.mean.T).T
    return w, np.log(prior) - np.einsum("cp,cp->c", w, total.mean) / 2


def federation(table):
    """A client for each domain of an embedding table: (GGEUR with FedAvg, LDA), each as weights and intercepts."""
    train = np.zeros(len(table), bool) if table.test is None else table.test
    own = [np.flatnonzero(~train & (table.domains == d)) for d in range(table.n_domains)]
    clients = [(table.x[i].astype(np.float64), table.y[i]) for i in own]
    statistics = [ggeur.ClassStatistics.from_embeddings(x, y, table.n_classes) for x, y in clients]
    sets = ggeur_sets(clients, statistics, table.n_classes)
    return fedavg(sets, table.dimension, table.n_classes), lda(statistics)
