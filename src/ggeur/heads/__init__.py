"""The registry of heads: every name that [train] head knows, what may stand under [head.NAME], and how it is built.

`resolve("mlp", hidden=64)`, or a user's own "package.module:name": a function (*, parameters) that returns a `Head`.
`softmax` is a key of [train], and no parameter; a user's function may take it as a keyword.
"""

import importlib
import inspect
from collections.abc import Callable, Hashable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

from ggeur.core.errors import GgeurError
from ggeur.core.names import build_own, is_own, load_own
from ggeur.core.parameters import checked

if TYPE_CHECKING:
    from ggeur.heads.head import Head

HEADS = ("linear", "mlp")  # each a function of that name in the module of that name
CHOICE = f"{', '.join(HEADS)}, or your own as package.module:name"
_SOFTMAX = "softmax"
_built: "dict[Hashable, Head]" = {}


def known(name: object) -> bool:
    """Whether `name` is one of ours, or has the form of a user's own; nothing is imported."""
    return isinstance(name, str) and (name in HEADS or is_own(name))


def factory(name: str) -> Callable[..., Any]:
    """The function that builds the head `name`: (*, parameters) -> Head."""
    if not known(name):
        raise GgeurError(f"There is no head '{name}'; there are {CHOICE}.")
    if is_own(name):
        return load_own(name, "head")
    found: Callable[..., Any] = getattr(importlib.import_module(f"ggeur.heads.{name}"), name)
    return found


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """What may stand under [head.NAME]: the keywords of its function but `softmax`."""
    declared = inspect.signature(factory(name), eval_str=True).parameters.values()
    return {p.name: p for p in declared if p.kind is p.KEYWORD_ONLY and p.name != _SOFTMAX}


def checked_parameters(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` converted to the types that the head `name` declares; unknown names and values are errors."""
    declared = parameters(name)

    def build(**values: Any) -> None: ...

    build.__signature__ = inspect.Signature(list(declared.values()))  # type: ignore[attr-defined]  # without softmax
    return checked(build, given, f"head.{name}")


def described(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a saved model says of the head `name`: what was `given`, and defaults that are plain values.

    Defaults too, so that a model stays what it is when a function's default becomes another.
    """
    plain = {key: p.default for key, p in parameters(name).items() if isinstance(p.default, bool | int | float | str)}
    return plain | dict(given)


def arguments(name: str, given: Mapping[str, Any], *, softmax: bool = False) -> dict[str, Any]:
    """What the function of the head `name` is called with: `given`, checked, over its defaults, and `softmax`."""
    defaults = {key: p.default for key, p in parameters(name).items() if p.default is not p.empty}
    values = defaults | checked_parameters(name, given)
    if _SOFTMAX in inspect.signature(factory(name)).parameters:
        return values | {_SOFTMAX: softmax}
    if softmax:
        raise GgeurError(f"[train] softmax = true is not for the head '{name}': its function has no keyword softmax.")
    return values


def resolve(name: str, /, *, softmax: bool = False, **given: Any) -> "Head":
    """The head `name` with the parameters `given`; with `softmax`, probabilities take the place of logits.

    The same arguments give the same object, so that nothing is compiled twice.
    """
    build, values = factory(name), arguments(name, given, softmax=softmax)
    try:
        key = build, _key(values)
        if key in _built:
            return _built[key]
    except TypeError:  # a parameter that cannot be a key: a head for itself
        return _checked(name, build, values)
    return _built.setdefault(key, _checked(name, build, values))


def _checked(name: str, build: Callable[..., Any], values: Mapping[str, Any]) -> "Head":
    from ggeur.heads.head import Head

    found = build_own(name, "head", lambda: build(**values)) if is_own(name) else build(**values)
    if not isinstance(found, Head):
        raise GgeurError(f"'{name}' is not a head: called with its parameters it must return a ggeur Head.")
    return Head(*(_or_say_whose(name, part) for part in found)) if is_own(name) else found


def _or_say_whose(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """What goes wrong in a function of a user's own head is said in a sentence that names it."""

    @wraps(function)
    def call(*given: Any) -> Any:
        try:
            return function(*given)
        except GgeurError:
            raise
        except Exception as error:
            first = (str(error).splitlines() or [""])[0].rstrip(".")
            raise GgeurError(f"The head '{name}' failed: {type(error).__name__}: {first}.") from error

    return call


def _key(value: Any) -> Hashable:
    """Equal for equal values of equal types, lists and dictionaries among them; 1, 1.0 and true are three values."""
    if isinstance(value, Mapping):
        return dict, tuple((name, _key(value[name])) for name in sorted(value))
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_key, value))
    return type(value), value
