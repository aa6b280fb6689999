"""A site: its SuperNode and SuperExec on loopback, and the door through which they reach the federation's server."""

import shutil
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ggeur.flower.door.doors import back_door, site_context
from ggeur.flower.door.listening import bound
from ggeur.flower.door.node_calls import Notice
from ggeur.flower.machines import processes
from ggeur.flower.machines.loopback import LOOPBACK, Loopback
from ggeur.flower.machines.processes import Machines
from ggeur.stats.errors import GgeurError

_ACTIVATION, _DEACTIVATION = "/v1/fleet/activate-node", "/v1/fleet/deactivate-node"
_LOOK = 0.2
_FIRST_PORT, _PORTS = 9094, 100
_OK, _UNAUTHORIZED, _AWAY = 200, 401, (502, 503, 504)


@dataclass(frozen=True)
class Identity:
    """The files by which a site and its server authenticate each other."""

    authority: Path  # the federation's ca.crt
    key: Path  # the node's private key
    certificate: Path  # the site's, made for that key

    def context(self) -> ssl.SSLContext:
        """Return the site's side of TLS; raise GgeurError where the files do not fit together or have expired."""
        return site_context(self.authority, self.key, self.certificate)


@dataclass
class Heard:
    """What the server has answered the node's calls, as the site's door hears it."""

    marker: Path  # a file that is there while the server holds the node for online
    last: float = field(default_factory=time.monotonic)  # when the server last answered
    connected: bool = False  # the server has taken the node in
    refused: str = ""  # why it did not, or does not any longer: the end of a sentence
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, path: str, status: int) -> None:
        """Note an answer."""
        with self._lock:
            if status not in _AWAY:
                self.last = time.monotonic()
            if path == _ACTIVATION and status == _OK:
                self.connected = True
                self.marker.touch()
            elif path == _ACTIVATION and status not in _AWAY:
                self.refused = "the server did not let it in"
            elif path == _DEACTIVATION and status == _OK:
                self.marker.unlink(missing_ok=True)
            elif status == _UNAUTHORIZED:
                self.refused = "the server does not know it any longer"

    def begin(self) -> None:
        """Forget what was heard of an earlier process."""
        with self._lock:
            self.last, self.connected, self.refused = time.monotonic(), False, ""


@dataclass(frozen=True)
class Node:
    """The processes of a site, which can be started and ended again and again, and what the server answers them."""

    machines: Machines
    name: str
    commands: Mapping[str, Sequence[str]]
    env: Mapping[str, str]
    heard: Heard

    def start(self) -> None:
        """Start the SuperNode and its SuperExec, which tries until the SuperNode listens."""
        self.heard.begin()
        for name, command in self.commands.items():
            self.machines.start(name, command, self.env)

    def end(self) -> None:
        """End them, with whatever they started; the SuperNode first, which still needs the door."""
        for name in self.commands:
            self.machines.end(name)


@contextmanager
def site_node(
    machines: Machines,
    name: str,
    identity: Identity,
    folder: Path,
    superlink: str,
    config: Mapping[str, Any],
    port: int,
    notice: Notice,
    trusted: Path | None = None,
) -> Iterator[Node]:
    """Open the door of the node `name` to the server at `superlink`; its own processes meet at `port` of loopback.

    Their files are made in `folder` and removed at the end; `machines` must end first. `config` is known to this site
    only: its partition, its data. With `trusted`, Flower's file of public keys, it runs only apps that one of them has
    signed.
    """
    split_address(superlink)
    trust = identity.context()
    loopback, env = Loopback.make(folder / "loopback"), processes.environment(folder / "home")
    heard = Heard(folder / "online")
    with back_door(loopback.certificate, loopback.key, superlink, trust, notice, heard) as door:
        out = f"{LOOPBACK}:{door.port}"
        commands = {
            name: processes.supernode_command(loopback, identity.key, out, config, port, trusted),
            executor(name): processes.superexec_command(loopback, f"{LOOPBACK}:{port}"),
        }
        try:
            yield Node(machines, name, commands, env, heard)
        finally:
            for made in (loopback.folder, folder / "home"):
                shutil.rmtree(made, ignore_errors=True)


def loopback_port(number: int) -> int:
    """Return where the processes of the site `number` meet: the same at every start, another one for each site, so that
    several sites can share a machine.
    """
    return _FIRST_PORT + number % _PORTS


def wait_for_free_port(port: int, patience: float = 15.0) -> None:
    """Wait until nothing listens at `port` of loopback, as a node that was killed ends a little later; raise GgeurError
    where something does for longer.
    """
    end = time.monotonic() + patience
    while True:
        try:
            bound(LOOPBACK, port).close()
        except GgeurError:
            if time.monotonic() >= end:
                raise
            time.sleep(_LOOK)
        else:
            return


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `address`."""
    host, colon, number = address.rpartition(":")
    if not (host and colon and number.isdigit()):
        raise GgeurError(
            f"{address!r} is no address; give HOST:PORT, as in fl.example.org:8000.", code="address-invalid"
        )
    return host, int(number)


def executor(name: str) -> str:
    """Return the name of the SuperExec of the node `name`."""
    return f"{name}-executor"
