"""A federated method is a handful of pure functions; the defaults are FedAvg's.

The engine vectorises them over clients, so each is written for one client (or, for `aggregate`, for one server).
`sent` and `context` are dictionaries: what the server sends, and that plus the client's own state under "client".
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from ggeur.core.types import Tree
from ggeur.heads.head import Head, Params

Sent = dict[str, Tree]


class Batch(NamedTuple):
    """Rows of one step; a short last batch is filled up, and `mask` is 0 on the filling."""

    x: jax.Array  # (B, p)
    y: jax.Array  # (B,)
    mask: jax.Array  # (B,)


class ClientData(NamedTuple):
    """All that a client holds, without holding it at once."""

    n: jax.Array  # rows
    width: int  # rows as padded: a bound on n that is known when compiling
    class_count: jax.Array  # (C,)
    take: Callable[[jax.Array], Batch]  # positions -> rows; masked out from n on
    fold: Callable[[Callable[[Tree, Batch], Tree], Tree], Tree]  # (f, start) -> f over all batches of its rows


Loss = Callable[[Params, Batch, Sent, Tree, jax.Array], tuple[jax.Array, Tree]]


class Method(NamedTuple):
    """What distinguishes a method from FedAvg; see `docs/methods.md` for how to write one."""

    loss: Loss
    """(params, batch, context, carry, key) -> loss, carry: minimised by the local steps."""

    prepare: Callable[[ClientData, jax.Array], Tree] = lambda data, key: ()
    """(data, key) -> message, once, before round 1; the messages of all clients reach `init`, stacked."""

    init: Callable[[Params, Tree, int], tuple[Tree, Tree]] = lambda params, prepared, n_clients: (
        {"params": params},
        (),
    )
    """(params, prepared, n_clients) -> the server's state, and the state every client starts with."""

    broadcast: Callable[[Tree], Sent] = lambda server: server
    """(server) -> sent; sent["params"] is what is evaluated and where local training starts."""

    begin: Callable[[Sent], Tree] = lambda context: ()
    """(context) -> carry: what the loss carries from step to step, at the first step of a round."""

    upload: Callable[..., tuple[Tree, Tree]] = lambda start, end, data, context, carry, steps, rate, key: (
        {"params": end},
        context["client"],
    )
    """(start, end, data, context, carry, steps, rate, key) -> message, the client's new state."""

    aggregate: Callable[[Tree, Tree, jax.Array, jax.Array, jax.Array], Tree] = (
        lambda server, messages, ids, weights, key: {
            **server,
            "params": weighted_mean(messages["params"], weights),
        }
    )
    """(server, messages, ids, weights, key) -> server; messages stacked on axis 0, weights sum to 1."""

    constant: tuple[str, ...] = ()
    """What of `sent` never changes, and so travels once: the means of FedMix, say."""

    optimiser: Callable[[jax.Array], optax.GradientTransformation] | None = None
    """(rate) -> the local optimiser, where a method may not use [train]'s."""

    @property
    def prepares(self) -> bool:
        """Whether clients send anything before round 1."""
        return self.prepare is not Method._field_defaults["prepare"]


def weighted_mean(trees: Tree, weights: jax.Array) -> Tree:
    """sum_k w_k x_k over axis 0 of every leaf."""
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, axes=1), trees)


def uniform_mean(trees: Tree) -> Tree:
    """The plain mean over axis 0 of every leaf."""
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), trees)


def inner(a: Tree, b: Tree) -> jax.Array:
    """<a, b> over all leaves."""
    return sum(jax.tree.leaves(jax.tree.map(jnp.vdot, a, b)), start=jnp.zeros(()))


def squared_distance(a: Tree, b: Tree) -> jax.Array:
    """||a - b||^2 over all leaves."""
    d = jax.tree.map(jnp.subtract, a, b)
    return inner(d, d)


def row_mean(each: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean over the real rows of a batch."""
    return jnp.sum(each * mask) / jnp.maximum(jnp.sum(mask), 1)


def cross_entropy(logits: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean over the real rows of a batch.

    One-hot labels compile far better than a gather, and reductions over a leading axis better than over a trailing one.
    """
    z = logits.T
    hit = jnp.sum(z * jax.nn.one_hot(y, len(z), dtype=z.dtype, axis=0), axis=0)
    return row_mean(jax.nn.logsumexp(z, axis=0) - hit, mask)


def cross_entropy_loss(head: Head) -> Loss:
    """FedAvg's local objective, and the first term of most others'."""

    def loss(params: Params, batch: Batch, context: Sent, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        return cross_entropy(head.logits(params, batch.x), batch.y, batch.mask), carry

    return loss


def add_term(head: Head, term: Callable[[Params, Batch, Sent], jax.Array]) -> Loss:
    """Cross-entropy plus `term(params, batch, context)`."""

    def loss(params: Params, batch: Batch, context: Sent, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        plain = cross_entropy(head.logits(params, batch.x), batch.y, batch.mask)
        return plain + term(params, batch, context), carry

    return loss
