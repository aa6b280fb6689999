"""What a server takes: how large, how often, how long, how many at once."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_REMEMBERED = 1024  # addresses


@dataclass(frozen=True)
class Limits:
    """`megabytes` of an upload, `rate` of answers per second and address, and what no option changes."""

    megabytes: float = 10.0
    rate: float = 10.0
    pixels: int = 60_000_000  # of a picture once it is open
    rows: int = 64  # embeddings in a request
    seconds: float = 20.0  # to send a request in, after which a connection without one ends
    connections: int = 128  # that are open, idle ones included
    waiting: int = 16  # requests that are being read or answered

    @property
    def bytes(self) -> int:
        return int(self.megabytes * 1e6)


class Allowance:
    """A bucket of tokens for every address: `rate` a second, and two seconds' worth at once.

    >>> now = [0.0]
    >>> spend = Allowance(1.0, lambda: now[0]).spend
    >>> spend("a"), spend("a"), spend("a"), spend("b")
    (0.0, 0.0, 1.0, 0.0)
    >>> now[0] = 1.0
    >>> spend("a")
    0.0
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._most = max(2 * rate, 1.0)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def spend(self, address: str) -> float:
        """Take a token: how many seconds to wait where there is none, else 0."""
        now = self._clock()
        tokens, then = self._left.pop(address, (self._most, now))
        tokens = min(self._most, tokens + (now - then) * self._rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._left[address] = (tokens if wait else tokens - 1, now)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return wait
