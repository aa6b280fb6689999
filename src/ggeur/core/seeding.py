"""Random streams known by name, so that no draw depends on order, batching or engine."""

import zlib

import numpy as np

from ggeur.core.validate import check_whole


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


def stream(name: str) -> int:
    """Return a stable number for a name (Python's own hash differs from process to process)."""
    return zlib.crc32(name.encode())


# Purposes of JAX's keys.
HEAD, TRAIN, PREPARE, AGGREGATE, VIEWS = map(stream, ("head", "train", "prepare", "aggregate", "views"))
