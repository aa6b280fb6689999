"""Small federations with ragged clients, one of them empty."""

import jax
import numpy as np
import pytest

from ggeur.engine.stack import Run
from ggeur.stats.augmented_sets import AugmentedSet

SIZES = (20, 5, 0, 27, 17, 30)
P, CLASSES = 4, 3
TABLE = np.random.default_rng(0).normal(size=(sum(SIZES) + 10, P)).astype(np.float32)  # one object: stacks share it
LABELS = (TABLE @ np.random.default_rng(1).normal(size=(P, CLASSES))).argmax(axis=1)


def make_run(seed=0, *, sizes=SIZES, weights=None, noise=False, own=False):
    """Clients that hold consecutive samples of the one table; with `noise`, each also draws around samples and
    prototypes.
    """
    rng = np.random.default_rng(100 + seed)
    prototypes = rng.normal(size=(2 if noise else 0, P)).astype(np.float32)
    bank = np.concatenate([np.zeros((1, P)), rng.normal(size=(15, P))]).astype(np.float32) if noise else None
    sets, at = [], 0
    for n in sizes:
        samples = np.arange(at, at + n)
        at += n
        extra = (n // 2) * noise
        centre = rng.choice(np.append(samples, [len(TABLE), len(TABLE) + 1]), extra) if extra else np.zeros(0, int)
        label = np.append(LABELS, [0, 1])[centre]
        signed = rng.integers(1, 16, extra) * rng.choice([-1, 1], extra)
        sets.append(
            AugmentedSet(
                np.append(samples, centre).astype(np.int32),
                np.append(np.zeros(n), signed).astype(np.int32),
                np.append(LABELS[samples], label).astype(np.int32),
                n,
            )
        )
    heads = {"W": rng.normal(size=(len(sizes), CLASSES, P)), "b": rng.normal(size=(len(sizes), CLASSES))}
    heads = {name: (0.3 * leaf).astype(np.float32) for name, leaf in heads.items()}
    return Run(
        seed=seed,
        table=TABLE,
        prototypes=prototypes,
        bank=bank,
        sets=sets,
        weights=np.array([len(s.y) for s in sets] if weights is None else weights, np.float64),
        params=jax.tree.map(lambda leaf: leaf[0], heads),
        n_classes=CLASSES,
        client_params=heads if own else (),
    )


@pytest.fixture(scope="session")
def federation():
    """The builder: federation(seed, sizes=, weights=, noise=, own=) -> Run."""
    return make_run
