"""What the functions of a user's own method return, looked at while a program is traced.

JAX would say it too, in words about scans and pytrees; here it is a sentence that names the function.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import jax
import jax.numpy as jnp

from ggeur.core.errors import GgeurError
from ggeur.methods.method import Method

_FUNCTIONS = ("loss", "prepare", "init", "broadcast", "begin", "upload", "aggregate")


@lru_cache(maxsize=64)  # one for each, as programs are kept by what builds their method
def looked_at(name: str, build: Callable[..., Any]) -> Callable[..., Any]:
    """`build`, which makes the method `name`; its functions raise a GgeurError where they return what will not do."""

    def wrong(part: str, must: str, returned: Any) -> GgeurError:
        return GgeurError(f"The method '{name}': its {part} must return {must}, not {_described(returned)}.")

    def pair(part: str, must: str, returned: Any) -> tuple[Any, Any]:
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise wrong(part, must, returned)
        return returned

    @wraps(build)
    def built(*head: Any, **given: Any) -> Any:
        own = build(*head, **given)
        if not isinstance(own, Method):
            return own
        for part in _FUNCTIONS:
            if not callable(getattr(own, part)):
                raise GgeurError(
                    f"The method '{name}': its {part} must be a function, not {_described(getattr(own, part))}."
                )

        def loss(params: Any, batch: Any, context: Any, carry: Any, key: Any) -> tuple[Any, Any]:
            value, carried = pair(
                "loss", "a pair, the loss and what it carries", own.loss(params, batch, context, carry, key)
            )
            if isinstance(value, dict | list | tuple | None) or jnp.shape(value) != ():
                raise wrong("loss", "a single number first", value)
            if _forms(carried) != _forms(carry):
                raise wrong("loss", f"what it was given to carry, {_described(carry)}", carried)
            return value, carried

        def init(params: Any, prepared: Any, n_clients: int) -> tuple[Any, Any]:
            return pair("init", "a pair, the server's state and a client's", own.init(params, prepared, n_clients))

        def broadcast(server: Any) -> dict[str, Any]:
            sent = own.broadcast(server)
            if not isinstance(sent, dict) or "params" not in sent:
                raise wrong("broadcast", 'a dictionary with the head under "params"', sent)
            return sent

        def upload(work: Any) -> tuple[Any, Any]:
            message, state = pair("upload", "a pair, the message and the client's state", own.upload(work))
            if _forms(state) != _forms(work.context["client"]):
                raise wrong("upload", f"a client's state like that before, {_described(work.context['client'])}", state)
            return message, state

        def aggregate(server: Any, total: Any, facts: Any) -> Any:
            state = own.aggregate(server, total, facts)
            if _forms(state) != _forms(server):
                raise wrong("aggregate", f"a state like that before, {_described(server)}", state)
            return state

        return own._replace(loss=loss, init=init, broadcast=broadcast, upload=upload, aggregate=aggregate)

    return built


def _forms(tree: Any) -> Any:
    """How a tree is built and what its leaves are; None where a leaf is nothing that JAX knows."""
    try:
        leaves, structure = jax.tree.flatten(tree)
        return structure, [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]
    except TypeError:
        return None


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_described(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_described, value))})"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    return type(value).__name__
