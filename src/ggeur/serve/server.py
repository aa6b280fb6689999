"""The server as a process: bind the address, announce it, answer until interrupted."""

import errno
import logging
import socket
import warnings
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from ggeur.serve.app import LOOPBACK, application
from ggeur.serve.service import Service
from ggeur.stats.errors import GgeurError

_UVICORN: dict[str, Any] = {"http": "h11", "ws": "none", "lifespan": "off", "log_level": "error", "access_log": False}
_UVICORN |= {"server_header": False, "limit_concurrency": 128, "timeout_graceful_shutdown": 5}


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches `host`."""
    try:
        return host in LOOPBACK or ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def serve(service: Service, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Answer on `host` and `port` (0: any free one) until interrupted; `on_ready` receives the address."""
    import uvicorn

    # The senders of damaged uploads are told, not this terminal.
    warnings.filterwarnings("ignore", module="PIL")
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address, family=family)  # connections wait from here on
    except OSError as error:
        taken = "it is in use; name another with --port" if error.errno == errno.EADDRINUSE else error.strerror or error
        raise GgeurError(f"Cannot listen on {host}, port {port}: {taken}.", code="server-port-unavailable") from error
    with listening:
        on_ready(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/")
        names = (*LOOPBACK, host) if is_loopback(host) else None
        uvicorn.Server(uvicorn.Config(application(service, names), **_UVICORN)).run(sockets=[listening])
