"""A user's own method, head, encoder or augmentation, named package.module:name: found, built, and blamed."""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ggeur.stats.errors import GgeurError, nearest
from ggeur.stats.old_names import solver
from ggeur.stats.validate import check_is


def is_custom(name: str) -> bool:
    """Return whether `name` is meant as package.module:name, and not as one of ours.

    >>> is_custom("mine.methods:clipped"), is_custom("fedavg")
    (True, False)
    """
    return ":" in check_is("The name", name, str, "text")


def load_custom(name: str, what: str, ours: Iterable[str]) -> Callable[..., Any]:
    """Return the function that a user's `name` stands for; an error says `what` it was to be, and which are `ours`.

    A module beside the experiment file is found as `python -m` would find it, from the current folder.
    """
    if not is_custom(name):
        ours = tuple(ours)
        known, close = ", ".join(ours), nearest(solver(name), ours)
        raise GgeurError(
            f"There is no {what} '{name}'; there are {known}, or your own as package.module:name.{close}",
            code="component-unknown",
        )
    module, _, attribute = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a user's module may raise anything when it is imported
        raise GgeurError(f"Cannot load the {what} '{name}': {one_line(error)}.", code="custom-load-failed") from error
    if not callable(found):
        raise GgeurError(f"Cannot load the {what} '{name}': it is not a function.", code="custom-not-callable")
    return found


T = TypeVar("T")


def build_custom(name: str, what: str, build: Callable[[], T]) -> T:
    """Return `build()`; what goes wrong in a user's function becomes a sentence that names it."""
    with blaming(name, what, "cannot be built"):
        return build()


@contextmanager
def blaming(name: str, what: str, went_wrong: str = "failed") -> Iterator[None]:
    """Turn any error of a custom function within the block into a sentence; errors of ours pass unchanged."""
    try:
        yield
    except GgeurError:
        raise
    except Exception as error:
        if not is_custom(name):
            raise
        raise GgeurError(f"The {what} '{name}' {went_wrong}: {one_line(error)}.", code="custom-code-failed") from error


def one_line(error: Exception) -> str:
    """Return the error of a user's code as the end of a sentence."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0].rstrip('.')}"
