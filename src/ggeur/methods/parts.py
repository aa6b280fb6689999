"""The arguments of a method's functions, and the signature of each function.

`sent` and `context` are dictionaries: what the server sends, and that plus the client's own state under "client", what
it holds under "data", and what the method has "frozen".
Arguments are by position, so that a method may call them as its paper does.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import jax
import optax

from ggeur.heads.head import Params
from ggeur.stats.geometry import LowRank
from ggeur.stats.types import Tree

Released = dict[str, Tree]
Parts = dict[str, Tree]  # a message, by the names of its parts

Sum = Literal["weighted", "equal", "sum", "every"]
"""How a part of the clients' messages x_k adds up over a round's participants S.

weighted: sum_k w_k x_k, where the weights sum to 1. equal: sum_k x_k / |S|. sum: sum_k x_k.
every: not at all; the server needs each client's, stacked on axis 0.
"""

PreparedSum = Literal["sum", "every"]
"""The same before round 1, over all clients: one that has no samples counts as zeros."""


class Batch(NamedTuple):
    """Samples of one step; a short last batch is filled up, and `mask` is 0 on the filling."""

    x: jax.Array  # (B, p)
    y: jax.Array  # (B,)
    mask: jax.Array  # (B,)
    drawn: jax.Array | None = None  # (B,) 1 on samples that stand for draws around them, where none are made
    shapes: LowRank | None = None  # of those draws


class ClientData(NamedTuple):
    """All that a client holds, read batch by batch."""

    n: jax.Array  # samples
    width: int  # number of samples as padded: a bound on n that is known when compiling
    class_count: jax.Array  # (C,)
    take: Callable[[jax.Array], Batch]  # positions -> samples; masked out from n on
    fold: Callable[[Callable[[Tree, Batch], Tree], Tree], Tree]  # (f, start) -> f over all batches of its samples


class LocalWork(NamedTuple):
    """A client's round, once its local steps are done."""

    start: Params  # the head before the first step
    end: Params  # the head after the last
    data: ClientData  # what it was trained on
    context: Released  # what the server sent, and under "client" the state that the client began with
    carry: Tree  # what the loss carried, after the last step
    steps: jax.Array  # how many local steps were taken
    learning_rate: jax.Array  # [train] learning_rate, of those steps
    key: jax.Array  # random, of this client and round
    memory: Tree = ()  # the optimiser's, after the last step


class RoundFacts(NamedTuple):
    """The facts of a round beside its messages; "every" stacks those in the order of `ids`."""

    participants: int  # |S|, known when compiling
    ids: jax.Array  # (|S|,) the clients' numbers
    weights: jax.Array  # (|S|,) by [train] weights; they sum to 1
    key: jax.Array  # random, of this round


class LossFunction(Protocol):
    """The loss that the local steps minimise."""

    def __call__(
        self, params: Params, batch: Batch, context: Released, carry: Tree, key: jax.Array, /
    ) -> tuple[jax.Array, Tree]:
        """The loss of `params` on one `batch`, and what is carried to the next step; `key` is random, of this step."""


class Term(Protocol):
    """The term that a method adds to the cross-entropy."""

    def __call__(self, params: Params, batch: Batch, context: Released, /) -> jax.Array:
        """The term at `params` on one `batch`."""


class Prepare(Protocol):
    """The message that a client sends once, before round 1."""

    def __call__(self, data: ClientData, key: jax.Array, /) -> Parts:
        """The message of a client that holds `data`; `key` is random, of this client."""


class Init(Protocol):
    """The start of a run."""

    def __call__(self, params: Params, prepared: Parts, n_clients: int, /) -> tuple[Tree, Tree]:
        """The server's state, and the state that every client starts with.

        `params` is the first head, `prepared` what `prepare` sent, added up as `prepared_adds` says, and `n_clients`
        how many clients have samples.
        """


class Broadcast(Protocol):
    """The server's broadcast at the start of a round."""

    def __call__(self, server: Tree, /) -> Released:
        """Return what is sent of the `server`'s state; its "params" are evaluated, and local training starts there."""


class Begin(Protocol):
    """The carry of the loss from step to step."""

    def __call__(self, context: Released, /) -> Tree:
        """The carry at the first step of a round."""


class MakeOptimiser(Protocol):
    """The local optimiser of a method that may not use [train]'s."""

    def __call__(self, learning_rate: jax.Array, /) -> optax.GradientTransformation:
        """The optimiser with [train] `learning_rate`."""


class Recall(Protocol):
    """The memory of a client's optimiser from round to round."""

    def __call__(self, memory: Tree, context: Released, /) -> Tree:
        """Its memory at the first step of a round; `memory` is a fresh one."""


class InitHead(Protocol):
    """The start of what a method trains, if that is not [train] head."""

    def __call__(self, key: jax.Array, /) -> Params:
        """Random by the `key`, which is the seed's, or a client's."""


class Shown(Protocol):
    """The head that a method with a head of its own comes to."""

    def __call__(self, sent: Released, frozen: Tree, /) -> Params:
        """Return the head that is scored and saved, from what the server sends and what is frozen."""


class Upload(Protocol):
    """The message that a client sends at the end of a round."""

    def __call__(self, work: LocalWork, /) -> tuple[Parts, Tree]:
        """The message, each part of which `adds` names, and the client's new state."""


class Aggregate(Protocol):
    """The server's update at the end of a round."""

    def __call__(self, server: Tree, total: Parts, facts: RoundFacts, /) -> Tree:
        """The `server`'s new state.

        `total` holds the parts of the messages, added up as `adds` says, and `facts` who took part.
        """
