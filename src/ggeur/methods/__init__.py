"""The methods by name, and how to build one: `resolve("fedavg", head, {})`, or a user's own "package.module:name"."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from ggeur.core.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.heads.head import Head
    from ggeur.methods.closed import ClosedForm
    from ggeur.methods.method import Method

METHODS = (  # each is a function of that name in the module of that name
    "fedavg",
    "fedprox",
    "scaffold",
    "moon",
    "feddyn",
    "fedopt",
    "fedproto",
    "fedntd",
    "fedmix",
    "fedgen",
    "fedfa",
    "fedfa_gaussian",
)


CLOSED = ("ncm", "lda", "ridge", "ccvr")  # solved from the statistics, not trained
BOUNDS = ("local", "central")  # FedAvg with each client alone, and with all data in one place
WITHOUT_DATA = ("zeroshot",)  # needs the table's text embeddings
ALL = (*METHODS, *CLOSED, *BOUNDS, *WITHOUT_DATA)


def factory(name: str) -> Callable[..., Any]:
    """The function that builds it: (head, **parameters) -> Method, or (**parameters) -> ClosedForm."""
    if ":" in name:
        return _own(name)
    if name not in ALL:
        raise GgeurError(
            f"There is no method '{name}'; there are {', '.join(ALL)}, or your own as package.module:name."
        )
    if name in BOUNDS:
        name = "fedavg"
    found: Callable[..., Any] = getattr(importlib.import_module(f"ggeur.methods.{name}"), name)
    return found


def _own(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:  # a method beside the experiment file, as `python -m` would find it
        sys.path.append(here)
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a user's module may raise anything when it is imported
        raise GgeurError(f"Cannot load the method '{name}': {type(error).__name__}: {error}.") from error
    if not callable(found):
        raise GgeurError(f"Cannot load the method '{name}': it is not a function.")
    return found


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """The method's own parameters, by name: the keywords of its function."""
    keywords = inspect.signature(factory(name), eval_str=True).parameters.values()
    return {p.name: p for p in keywords if p.kind is p.KEYWORD_ONLY}


def checked_parameters(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` converted to the types the method declares; unknown names and values are errors."""
    known, values = parameters(name), {}
    for key, value in given.items():
        if key not in known:
            allowed = ", ".join(known) or "none"
            raise GgeurError(f"[method.{name}] has no parameter '{key}'; it has: {allowed}.")
        declared = known[key].annotation
        try:
            values[key] = TypeAdapter(Any if declared is inspect.Parameter.empty else declared).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise GgeurError(f"[method.{name}] {key} = {value!r}: {reason}.") from error
    return values


def resolve(name: str, head: "Head", given: Mapping[str, Any]) -> "Method":
    """The method, built; the same arguments give the same object, so that nothing is compiled twice."""
    values = tuple(sorted(checked_parameters(name, given).items()))
    try:
        return _build(name, head, values)
    except TypeError:  # a parameter that cannot be a key, such as a list
        return _build.__wrapped__(name, head, values)


@lru_cache(maxsize=64)
def _build(name: str, head: "Head", values: tuple[tuple[str, Any], ...]) -> "Method":
    from ggeur.methods.method import Method, Origin

    try:
        method = factory(name)(head, **dict(values))
    except Exception as error:
        if ":" not in name:
            raise
        raise GgeurError(f"The method '{name}' cannot be built: {type(error).__name__}: {error}.") from error
    if not isinstance(method, Method):
        raise GgeurError(f"'{name}' is not a method: called with a head it must return a ggeur Method.")
    if ":" in name:  # a user's may branch on its parameters, so it stays as it is
        return method._replace(constant=tuple(method.constant))
    every = {**{p.name: p.default for p in parameters(name).values()}, **dict(values)}
    numbers = {key: value for key, value in every.items() if isinstance(value, float)}
    others = tuple((key, value) for key, value in every.items() if key not in numbers)
    return method._replace(origin=Origin(Named(name, head, others), tuple(numbers.items()), method[:-1]))


@dataclass(frozen=True)
class Named:
    """The recipe of a method around numbers that come later; of `others` (counts, choices) a program is made."""

    name: str
    head: "Head"
    others: tuple[tuple[str, Any], ...]

    def __call__(self, numbers: Mapping[str, Any]) -> "Method":
        method: Method = factory(self.name)(self.head, **dict(self.others), **numbers)
        return method


def resolve_closed(name: str, given: Mapping[str, Any]) -> "ClosedForm":
    """The training-free head of that name."""
    form: ClosedForm = factory(name)(**checked_parameters(name, given))
    return form
