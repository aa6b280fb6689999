"""Connections that end: how many there may be, and how long one may say nothing. The library leaves both open."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from ggeur.serve.limits import Limits

_ANSWERS = 10  # times the limit of a request, in which its answer must be ready and taken
_FULL = b'{"error": "Too many connections are open; try again."}'
_UNREAD = b'{"error": "This is no HTTP request that can be read."}'


def _answer(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n" % status
    return head + b"content-length: %d\r\n\r\n%s" % (len(body), body)


def limited(limits: Limits) -> type[H11Protocol]:
    """HTTP/1.1 as uvicorn has it, of which a connection ends that brings no whole request in the time it has.

    Whether it is silent, or sends its headers letter by letter, or never reads its answer.
    """

    class Limited(H11Protocol):
        _looks = 0  # in a row at which nothing was new
        _last: Any = None  # request that was seen
        _clock: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(_answer(b"503 Service Unavailable", _FULL))
                transport.close()
                return
            self._clock = self.loop.call_later(limits.seconds, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._clock is not None:
                self._clock.cancel()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            """Of what cannot be read, also after an answer has begun, which the library does not expect."""
            begun = self.cycle is not None and self.cycle.response_started
            if self.cycle is not None:
                self.cycle.disconnected = True
            if not begun:
                self.transport.write(_answer(b"400 Bad Request", _UNREAD))
            self.transport.close()

        def _look(self) -> None:
            answering = self.cycle is not None and not self.cycle.response_complete
            self._looks = self._looks + 1 if self.cycle is self._last else 0
            self._last = self.cycle
            if self._looks >= (_ANSWERS if answering else 1):
                self.transport.abort()
                return
            self._clock = self.loop.call_later(limits.seconds, self._look)

    return Limited
