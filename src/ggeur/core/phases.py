"""Phases of long work, such as a fit: whoever follows them hears which has begun, and how far it is."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
OnPhase = Callable[[str, int, int], None]  # phase, steps done, and of how many; 0 of 0 where steps are not counted

_listener: ContextVar[OnPhase | None] = ContextVar("listener", default=None)


def phase(name: str, done: int = 0, total: int = 0) -> None:
    """Say that the phase `name` is so far; with nobody who follows, nothing happens."""
    if (listener := _listener.get()) is not None:
        listener(name, done, total)


def phased(name: str, items: Iterable[T]) -> Iterator[T]:
    """Yield the `items`, each a step of the phase `name`."""
    every = list(items)
    for done, item in enumerate(every):
        phase(name, done, len(every))
        yield item
    phase(name, len(every), len(every))


@contextmanager
def followed_by(listener: OnPhase) -> Iterator[None]:
    """Call `listener` with every step of the work in this block.

    >>> with followed_by(lambda name, done, total: print(name, done, total)):
    ...     print(sum(phased("add", [1, 2])))
    add 0 2
    add 1 2
    add 2 2
    3
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
