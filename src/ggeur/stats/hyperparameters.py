"""Hyperparameters that a user gives by name, as under [method.NAME]: their types, and how they are checked.

They are the keyword-only arguments of the function that builds the method; what it declares is what is checked. A
number declared `Traced` is an argument of compiled programs, so that another value compiles nothing anew; the function
may then not branch on it.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, get_args

from pydantic import Field, TypeAdapter, ValidationError

from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError

AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(gt=0)]

_TRACED = "traced"
T = TypeVar("T")
Traced = Annotated[T, _TRACED]  # as in Traced[Positive]


def declared_parameters(build: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the hyperparameters that `build` declares: its keyword-only arguments, by name."""
    return {p.name: p for p in signature(build).parameters.values() if p.kind is p.KEYWORD_ONLY}


def positional(build: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that `build` takes by position."""
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in signature(build).parameters.values() if p.kind in by_position]


def signature(build: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of `build`; an error where it has none, as some functions in C."""
    try:
        return inspect.signature(build, eval_str=True)
    except Exception as error:  # annotations are a user's code
        name = f"{build.__module__}:{getattr(build, '__qualname__', build)}"
        raise GgeurError(
            f"Cannot tell what '{name}' takes: {one_line(error)}.", code="custom-signature-unreadable"
        ) from error


def checked(
    build: Callable[..., Any],
    given: Mapping[str, Any],
    section: str,
    shared: Mapping[str, Any] | None = None,
    *,
    defaults: bool = False,
) -> dict[str, Any]:
    """Return `given` in the types that `build` declares; unknown names and values are errors about `section`.

    What `build` declares of `shared`, which is given elsewhere, is taken too; the rest is for others.
    With `defaults`, what is not given has its default.
    """
    known, elsewhere = declared_parameters(build), shared or {}
    values = {key: p.default for key, p in known.items() if defaults and p.default is not p.empty}
    for key, value in {**{key: value for key, value in elsewhere.items() if key in known}, **given}.items():
        if key not in known or (key in given and key in elsewhere):
            allowed = ", ".join(name for name in known if name not in elsewhere) or "none"
            raise GgeurError(f"[{section}] has no parameter '{key}'; it has: {allowed}.", code="hyperparameter-unknown")
        declared = known[key].annotation
        try:
            values[key] = TypeAdapter(Any if declared is inspect.Parameter.empty else declared).validate_python(value)
        except Exception as error:  # a user's type may be none, or raise anything
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else one_line(error)
            raise GgeurError(f"[{section}] {key} = {value!r}: {reason}.", code="hyperparameter-invalid") from error
    return values


def is_traced(parameter: inspect.Parameter) -> bool:
    """Return whether it is declared `Traced`, alone or as in `Traced[Positive] | None`."""
    return _TRACED in _words(parameter.annotation)


def _words(annotation: Any) -> Iterator[Any]:
    """All that an annotation is made of."""
    for part in get_args(annotation):
        yield part
        yield from _words(part)
