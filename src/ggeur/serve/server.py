"""The server as a process: a socket that is ours before anything is said, and an end without noise."""

import errno
import socket
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ggeur.core.errors import GgeurError
from ggeur.serve.app import LOOPBACK, application, is_loopback
from ggeur.serve.service import Service

if TYPE_CHECKING:
    import uvicorn


def serve(service: Service, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Answer on `host` and `port` (0: any that is free) until interrupted; `on_ready` is told the address."""
    warnings.filterwarnings("ignore", module="PIL")  # of damaged uploads, whose senders are told
    with _bound(host, port) as listening:
        names = (*LOOPBACK, host) if is_loopback(host) else None
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listening.getsockname()[1]}/")
        server_of(service, names).run(sockets=[listening])


def server_of(service: Service, names: tuple[str, ...] | None) -> "uvicorn.Server":
    """uvicorn's, of a model that goes by these `names`, within its limits."""
    import uvicorn

    from ggeur.serve.connections import limited

    config: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False, "ws": "none"}
    config |= {"lifespan": "off", "h11_max_incomplete_event_size": 16_384, "http": limited(service.limits)}
    config |= {"timeout_keep_alive": 5, "timeout_graceful_shutdown": 5}
    return uvicorn.Server(uvicorn.Config(application(service, names), **config))


def _bound(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(found[0], socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(found[4])
            made.listen()  # who is told the address may come at once, and waits
        except OSError:
            made.close()
            raise
        return made
    except OSError as error:
        taken = "it is in use; name another with --port" if error.errno == errno.EADDRINUSE else error.strerror or error
        raise GgeurError(f"Cannot listen on {host}, port {port}: {taken}.") from error
