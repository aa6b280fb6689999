"""Random streams known by name, so that no draw depends on order, batching or engine."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.validate import check_whole


def generator(seed: int, purpose: str, *names: int | np.integer | str) -> np.random.Generator:
    """Return the stream of one purpose and, say, one client: the same wherever it is asked for.

    >>> a = generator(0, "split", "webcam").integers(100, size=3)
    >>> b = generator(0, "split", "webcam").integers(100, size=3)
    >>> bool((a == b).all())
    True
    """
    check_whole("seed", seed, least=0)
    entropy = [stream(name) if isinstance(name, str) else int(name) for name in (purpose, *names)]
    return np.random.default_rng(np.random.SeedSequence([int(seed), *entropy]))


def batch_order(seed: int, round_: int, client: int, n: int, steps: int, batch: int) -> NDArray[np.int32]:
    """Return which of its `n` samples `client` takes in each of the `steps` of a round, (steps * batch,).

    -1 fills up an epoch's last, short `batch`. The order depends on `seed`, `round_` (from 1 on) and `client` and on
    nothing else, so an engine that sees one client finds the same as one that sees all.

    Parameters
    ----------
    seed : seed of the run.
    round_ : number of the round, from 1 on.
    client : number of the client.
    n : number of its samples.
    steps : number of local steps.
    batch : samples of a step.

    Returns
    -------
    Indices of samples, (steps * batch,); -1 fills up short batches.

    >>> order = batch_order(0, 1, client=0, n=5, steps=3, batch=2)
    >>> sorted(order[:5].tolist()), int(order[5])  # five samples in three batches
    ([0, 1, 2, 3, 4], -1)
    """
    per_epoch = -(-n // batch)
    epochs = -(-steps // per_epoch)
    rng = generator(seed, "order", client, round_)
    order = np.full((epochs, per_epoch * batch), -1, np.int32)
    for epoch in order:
        epoch[:n] = rng.permutation(n)
    return order.reshape(-1)[: steps * batch]


def stream(name: str) -> int:
    """Return a stable number for a name (Python's own hash differs from process to process)."""
    return zlib.crc32(name.encode())


# Purposes of JAX's keys.
HEAD, TRAIN, PREPARE, AGGREGATE, VIEWS = map(stream, ("head", "train", "prepare", "aggregate", "views"))
