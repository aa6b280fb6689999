"""What a site checks before its node starts: the server's name, TCP, TLS, the clock, and its own registration.

Each fault is a sentence. Faults that may be mended elsewhere are worth waiting for; those in the site's own files not.
"""

import json
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from typing import Any

from ggeur.flower.door.node_calls import DESK, REFUSED
from ggeur.flower.machines.node import Identity, split_address
from ggeur.stats.errors import GgeurError

_SECONDS = 10.0  # for each step
_AHEAD, _BEHIND = 4.0, 300.0  # seconds that Flower allows a node's clock to differ
_OTHER_HOST = (62, 64)  # OpenSSL's codes of a certificate for another name or address
_NOT_YET, _EXPIRED = 9, 10
_OK, _FORBIDDEN = 200, 403


class Passing(GgeurError):
    """A fault that may pass, or be mended elsewhere, without the site doing anything."""


@dataclass(frozen=True)
class Standing:
    """What the server knows of a site's node."""

    node: int
    online: bool  # it holds the node for connected


def check_server(address: str, identity: Identity, say: Callable[[str], None] = lambda sentence: None) -> Standing:
    """Check the way to the server at `address`, and say each step; raise GgeurError with the first that fails."""
    answer = ask_server(address, identity.context(), b"", say)
    if not answer["superlink"]:
        raise Passing(
            f"The server at {address} answers, and its SuperLink does not yet; is `ggeur federate link` just starting?",
            code="superlink-away",
        )
    ahead = time.time() - float(answer["time"])
    if not -_BEHIND < ahead < _AHEAD:
        raise Passing(
            f"This machine's clock is {abs(ahead):.0f} seconds {'ahead of' if ahead > 0 else 'behind'} the server's, "
            f"and Flower allows {_AHEAD:.0f} ahead and {_BEHIND:.0f} behind; set it (by NTP, say).",
            code="clock-differs",
        )
    say(f"Its clock and this machine's agree to {abs(ahead):.1f} seconds.")
    if answer["node"] is None:
        raise Passing(
            f"The server does not know this node yet; there, `ggeur federate register` lets {answer['site']} in.",
            code="node-unregistered",
        )
    say(f"It knows this node, as {answer['site']}.")
    return Standing(int(answer["node"]["id"]), bool(answer["node"]["online"]))


def ask_server(address: str, context: ssl.SSLContext, body: bytes, say: Callable[[str], None]) -> dict[str, Any]:
    """Return what the door at `address` answers this site about itself, and say each step on the way."""
    host, port = split_address(address)
    plain = _connect(host, port)
    say(f"{host} answers at port {port}.")
    answer = _ask(host, port, _encrypted(host, plain, context), context, body)
    say("Its certificate is the federation's, and it accepts this site's.")
    return answer


def _connect(host: str, port: int) -> socket.socket:
    """Return a connection to the server."""
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Passing(
            f"There is no machine called {host}; check the name of the federation's server.", code="server-name-unknown"
        ) from error
    try:
        return socket.create_connection((host, port), timeout=_SECONDS)
    except OSError as error:
        raise Passing(
            f"{host} does not answer at port {port} ({error.strerror or 'no answer'}); is the server running, and does "
            "a firewall let this site through?",
            code="server-unreachable",
        ) from error


def _encrypted(host: str, plain: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Return the connection under TLS; raise GgeurError where the server is not the federation's."""
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        if error.verify_code in _OTHER_HOST:
            raise GgeurError(
                f"The server's certificate is not for {host}; use the name that the federation gave, or have `ggeur "
                f"federate certificates --host {host}` make another.",
                code="server-other-host",
            ) from error
        if error.verify_code in (_NOT_YET, _EXPIRED):
            when = "has expired" if error.verify_code == _EXPIRED else "is not valid yet"
            raise Passing(
                f"The certificate of {host} {when}; check this machine's date, and ask the federation.",
                code="server-certificate-expired",
            ) from error
        raise GgeurError(
            f"The certificate of {host} is not of this federation's authority; is it the right server, and --ca its "
            "file?",
            code="server-other-authority",
        ) from error
    except (OSError, ValueError) as error:
        plain.close()
        raise Passing(
            f"{host} answers at that port, but not by TLS ({getattr(error, 'strerror', None) or 'no answer'}); is "
            "it the port of `ggeur federate link`?",
            code="server-without-tls",
        ) from error


def _ask(host: str, port: int, connection: ssl.SSLSocket, context: ssl.SSLContext, body: bytes) -> dict[str, Any]:
    """Return what the door says of this site."""
    call = HTTPSConnection(host, port, context=context, timeout=_SECONDS)
    call.sock = connection
    try:
        call.request("POST", DESK, body=body)
        answer = call.getresponse()
        content = answer.read()
    except ssl.SSLError as error:  # under TLS 1.3 a refused certificate is told with the first answer
        raise GgeurError(
            f"{host} does not accept this site's certificate; ask the federation for a new one.",
            code="site-certificate-refused",
        ) from error
    except (OSError, HTTPException) as error:
        raise Passing(f"{host} hangs up; trying again may help.", code="server-hangs-up") from error
    finally:
        call.close()
    if answer.status == _FORBIDDEN and REFUSED in answer.headers:
        raise GgeurError(f"The server refuses this site: {answer.headers[REFUSED]}", code="site-refused")
    if answer.status != _OK:
        raise Passing(f"{host} answers with status {answer.status}; is it `ggeur federate link`?", code="server-odd")
    return dict(json.loads(content))
