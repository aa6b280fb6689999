"""Find the user at the other end of a local connection: Linux lists sockets with their users.

Flower does not authenticate connections on loopback, where every user of the machine can connect.
"""

import ipaddress
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
_FIELDS = 10

Address = tuple[str, int]
Application = Callable[[Any, Any, Any], Awaitable[None]]


@cache
def can_tell() -> bool:
    """Return whether this system lists sockets with their users, tested once with a connection to itself."""
    with (
        suppress(OSError, ValueError),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        return user_of(client.getsockname(), server.getsockname()) == os.geteuid()
    return False


def user_of(client: Address, server: Address) -> int | None:
    """Return the user of the open socket `client` in a connection to `server`; None where it is not found.

    A socket that its process has closed has no user: the table then shows that of root, and no inode.
    """
    ends = {(_spelled(client, wide), _spelled(server, wide)) for wide in (False, True)}
    for table in _TABLES:
        if not table.exists():
            continue
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if len(fields) >= _FIELDS and (fields[1], fields[2]) in ends and fields[3] == _ESTABLISHED:
                return int(fields[7]) if int(fields[9]) else None
    return None


def is_ours(client: Address, server: Address) -> bool:
    """Return whether the socket `client` is of this process's user or of root, or this system cannot tell."""
    return not can_tell() or user_of(client, server) in (os.geteuid(), 0)


def _spelled(address: Address, wide: bool) -> str:
    """Return an address as the kernel prints it: words of 32 bits in the machine's order, and the port."""
    ip: Any = ipaddress.ip_address(address[0])
    if wide and ip.version == 4:
        ip = ipaddress.ip_address(f"::ffff:{ip}")
    packed, step = ip.packed, 4
    words = (packed[i : i + step] for i in range(0, len(packed), step))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{address[1]:04X}"


def _is_ours(scope: MutableMapping[str, Any]) -> bool:
    """Return whether a request comes from this user; False where it names another sender for uvicorn to believe."""
    if not scope.get("client") or not scope.get("server"):
        return False
    forwarded = any(name.startswith((b"x-forwarded", b"forwarded")) for name, _ in scope.get("headers", ()))
    return not forwarded and is_ours(tuple(scope["client"]), tuple(scope["server"]))


class OwnUserOnly:
    """ASGI middleware that answers 403 to processes of other users of this machine."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan" or _is_ours(scope):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http":
            body = b"This SuperLink answers its own user alone."
            headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 403, "headers": [*headers, (b"connection", b"close")]})
            await send({"type": "http.response.body", "body": body})
