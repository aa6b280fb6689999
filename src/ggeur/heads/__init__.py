"""The registry of heads: every name that [train] head knows, what may stand under [head.NAME], and how it is built.

`resolve("mlp", hidden=64)`, or a user's own "package.module:name": a function (*, parameters) that returns a `Head`.
`softmax` is a key of [train], and no parameter; a user's function may take it as a keyword.
"""

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ggeur.stats.custom import blaming, build_custom, load_custom
from ggeur.stats.errors import GgeurError
from ggeur.stats.hyperparameters import checked, declared_parameters

if TYPE_CHECKING:
    from ggeur.heads.head import Head

IMAGES = ("simplecnn", "resnet10", "resnet18", "resnet34")  # networks on pictures, in the module `images`
HEADS = ("linear", "mlp", *IMAGES)  # what can be trained; each of the others is in the module of its name
_SOLVED = (
    "mixture",
    "blend",
    "kernel",
    "lookup",
    "cosine",
    "adapter",
)  # heads of one-shot classifiers, or of methods with a head of their own
OF_TRAIN = {"mlp": ("hidden",)}  # parameters of a head that [train] may give as well
_BUILT: "dict[tuple[Callable[..., Any], str], Head]" = {}


def factory(name: str) -> Callable[..., Any]:
    """Return the function that builds the head `name`: (*, parameters) -> Head."""
    if name not in (*HEADS, *_SOLVED):
        return load_custom(name, "head", HEADS)
    found: Callable[..., Any] = getattr(_module(name), name)
    return found


def _module(name: str) -> Any:
    return importlib.import_module(f"ggeur.heads.{'images' if name in IMAGES else name}")


def sizes(name: str, params: Any) -> dict[str, Any]:
    """Return the parameters of our head `name` with these `params`, as far as they are sizes of its arrays."""
    if name not in (*HEADS, *_SOLVED):
        return {}
    found: dict[str, Any] = getattr(_module(name), "sizes", lambda params: {})(params)
    return found


def arguments(name: str, given: Mapping[str, Any], *, softmax: bool = False) -> dict[str, Any]:
    """Return the arguments of the head `name`'s function: `given`, checked, over its defaults, and `softmax`."""
    values = checked(factory(name), given, f"head.{name}", {"softmax": softmax}, defaults=True)
    if softmax and "softmax" not in values:
        raise GgeurError(
            f"[train] softmax = true is not for the head '{name}': its function has no keyword softmax.",
            code="head-softmax-unsupported",
        )
    return values


def described(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a saved model says of the head `name`: what was `given`, and defaults that are plain values.

    Defaults too, so that a model stays what it is when a function's default changes.
    """
    known = {key: p.default for key, p in declared_parameters(factory(name)).items() if key != "softmax"}
    return {key: v for key, v in known.items() if isinstance(v, bool | int | float | str)} | dict(given)


def resolve(name: str, /, *, softmax: bool = False, **given: Any) -> "Head":
    """Return the head `name` with the parameters `given`; with `softmax`, probabilities take the place of logits.

    The same arguments give the same object, so that nothing is compiled twice.
    """
    build, values = factory(name), arguments(name, given, softmax=softmax)
    key = build, repr(sorted(values.items()))  # 1, 1.0 and true are three values, and a list is one
    if key not in _BUILT:
        _BUILT[key] = _build(name, partial(build, **values))
    return _BUILT[key]


def _build(name: str, make: Callable[[], Any]) -> "Head":
    from ggeur.heads.head import Head

    ours = name in (*HEADS, *_SOLVED)
    found = make() if ours else build_custom(name, "head", make)
    if not isinstance(found, Head):
        raise GgeurError(
            f"'{name}' is not a head: called with its parameters it must return a ggeur Head.", code="custom-head-type"
        )
    parts: Any = {part: partial(_call, name, getattr(found, part)) for part in Head._fields[:4]}
    return found if ours else found._replace(**parts)


def _call(name: str, function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of a custom head."""
    with blaming(name, "head"):
        return function(*given)
