"""A site: its SuperNode and SuperExec on loopback, and the door through which they reach the federation's server."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ggeur.flower.door.doors import back_door, site_context
from ggeur.flower.door.node_calls import Notice
from ggeur.flower.machines import processes
from ggeur.flower.machines.loopback import LOOPBACK, Loopback
from ggeur.flower.machines.processes import Machines
from ggeur.stats.errors import GgeurError


@dataclass(frozen=True)
class Identity:
    """The files by which a site and its server authenticate each other."""

    authority: Path  # the federation's ca.crt
    key: Path  # the node's private key
    certificate: Path  # the site's, made for that key


@contextmanager
def running_node(
    machines: Machines,
    name: str,
    identity: Identity,
    folder: Path,
    superlink: str,
    config: Mapping[str, Any],
    port: int,
    notice: Notice,
    trusted: Path | None = None,
) -> Iterator[None]:
    """Run the node `name` for the server whose door is at `superlink`; its own processes meet at `port` of loopback.

    Their files are made in `folder` and removed at the end; `machines` must end first. `config` is known to this site
    only: its partition, its data. With `trusted`, Flower's file of public keys, it runs only apps that one of them has
    signed.
    """
    host, colon, number = superlink.rpartition(":")
    if not (host and colon and number.isdigit()):
        raise GgeurError(
            f"{superlink!r} is no address; give HOST:PORT, as in fl.example.org:8000.", code="address-invalid"
        )
    trust = site_context(identity.authority, identity.key, identity.certificate)
    loopback, env = Loopback.make(folder / "loopback"), processes.environment(folder / "home")
    with back_door(loopback.certificate, loopback.key, superlink, trust, notice) as door:
        out = f"{LOOPBACK}:{door.port}"
        command = processes.supernode_command(loopback, identity.key, out, config, port, trusted)
        machines.start(name, command, env)
        # It tries until the SuperNode listens, and knows it by its certificate.
        machines.start(executor(name), processes.superexec_command(loopback, f"{LOOPBACK}:{port}"), env)
        try:
            yield
        finally:
            for made in (loopback.folder, folder / "home"):
                shutil.rmtree(made, ignore_errors=True)


def executor(name: str) -> str:
    """Return the name of the SuperExec of the node `name`."""
    return f"{name}-executor"
