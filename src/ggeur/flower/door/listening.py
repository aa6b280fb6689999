"""Serve a TLS socket in a thread: connections are few, known and never idle for long."""

import asyncio
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ggeur.flower.door.own_user import can_tell, is_ours
from ggeur.flower.door.visitors import Visitor
from ggeur.stats.errors import GgeurError

_HANDSHAKE = 10.0  # seconds for the TLS handshake, before which a stranger holds only a socket
_HEADERS = 10.0  # seconds from the first byte of a request to the last of its headers
_IDLE = 75  # seconds between two requests; nodes ask every 3
_CONNECTIONS = 64  # of one certificate
_SOCKETS = 65536
_CLOSING = 3.0  # seconds for calls under way, when the door is closed

_SILENT = logging.getLogger("ggeur.door")  # mistakes of strangers are not logged
_SILENT.setLevel(logging.CRITICAL)
Application = Callable[..., Any]
Opening = Callable[[], AbstractAsyncContextManager[Application]]


def server_context(certificate: Path, key: Path, sites: Path | None) -> ssl.SSLContext:
    """Return a server's side of TLS; with the authority `sites`, clients without a certificate of it are refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION  # each connection shows its certificate again
    context.num_tickets = 0
    if sites is not None:
        context.load_verify_locations(sites)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to `host` and `port`, which does not listen yet."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except OSError as error:
        why = error.strerror or error
        raise GgeurError(
            f"Cannot listen on {host}:{port} ({why}); name another --host or --port.", code="address-taken"
        ) from error
    return made


class Listening:
    """Serve an application at a bound socket, in a thread, until the block ends.

    `opening` makes the application, and whatever it needs, within the thread's event loop. With `own_user` only this
    user's processes are answered.
    """

    def __init__(
        self, made: socket.socket, context: ssl.SSLContext, opening: Opening, *, own_user: bool = False
    ) -> None:
        self._socket, self._context, self._opening = made, context, opening
        self._own_user = own_user and can_tell()
        self.port: int = made.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._ready, self._end = threading.Event(), asyncio.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"door-{self.port}", daemon=True)

    def __enter__(self) -> "Listening":
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_CLOSING + 5)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # passed on to whoever opens the door
            self._failure = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        _allow_many_sockets()
        self._loop.set_exception_handler(lambda loop, context: None)
        async with self._opening() as application:
            settings = {"log_config": None, "ws": "none", "lifespan": "off", "interface": "asgi3"}
            config = Config(application, timeout_keep_alive=_IDLE, proxy_headers=False, **settings)
            config.load()
            state, open_connections = ServerState(), Counter[str]()
            server = await self._loop.create_server(
                lambda: Connection(config, state, open_connections, self._own_user),
                sock=self._socket,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE,
                backlog=512,
            )
            self._ready.set()
            await self._end.wait()
            server.close()
            for connection in list(state.connections):
                connection.shutdown()
            if state.tasks:
                await asyncio.wait(state.tasks, timeout=_CLOSING)
            for connection in list(state.connections):
                connection.transport.abort()


def _allow_many_sockets() -> None:
    """Let this process have as many open files as the system grants it: each stranger holds one for ten seconds."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _SOCKETS if hard == resource.RLIM_INFINITY else min(hard, _SOCKETS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


class Connection(H11Protocol):
    """Uvicorn's HTTP/1.1 over a connection that knows its client certificate and ends when it is too slow."""

    def __init__(self, config: Config, state: ServerState, open_connections: Counter[str], own_user: bool) -> None:
        super().__init__(config, state, {})
        self._own_user = own_user
        self.logger, self.access_log = _SILENT, False
        self._open = open_connections
        self._visitor: Visitor | None = None
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Read the client certificate and start the timeout."""
        super().connection_made(transport)
        der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        visitor = Visitor.of(der) if der else None
        self._visitor = visitor
        self.app_state = {"visitor": visitor, "abort": self._abort}
        if visitor is not None:
            self._open[visitor.serial] += 1
            if self._open[visitor.serial] > _CONNECTIONS:
                self._abort()
                return
        if self._own_user and not is_ours(transport.get_extra_info("peername"), transport.get_extra_info("sockname")):
            self._abort()
            return
        self._clock = self.loop.call_later(_HEADERS, self._abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_clock()
        if self._visitor is not None:
            self._open[self._visitor.serial] -= 1
            if not self._open[self._visitor.serial]:
                del self._open[self._visitor.serial]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the timeout with the first bytes of a request, and stop it with the last of its headers."""
        before = self.cycle
        if self._clock is None and (before is None or before.response_complete):
            self._clock = self.loop.call_later(_HEADERS, self._abort)
        super().data_received(data)
        if self.cycle is not before:
            self._stop_clock()

    def send_400_response(self, msg: str) -> None:
        """Close a connection that does not send HTTP; half an answer may have been sent already."""
        self._abort()

    def _abort(self) -> None:
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
