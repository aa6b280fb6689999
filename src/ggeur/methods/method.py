"""A federated method: a handful of pure functions, whose defaults are FedAvg's.

The engine vectorises them over clients, so each is written for one client (or, for `aggregate`, for one server).
`parts` has what the functions are given, and the signature of each.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params
from ggeur.methods import parts
from ggeur.methods.expected import widened
from ggeur.methods.parts import Batch, LossFunction, Released, Term
from ggeur.stats.errors import GgeurError
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
    """The parts in which a method differs from FedAvg; see `docs/howto/method.md` for how to write one.

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


_MUST = {
    "loss": "a pair, a single number and what it was given to carry",
    "init": "a pair, the server's state and a client's",
    "broadcast": 'a dictionary with the head under "params"',
    "upload": "a pair, the message and a client's state like that before",
    "aggregate": "a state like the server's before",
}


def _is_right(part: str, arguments: Any, returned: Any) -> bool:
    match part, returned:
        case "loss", (value, carried):
            return str(_forms(value)).endswith("[]") and _alike(carried, arguments[3])
        case "upload", (_, state):
            return _alike(state, arguments[0].context["client"])
        case "aggregate", state:
            return _alike(state, arguments[0])
        case ("init", (_, _)) | ("broadcast", {"params": _}):
            return True
    return False


def _alike(one: Any, other: Any) -> bool:
    return jax.tree.flatten(_forms(one)) == jax.tree.flatten(_forms(other))


def _forms(tree: Any) -> Any:
    """Return type and shape of every leaf of a `tree`, as text; the name of the type where JAX does not know it."""
    try:
        return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", jax.eval_shape(lambda: tree))
    except TypeError:
        return type(tree).__name__


@lru_cache(maxsize=64)  # one for each, as programs are kept by what builds their method
def checked_method(name: str, build: Callable[..., Any]) -> Callable[..., Any]:
    """Return `build`, which makes the method `name`, such that wrong returns of its functions raise a GgeurError."""

    def check(part: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            returned = function(*arguments)
            if not _is_right(part, arguments, returned):
                forms = str(_forms(returned)).replace("'", "")
                raise GgeurError(
                    f"The method '{name}': its {part} must return {_MUST[part]}, not {forms}.",
                    code="custom-method-return",
                )
            return returned

        if not callable(function):
            raise GgeurError(
                f"The method '{name}': its {part} must be a function, not {type(function).__name__}.",
                code="custom-method-part",
            )
        return call

    @wraps(build)
    def built(*head: Any, **given: Any) -> Any:
        method = build(*head, **given)
        if not isinstance(method, Method):
            return method
        return method._replace(**{part: check(part, getattr(method, part)) for part in _MUST})

    return built


def check_message(method: Method, sender: Literal["upload", "prepare"], message: parts.Parts) -> None:
    """Raise where the method does not say of each part of `message` how it adds up; `sender` is what made it.

    It is called while a program is traced, so once for each, and before anything is computed.
    """
    field = "adds" if sender == "upload" else "prepared_adds"
    adds: Mapping[str, str] = getattr(method, field)
    known = get_args(parts.Sum if sender == "upload" else parts.PreparedSum)
    if not isinstance(message, dict):
        raise GgeurError(
            f"The message that the method's {sender} returns must be a dictionary of its parts.",
            code="method-message-type",
        )
    if set(message) != set(adds):
        sent, named = (", ".join(map(repr, parts)) or "nothing" for parts in (message, adds))
        raise GgeurError(
            f"The method's {sender} sends {sent}, and its {field} names {named}: they must be the same.",
            code="method-declaration-mismatch",
        )
    for part, how in adds.items():
        if how not in known:
            raise GgeurError(
                f"The method's {field} says {how!r} of {part!r}; it may say {', '.join(known)}.",
                code="method-declaration-unknown",
            )
