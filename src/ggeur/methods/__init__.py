"""The registry of algorithms: every name that [train] method knows, of which kind it is, and how to build it.

`resolve("fedprox", head, {"mu": 0.1})`, or a user's own "package.module:name": a function (head, *, parameters) that
returns a `Method`, or (*, parameters) that returns a `ClosedForm`. An argument called `task` is given the `Task`; a
method that takes it in place of a head has a head of its own.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ggeur.methods.algorithm import Algorithm, ClosedForm, Iterative, Recipe, Reference, Selection, Task, ZeroShot
from ggeur.stats.custom import build_custom, load_custom
from ggeur.stats.errors import GgeurError
from ggeur.stats.hyperparameters import checked, is_traced, positional, signature
from ggeur.stats.hyperparameters import declared_parameters as declared_by
from ggeur.stats.site_statistics import COVARIANCES as STATISTICS
from ggeur.stats.site_statistics import Covariance

if TYPE_CHECKING:
    from ggeur.heads.head import Head

# Each is a function of that name, a dash written as an underscore, in the module of that name.
_KINDS: dict[str, type[Algorithm]] = {
    "fedavg": Iterative,
    "fedprox": Iterative,
    "scaffold": Iterative,
    "moon": Iterative,
    "feddyn": Iterative,
    "fedopt": Iterative,
    "fedproto": Iterative,
    "fedntd": Iterative,
    "fedmix": Iterative,
    "fedgen": Iterative,
    "fedfa": Iterative,
    "fedfa_gaussian": Iterative,
    "fedclip": Iterative,
    "fedtpg": Iterative,
    "ncm": ClosedForm,
    "lda": ClosedForm,
    "ridge": ClosedForm,
    "ccvr": ClosedForm,
    "afl": ClosedForm,
    "fed3r": ClosedForm,
    "fedcgs": ClosedForm,
    "fedpft": ClosedForm,
    "safle": ClosedForm,
    "ggeur-limit": ClosedForm,
    "mixture": ClosedForm,
    "blend": ClosedForm,
    "kernel": ClosedForm,
    "text-prior": ClosedForm,
    "auto": Selection,
    "local": Reference,
    "central": Reference,
    "zeroshot": ZeroShot,
}


SHARED = ("covariance", "rounds")  # keywords of a method's function that are keys of [augment], or [train]


def names(*kinds: type[Algorithm]) -> tuple[str, ...]:
    """Return the names of these kinds, or all there are."""
    return tuple(name for name, kind in _KINDS.items() if not kinds or kind in kinds)


SOLVED = names(ClosedForm)  # solvers, which can also give a first head
ON_EMBEDDINGS = ("fedmix", "fedgen", "fedfa", "fedfa_gaussian")  # which mix, make up or move samples as vectors


def kind_of(name: str) -> type[Algorithm]:
    """Return which kind of algorithm it is; a custom one is the kind that its function's arguments make it."""
    if name in _KINDS:
        return _KINDS[name]
    by_keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    takes_head = any(p.kind not in by_keyword for p in signature(factory(name)).parameters.values())
    return Iterative if takes_head else ClosedForm


def has_own_head(name: str) -> bool:
    """Return whether it trains a head of its own, in place of [train] head: one of the task."""
    return kind_of(name) is Iterative and positional(factory(name)) == ["task"]


def factory(name: str) -> Callable[..., Any]:
    """Return the function that builds it: (head or task, *, parameters) -> Method, or (*, parameters) -> ClosedForm."""
    if name not in _KINDS:
        own = load_custom(name, "method", _KINDS)
        declared_by(own)  # raises where nobody can tell what it takes
        return own
    module, function = place_of(name)
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def place_of(name: str) -> tuple[str, str]:
    """Return the module of one of ours, and the function in it that builds it."""
    kind = _KINDS[name]
    room = "ggeur.methods.oneshot" if kind is ClosedForm else "ggeur.methods"
    name = "fedavg" if kind is Reference else name.replace("-", "_")
    return f"{room}.{name}", name


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """Return what may stand under [method.NAME]: the keywords of its function, but for what other sections say."""
    return {key: p for key, p in declared_by(factory(name)).items() if key not in SHARED}


def checked_parameters(
    name: str, given: Mapping[str, Any], covariance: Covariance = "per-class", rounds: int = 100
) -> dict[str, Any]:
    """Return `given` converted to the types the method declares; unknown names and values are errors.

    A method that takes several kinds of `covariance` declares them as a keyword, and gets [augment]'s; one that must
    know how many `rounds` there are gets [train]'s.
    """
    return checked(factory(name), given, f"method.{name}", dict(zip(SHARED, (covariance, rounds), strict=True)))


def resolve(
    name: str,
    head: "Head",
    given: Mapping[str, Any],
    covariance: Covariance = "per-class",
    *,
    task: Task | None = None,
    rounds: int = 100,
) -> Algorithm:
    """Return the algorithm of that name; the same arguments give the same object, so that nothing is compiled twice.

    Without a `task`, a method that asks for one is known by its kind alone, and cannot be built.
    """
    values = tuple(sorted(checked_parameters(name, given, covariance, rounds).items()))
    try:
        return _build(name, head, task, values, repr(values))
    except TypeError:  # a parameter that cannot be a key, such as a list
        return _build.__wrapped__(name, head, task, values, "")


def resolve_closed_form(name: str, given: Mapping[str, Any], covariance: Covariance = "per-class") -> ClosedForm:
    """Return the solver of that name, which takes no head."""
    found = _without_head(name, checked_parameters(name, given, covariance))
    assert isinstance(found, ClosedForm), f"{name} is not a solver"
    return found


@lru_cache(maxsize=64)
def _build(name: str, head: "Head", task: Task | None, values: tuple[tuple[str, Any], ...], text: str) -> Algorithm:
    """`text` is that of the values, so that 1, 1.0 and true, which are equal to Python, are three."""
    kind = kind_of(name)
    if kind is Reference:
        return Reference(_trained(name, head, task, dict(values)), alone=name == "local")
    return _trained(name, head, task, dict(values)) if kind is Iterative else _without_head(name, dict(values))


def _without_head(name: str, values: Mapping[str, Any]) -> ClosedForm | Selection | ZeroShot:
    make = partial(factory(name), **values)
    found = make() if name in _KINDS else build_custom(name, "method", make)
    if not isinstance(found, ClosedForm | Selection | ZeroShot if name in _KINDS else ClosedForm):
        raise GgeurError(
            f"'{name}' is not a method: without a head it must return a ggeur ClosedForm.", code="custom-method-type"
        )
    if isinstance(found, ClosedForm) and found.needs not in STATISTICS:
        raise GgeurError(
            f"'{name}' needs {found.needs!r}; a ClosedForm may need {', '.join(STATISTICS)}.",
            code="custom-method-statistics",
        )
    return found


def _trained(name: str, head: "Head", task: Task | None, values: Mapping[str, Any]) -> Iterative:
    """The recipe around the numbers that are declared `Traced`; what cannot be a key makes a recipe of its own."""
    from ggeur.methods.method import Method

    build, known = factory(name), declared_by(factory(name))
    if name not in _KINDS:
        from ggeur.methods.method import checked_method

        build = checked_method(name, build)
    every = {key: p.default for key, p in known.items() if p.default is not p.empty} | dict(values)
    traced = {key: v for key, v in every.items() if is_traced(known[key]) and isinstance(v, float)}
    fixed = tuple((key, v) for key, v in every.items() if key not in traced)
    try:
        hash(fixed)
    except TypeError:
        build, fixed = partial(build, **dict(fixed)), ()
    asks = "task" in positional(build)
    found = Iterative(Recipe(build, head, fixed, task if asks else None), traced)
    if asks and task is None:
        return found
    method = found.method if name in _KINDS else build_custom(name, "method", lambda: found.method)
    if not isinstance(method, Method):
        raise GgeurError(
            f"'{name}' is not a method: called with a head it must return a ggeur Method.", code="custom-method-type"
        )
    return found
