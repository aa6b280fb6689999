"""SIGTERM stops a run as Ctrl-C does, and neither cuts a write in two."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def stop_on_terminate() -> None:
    """From now on SIGTERM raises KeyboardInterrupt too."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A signal that comes during the block takes effect after it."""
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
