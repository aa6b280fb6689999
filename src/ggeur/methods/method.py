"""A federated method: a handful of pure functions, whose defaults are FedAvg's.

The engine vectorises them over clients, so each is written for one client (or, for `aggregate`, for one server).
`parts` has what the functions are given, and the signature of each.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params
from ggeur.methods import parts
from ggeur.methods.expected import widened
from ggeur.methods.parts import Batch, LossFunction, Released, Term
from ggeur.stats.types import Tree


class MethodHead(NamedTuple):
    """The head of its own that a method trains, and the head as which it is scored and saved."""

    name: str
    """The name of a head in `ggeur.heads`: the result, without what it took to train it."""

    init: parts.InitHead
    """(key) -> what is trained."""

    shown: parts.Shown
    """(sent, frozen) -> the parameters of the head `name`."""

    frozen: Callable[[], Tree] = lambda: ()
    """() -> arrays that are neither trained nor sent, such as a text tower; functions find them in the context."""

    weights: Callable[[], str] = lambda: ""
    """() -> a hash of what is frozen: whoever goes on with a run, or takes part in it, must have the same."""

    heavy: bool = False
    """Whether a step is so expensive that every client has a compiled call of its own."""


class Method(NamedTuple):
    """The parts in which a method differs from FedAvg; see `docs/methods.md` for how to write one.

    >>> from ggeur.heads import resolve
    >>> head = resolve("linear")
    >>> fedavg = Method(loss=cross_entropy_loss(head))  # all else is FedAvg's
    >>> near = lambda params, batch, context: 0.05 * squared_distance(params, context["params"])
    >>> fedprox = Method(loss=add_term(head, near))  # stays near what the server sent
    >>> fedprox.adds
    {'params': 'weighted'}
    """

    loss: LossFunction
    """(params, batch, context, carry, key) -> loss, carry: minimised by the local steps."""

    prepare: parts.Prepare = lambda data, key: {}
    """(data, key) -> message, once, before round 1."""

    prepared_adds: Mapping[str, parts.PreparedSum] = {}
    """How each part of what `prepare` returns adds up over the clients."""

    init: parts.Init = lambda params, prepared, n_clients: ({"params": params}, ())
    """(params, prepared, n_clients) -> the server's state, and the state every client starts with."""

    broadcast: parts.Broadcast = lambda server: server
    """(server) -> sent; sent["params"] is what is evaluated and where local training starts."""

    begin: parts.Begin = lambda context: ()
    """(context) -> carry: what the loss carries from step to step, at the first step of a round."""

    upload: parts.Upload = lambda work: ({"params": work.end}, work.context["client"])
    """(work) -> message, the client's new state."""

    adds: Mapping[str, parts.Sum] = {"params": "weighted"}
    """How each part of the message adds up over a round's participants."""

    aggregate: parts.Aggregate = lambda server, total, facts: {**server, "params": total["params"]}
    """(server, total, facts) -> server, from the messages as they add up."""

    constant: tuple[str, ...] = ()
    """The parts of `sent` that never change and so travel once: the means of FedMix, say."""

    optimiser: parts.MakeOptimiser | None = None
    """(learning_rate) -> the local optimiser, where a method may not use [train]'s."""

    recall: parts.Recall = lambda memory, context: memory
    """(memory, context) -> the optimiser's memory at the first step of a round, where it is not a fresh one."""

    head: MethodHead | None = None
    """What is trained, where it is not [train] head."""

    @property
    def prepares(self) -> bool:
        """Return whether clients send anything before round 1."""
        return self.prepare is not Method._field_defaults["prepare"]


def weighted_mean(trees: Tree, weights: jax.Array) -> Tree:
    """sum_k w_k x_k over axis 0 of every leaf of `trees`, stacked x_k; `weights` (|S|,) are the w_k."""
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, axes=1), trees)


def uniform_mean(trees: Tree) -> Tree:
    """sum_k x_k / |S| over axis 0 of every leaf of `trees`, stacked x_k."""
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), trees)


def inner(a: Tree, b: Tree) -> jax.Array:
    """<a, b> over all leaves of two trees that are built alike."""
    return sum(jax.tree.leaves(jax.tree.map(jnp.vdot, a, b)), start=jnp.zeros(()))


def squared_distance(a: Tree, b: Tree) -> jax.Array:
    """||a - b||^2 over all leaves of two trees that are built alike."""
    d = jax.tree.map(jnp.subtract, a, b)
    return inner(d, d)


def row_mean(each: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean of `each` (B,) over the real samples of a batch, where `mask` (B,) is 1."""
    return jnp.sum(each * mask) / jnp.maximum(jnp.sum(mask), 1)


def cross_entropy(logits: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean over the real samples of a batch, where `mask` (B,) is 1, of `logits` (B, C) against labels `y` (B,).

    One-hot labels compile far better than a gather, and reductions over a leading axis better than over a trailing one.
    """
    z = logits.T
    hit = jnp.sum(z * jax.nn.one_hot(y, len(z), dtype=z.dtype, axis=0), axis=0)
    return row_mean(jax.nn.logsumexp(z, axis=0) - hit, mask)


def batch_cross_entropy(head: Head, params: Params, batch: Batch) -> jax.Array:
    """Return the mean cross-entropy of `head` on a `batch`; for samples that stand for draws, a bound of it."""
    return cross_entropy(widened(head.logits(params, batch.x), params, batch), batch.y, batch.mask)


def cross_entropy_loss(head: Head) -> LossFunction:
    """The mean cross-entropy of `head`: FedAvg's local objective, and the first term of most others'."""

    def loss(params: Params, batch: Batch, context: Released, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        return batch_cross_entropy(head, params, batch), carry

    return loss


def add_term(head: Head, term: Term) -> LossFunction:
    """The cross-entropy of `head`, plus `term(params, batch, context)`."""

    def loss(params: Params, batch: Batch, context: Released, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        return batch_cross_entropy(head, params, batch) + term(params, batch, context), carry

    return loss
