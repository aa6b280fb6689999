"""Long jobs: their phases, the signals that stop them between steps, and how long and how large in words."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

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


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_asked: list[int] = []


def _stop(number: int, frame: Any) -> None:
    """Note the signal and raise; a library's callback may swallow the exception."""
    _asked.append(number)
    raise KeyboardInterrupt


def stop_on_signals() -> None:
    """Raise KeyboardInterrupt on SIGTERM as on SIGINT from now on; `check` raises it again if it was swallowed."""
    _asked.clear()
    for number in _SIGNALS:
        signal.signal(number, _stop)


def check() -> None:
    """Raise if a signal has come since `stop_on_signals`."""
    if _asked:
        raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay signals that come during the block until after it."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is ever interrupted
        yield
        return
    waiting: list[int] = []
    before = {number: signal.signal(number, lambda n, frame: waiting.append(n)) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def human_bytes(n: float) -> str:
    """1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError("unreachable")


def human_seconds(s: float) -> str:
    """90 -> '1.5 min'."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if s >= size:
            return f"{s / size:.1f} {unit}"
    return f"{s:.2g} s"
