"""The two bounds of every table: each client alone, and all data in one place."""

import jax
import numpy as np

from ggeur.core.augmented_sets import AugmentedSet
from ggeur.engine.stack import Run


def local_runs(run: Run) -> list[Run]:
    """One federation per client that has samples, in which it is alone; their accuracies are averaged."""
    clients = [(k, s, jax.tree.map(lambda a, k=k: a[k : k + 1], run.own_params)) for k, s in enumerate(run.sets)]
    return [
        run._replace(sets=[s], weights=np.ones(1), own_params=own, ids=np.array([k]))
        for k, s, own in clients
        if len(s.y)
    ]


def central_run(run: Run) -> Run:
    """One client that holds the samples of all."""
    originals = np.concatenate([np.arange(len(s.y)) < s.originals for s in run.sets])
    order = np.argsort(~originals, kind="stable")  # originals first, as in any set
    sample, noise, y = (np.concatenate([s[i] for s in run.sets])[order] for i in range(3))
    whole = AugmentedSet(sample, noise, y, originals=int(originals.sum()))
    own = jax.tree.map(lambda heads: heads[:1], run.own_params)
    return run._replace(sets=[whole], weights=np.ones(1), own_params=own)
