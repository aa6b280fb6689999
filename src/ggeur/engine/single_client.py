"""One client of a federation alone, and the server's part, by the compiled functions that the simulation runs.

Where clients are machines of their own, all that they compute goes through here; a test holds it to the simulation.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ggeur.engine.aggregation import aggregation, frozen
from ggeur.engine.local import ClientBatch, local_training, power_of_two, preparation
from ggeur.engine.training import Training
from ggeur.methods.algorithm import Iterative
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.geometry import LowRank
from ggeur.stats.seeding import AGGREGATE, PREPARE, TRAIN, batch_order
from ggeur.stats.types import Tree


class SingleClient(NamedTuple):
    """The data one client trains on."""

    seed: int
    client: int
    base: NDArray[Any]  # own samples, then prototypes
    bank: NDArray[np.float32] | None
    set: AugmentedSet
    n_classes: int
    shapes: LowRank | None = None  # of draws whose expected loss takes their place


class ClientAnswer(NamedTuple):
    """The result of a client's round."""

    message: Tree
    state: Tree
    end: Tree  # the head as this client left it
    loss: float


def train_client(
    data: SingleClient, trained: Iterative, training: Training, number: int, start: Tree, sent: Tree, state: Tree
) -> ClientAnswer:
    """The client's part of round `number`, trained as `trained` and `training` say.

    It starts at the head `start`, with what the server `sent` and the client's own `state`.
    """
    n = len(data.set.y)
    steps, batch = training.steps(n), training.batch_size
    order = np.full((1, power_of_two(steps) * batch), -1, np.int32)
    order[0, : steps * batch] = batch_order(data.seed, number, data.client, n, steps, batch)
    run = local_training(trained.recipe, training.optimiser.kind, batch, one_server=True, one_start=True)
    out = run(
        jnp.asarray(data.base),
        None if data.bank is None else jnp.asarray(data.bank),
        jax.tree.map(jnp.asarray, data.shapes),
        frozen(trained),
        _client_batch(data),
        order,
        np.array([steps], np.int32),
        np.int32(steps),
        start,
        sent,
        jax.tree.map(lambda a: np.asarray(a)[None], state),
        _names(data.seed, TRAIN, number, data.client),
        _numbers(training.numbers(trained)),
    )
    message, new, end, losses = jax.tree.map(lambda a: np.asarray(a)[0], out)
    return ClientAnswer(message, new, end, float(losses))


def prepare_client(data: SingleClient, trained: Iterative, batch: int) -> Tree:
    """The client's message before round 1, its samples taken in batches of `batch`; () where the method has none."""
    if not trained.method.prepares:
        return ()
    bank = None if data.bank is None else jnp.asarray(data.bank)
    names = _names(data.seed, PREPARE, 0, data.client)
    out = preparation(trained.recipe, batch)(jnp.asarray(data.base), bank, _client_batch(data), names, _of_one(trained))
    return jax.tree.map(lambda a: np.asarray(a)[0], out)


def aggregate(trained: Iterative, server: Tree, messages: list[Tree], ids: list[int], weights: Any, names: Any) -> Tree:
    """The server's part of a round, from its state `server` and the `messages` of the clients `ids`, in their order.

    `weights` are the clients', of any sum; `names` are seed and round.
    """
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *messages)
    return _aggregate(trained, server, stacked, ids, weights, names, added=False)


def aggregate_total(trained: Iterative, server: Tree, total: Tree, ids: list[int], weights: Any, names: Any) -> Tree:
    """The same from what the messages come to, part by part as the method adds them up."""
    return _aggregate(trained, server, total, ids, weights, names, added=True)


def _aggregate(
    trained: Iterative, server: Tree, messages: Tree, ids: list[int], weights: Any, names: Any, *, added: bool
) -> Tree:
    seed, number = names
    key_names = np.array([seed, AGGREGATE, number], np.uint32)
    weights = np.asarray(weights, np.float64)
    share = jnp.asarray(weights / weights.sum(), jnp.float32)
    numbers = _numbers(dict(trained.numbers))
    return aggregation(trained.recipe, added=added)(server, messages, np.array(ids), share, key_names, numbers)


def message_like(
    trained: Iterative, training: Training, p: int, n_classes: int, sent: Tree, start: Tree, state: Tree
) -> Tree:
    """Return arrays that look like a client's message, found without computing anything.

    The client has samples of `p` dimensions and `n_classes` labels, and is given `sent`, `start` and `state` as in
    `train`.
    """
    data = _tiny(p, n_classes)

    def message(start: Tree, sent: Tree, state: Tree) -> Tree:
        batch = training.batch_size
        run = local_training(trained.recipe, training.optimiser.kind, batch, one_server=True, one_start=True)
        stacked = jax.tree.map(lambda a: jnp.asarray(a)[None], state)
        one, order = np.ones(1, np.int32), np.zeros((1, batch), np.int32)
        names, numbers = _names(0, TRAIN, 1, 0), _numbers(training.numbers(trained))
        rest = one, np.int32(1), start, sent, stacked, names, numbers
        return run(data.base, None, None, frozen(trained), _client_batch(data), order, *rest)[0]

    stacked = jax.eval_shape(message, start, sent, state)
    return jax.tree.map(lambda leaf: np.empty(leaf.shape[1:], leaf.dtype), stacked)


def zero_preparation(trained: Iterative, batch: int, p: int, n_classes: int) -> Tree:
    """Return what stands for the first message of a client without samples, as `prepare` would make it.

    Samples would have `p` dimensions, and labels be below `n_classes`.
    """
    if not trained.method.prepares:
        return ()
    shapes = _preparation_shape(trained, batch, p, n_classes)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), shapes)


def _preparation_shape(trained: Iterative, batch: int, p: int, n_classes: int) -> Tree:
    data, names = _tiny(p, n_classes), _names(0, PREPARE, 0, 0)
    run, numbers = preparation(trained.recipe, batch), _of_one(trained)
    return jax.eval_shape(lambda base: run(base, None, _client_batch(data), names, numbers), data.base)


def _tiny(p: int, n_classes: int) -> SingleClient:
    one = np.zeros(1, np.int32)
    return SingleClient(0, 0, np.zeros((1, p), np.float32), None, AugmentedSet(one, one, one, 1), n_classes)


def _client_batch(data: SingleClient) -> ClientBatch:
    return ClientBatch.of([data.set], power_of_two(len(data.set.y)), data.n_classes)


def _names(seed: int, purpose: int, number: int, client: int) -> NDArray[np.uint32]:
    return np.array([[seed, purpose, number, client]], np.uint32)


def _numbers(tree: Tree) -> Tree:
    return jax.tree.map(lambda number: jnp.asarray(number, jnp.float32), tree)


def _of_one(trained: Iterative) -> Tree:
    """The method's numbers, stacked over one client."""
    return jax.tree.map(lambda number: number[None], _numbers(dict(trained.numbers)))
