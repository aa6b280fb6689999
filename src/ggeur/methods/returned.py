"""Check what the functions of a custom method return while a program is traced, before JAX fails on it."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import jax

from ggeur.methods.method import Method
from ggeur.stats.errors import GgeurError

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
