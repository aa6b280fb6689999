"""Where rounds start from: the first head, random or solved, and how much each client weighs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ggeur.heads.head import Head, Params
from ggeur.heads.linear import torch_linear
from ggeur.heads.parameter_tree import by_path, mapped
from ggeur.methods.algorithm import ClosedForm, Iterative, Task
from ggeur.stats.custom import blaming, is_custom
from ggeur.stats.errors import GgeurError
from ggeur.stats.seeding import HEAD, stream
from ggeur.stats.site_statistics import FederationStatistics
from ggeur.stats.types import Float

if TYPE_CHECKING:
    import jax


def random_head(
    head: Head, task: Task, seed: int, client: int | None = None, trained: Iterative | None = None
) -> Params:
    """The head that training starts from: the server's, shared by all arms of a seed, or one client's own.

    Of a method `trained` that has a head of its own, that.
    """
    key = _head_key(seed)
    if client is not None:
        import jax

        key = jax.random.fold_in(key, client)
    own = None if trained is None else trained.method.head
    found = head.init(key, task.dimension, len(task.class_names)) if own is None else own.init(key)
    return mapped(np.asarray, found)


def _head_key(seed: int) -> jax.Array:
    import jax

    return jax.random.fold_in(jax.random.key(seed), HEAD)


def first_head(dimension: int, n_classes: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the weights (C, p) and intercepts (C,) that all clients of a run begin to train, as `ggeur.run` has them.

    It is a linear layer for embeddings of `dimension` p and `n_classes` C, initialised as torch does, by `seed`.

    Parameters
    ----------
    dimension : number of dimensions p.
    n_classes : number of classes C.
    seed : what decides the numbers.

    Returns
    -------
    Weights (C, p) and intercepts (C,), float32.

    >>> w, b = first_head(4, 3)
    >>> w.shape, b.shape, bool((abs(w) <= 0.5).all())
    ((3, 4), (3,), True)
    """
    w, b = torch_linear(_head_key(seed), dimension, n_classes)
    return np.asarray(w), np.asarray(b)


def one_shot_head(solved: ClosedForm, name: str, total: FederationStatistics, task: Task, seed: int) -> Params:
    """The head that `solved`, which goes by `name`, makes of the total; it draws by seed and name."""
    with blaming(name, "method"):
        params = solved.solve(total, replace(task, draws=(seed, stream(name))))
    expected = {"W": (len(task.class_names), task.dimension), "b": (len(task.class_names),)}
    shapes = {path: np.shape(leaf) for path, leaf in by_path(params).items()}
    if is_custom(name) and solved.head == "linear" and shapes != expected:
        raise GgeurError(
            f"The method '{name}' must solve for a linear head of the shapes {expected}.", code="method-head-shape"
        )
    if solved.head == "linear":  # its intercept in float64, which samples far from zero need
        params = {"W": np.asarray(params["W"]), "b": np.asarray(params["b"], np.float64)}
    return params


def to_train(params: Params) -> Params:
    """A one-shot classifier as training starts from it: in float32, its intercept too."""
    return mapped(lambda leaf: np.asarray(leaf, np.float32), params)


def client_weights(samples: Sequence[int], originals: Sequence[int], kind: str) -> Float:
    """A client's weight in the mean: the samples it trains on, its original samples, or one."""
    weights: dict[str, Any] = {"samples": samples, "original": originals, "equal": np.ones(len(samples))}
    return np.asarray(weights[kind], np.float64)
