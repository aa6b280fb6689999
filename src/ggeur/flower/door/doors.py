"""The two doors: the front door before a SuperLink admits sites only; a site's back door is for its own node."""

import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from socket import socket

import httpx

from ggeur.flower.door.desk import SiteDesk
from ggeur.flower.door.invitations import Invitations
from ggeur.flower.door.listening import Listening, bound, server_context
from ggeur.flower.door.node_calls import Admission, Bounds, Fault, FleetCalls, Heard, Notice
from ggeur.flower.door.visitors import RevocationList
from ggeur.stats.errors import GgeurError

_AT_ONCE = 256  # connections to the other side
_IDLE_HERE = 3.0  # seconds that a connection to Flower's server is kept; it closes its own after 5
_CONNECT, _SILENCE = 20.0, 60.0  # seconds that a site waits for a connection, and for the next byte over it
_IDLE_THERE = 60.0  # and one to a door, which waits a little longer


def front_door(
    made: socket,
    certificate: Path,
    key: Path,
    sites: Path,
    revoked: Path,
    superlink: str,
    trust: ssl.SSLContext,
    notice: Notice,
    bounds: Bounds | None = None,
    invitations: Invitations | None = None,
    faults: Fault = lambda site, why: None,
) -> Listening:
    """Return the door before the SuperLink at the loopback address `superlink`, whose certificate `trust` knows.

    It shows the server's `certificate`, and admits those that the authority `sites` has certified and the list
    `revoked` does not name. By `invitations` sites join that have none of their certificates yet.
    `faults` is told why a site is refused.
    """
    bounds = bounds or Bounds()

    @asynccontextmanager
    async def opening() -> AsyncIterator[FleetCalls]:
        limits = httpx.Limits(max_connections=_AT_ONCE, keepalive_expiry=_IDLE_HERE)
        timeout = httpx.Timeout(2 * bounds.seconds, connect=5.0)  # the door's own bound comes first
        async with httpx.AsyncClient(
            base_url=f"https://{superlink}",
            verify=trust,
            timeout=timeout,
            limits=limits,
            cookies=_no_cookies(),
            trust_env=False,
        ) as upstream:
            desk = SiteDesk(upstream, invitations, notice)
            yield FleetCalls(upstream, Admission(RevocationList(revoked)), notice, bounds, desk=desk, faults=faults)

    return Listening(made, server_context(certificate, key, sites), opening)


def back_door(
    certificate: Path,
    key: Path,
    superlink: str,
    trust: ssl.SSLContext,
    notice: Notice,
    heard: Heard = lambda path, status: None,
    bounds: Bounds | None = None,
) -> Listening:
    """Return a site's door on loopback, through which its node reaches `superlink` with the site's certificate.

    Flower's nodes cannot present a certificate of their own. `heard` is told of every answer of the server.
    """
    bounds = bounds or Bounds()

    @asynccontextmanager
    async def opening() -> AsyncIterator[FleetCalls]:
        limits = httpx.Limits(max_connections=bounds.calls, keepalive_expiry=_IDLE_THERE)
        timeout = httpx.Timeout(_SILENCE, connect=_CONNECT)
        async with httpx.AsyncClient(
            base_url=f"https://{superlink}", verify=trust, timeout=timeout, limits=limits, cookies=_no_cookies()
        ) as upstream:
            yield FleetCalls(upstream, None, notice, bounds, heard)

    return Listening(bound("127.0.0.1", 0), server_context(certificate, key, None), opening, own_user=True)


def _no_cookies() -> CookieJar:
    """Return a jar that stays empty: sites share connections, and one site's cookies must not be sent for another."""
    return CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))


def site_context(authority: Path, key: Path, certificate: Path) -> ssl.SSLContext:
    """Return a site's side of TLS, which knows the server by `authority` and shows `certificate`, made for `key`."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as s

    try:
        private = s.load_ssh_private_key(key.read_bytes(), None)
        trusted = x509.load_pem_x509_certificate(authority.read_bytes())
        own = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise GgeurError(
            f"Cannot read {key}, {authority} or {certificate}; are these the right files?",
            code="certificate-unreadable",
        ) from error
    if own.public_key() != private.public_key():
        raise GgeurError(
            f"{certificate} was made for another node key than {key}; send {key}.pub to the federation.",
            code="certificate-other-key",
        )
    try:
        own.verify_directly_issued_by(trusted)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise GgeurError(
            f"{certificate} is not of the authority {authority}; ask for both again.",
            code="certificate-other-authority",
        ) from error
    if own.not_valid_after_utc < datetime.now(UTC):
        raise GgeurError(
            f"{certificate} expired on {own.not_valid_after_utc:%Y-%m-%d}; ask for a new one.",
            code="certificate-expired",
        )
    context = ssl.create_default_context(cafile=str(authority))
    with tempfile.NamedTemporaryFile(prefix="ggeur-") as file:  # 0600; TLS reads keys in another form than Flower
        pem = private.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
        file.write(certificate.read_bytes().rstrip() + b"\n" + pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context
