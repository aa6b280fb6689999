"""Ctrl-C and SIGTERM stop a run between rounds at the latest, and neither cuts a write in two."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
