"""What the server knows of its sites: who is online, since when, and the last error."""

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ggeur.flower.door.invitations import ASKED
from ggeur.flower.machines.certificates import SITES
from ggeur.flower.machines.control import Control
from ggeur.flower.machines.kit import read_federation
from ggeur.flower.machines.loopback import LOOPBACK
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import write_bytes

FAULTS = "faults.json"  # in the folder of `ggeur federate link`: the last error of each site


@dataclass(frozen=True)
class SiteStatus:
    """A site, as its server sees it."""

    name: str
    state: str  # online, offline; asked: to join; let in: and never there yet; invited: has not asked
    since: str | None = None  # ISO 8601, where the state has a beginning
    error: str | None = None  # the last refusal
    error_at: str | None = None


class Faults:
    """The last error of each site, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._last: dict[str, dict[str, str]] = {}

    def __call__(self, site: str, why: str) -> None:
        """Note an error of `site`."""
        with self._lock:
            self._last[site] = {"why": why, "at": datetime.now(UTC).isoformat(timespec="seconds")}
            write_bytes(self._path, json.dumps(self._last).encode())


def federation_status(server: Path) -> list[SiteStatus]:
    """Return the sites of the running server `server`, in the order of the federation."""
    with Control(server) as control:
        nodes = {node.public_key: node for node in control.nodes()}
    facts = read_federation(server)
    certified = {path.stem: _public_key(path) for path in sorted((server / SITES).glob("*.crt"))}
    asked = {path.stem for path in (server / ASKED).glob("*.pub")}
    try:
        faults = json.loads((server / "link" / FAULTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        faults = {}
    found = []
    for name in dict.fromkeys([*(facts.sites if facts else ()), *certified, *sorted(asked)]):
        node, last = nodes.get(certified.get(name, b"")), faults.get(name, {})
        since = None
        if node is None:
            state = "asked" if name in asked else "invited"
        elif node.status == "online":
            state, since = "online", node.last_activated_at
        elif node.last_activated_at:
            state, since = "offline", node.last_deactivated_at
        else:
            state = "let in"
        found.append(SiteStatus(name, state, since or None, last.get("why"), last.get("at")))
    return found


def _public_key(certificate: Path) -> bytes:
    """Return the public key of a certificate as Flower has it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as s

    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    return key.public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)


def prometheus_text(sites: Sequence[SiteStatus]) -> str:
    """Return the status in the text form that Prometheus reads.

    >>> print(prometheus_text([SiteStatus("leeds", "online", "2026-01-01T00:00:00+00:00")]), end="")
    # HELP ggeur_site_online Whether the site's node is connected.
    # TYPE ggeur_site_online gauge
    ggeur_site_online{site="leeds"} 1
    # HELP ggeur_site_since_seconds When that began, in seconds since 1970.
    # TYPE ggeur_site_since_seconds gauge
    ggeur_site_since_seconds{site="leeds"} 1767225600
    # HELP ggeur_site_error_seconds When the server last refused the site.
    # TYPE ggeur_site_error_seconds gauge
    """

    def seconds(text: str) -> int:
        return int(datetime.fromisoformat(text).timestamp())

    online = {one.name: int(one.state == "online") for one in sites}
    since = {one.name: seconds(one.since) for one in sites if one.since}
    errors = {one.name: seconds(one.error_at) for one in sites if one.error_at}
    lines = []
    for name, help_, values in (
        ("online", "Whether the site's node is connected.", online),
        ("since_seconds", "When that began, in seconds since 1970.", since),
        ("error_seconds", "When the server last refused the site.", errors),
    ):
        lines += [f"# HELP ggeur_site_{name} {help_}", f"# TYPE ggeur_site_{name} gauge"]
        lines += [f'ggeur_site_{name}{{site="{site}"}} {value}' for site, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def serve_metrics(server: Path, port: int) -> None:
    """Serve the status at /metrics of `port` of loopback, in a thread that ends with the process."""
    last: tuple[float, bytes] = (0.0, b"")

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal last
            if self.path != "/metrics":
                self.send_error(404)
                return
            if time.monotonic() - last[0] > 1.0:
                try:
                    last = time.monotonic(), prometheus_text(federation_status(server)).encode()
                except GgeurError:
                    self.send_error(503)
                    return
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("content-length", str(len(last[1])))
            self.end_headers()
            self.wfile.write(last[1])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of each request."""

    try:
        made = ThreadingHTTPServer((LOOPBACK, port), Page)
    except OSError as error:
        raise GgeurError(
            f"Cannot listen on {LOOPBACK}:{port} ({error.strerror}); name another --metrics.", code="address-taken"
        ) from error
    threading.Thread(target=made.serve_forever, daemon=True).start()
