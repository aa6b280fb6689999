"""A federation's server: the SuperLink and its SuperExec on loopback, and the door before them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket

from ggeur.flower.door.doors import front_door
from ggeur.flower.door.invitations import Invitations
from ggeur.flower.door.node_calls import Notice
from ggeur.flower.machines import processes
from ggeur.flower.machines.certificates import AUTHORITY, REVOKED, SERVER, SERVER_KEY
from ggeur.flower.machines.loopback import LOOPBACK, Loopback
from ggeur.flower.machines.processes import Machines
from ggeur.flower.machines.status import FAULTS, Faults

SUPERLINK, SUPEREXEC = "superlink", "superexec"
STATE = "state.db"  # registered nodes, runs, and what sites have sent, until a new series of runs begins


@dataclass(frozen=True)
class Link:
    """A running server."""

    address: str  # of the SuperLink, on loopback, where `flwr` reaches it
    home: Path  # FLWR_HOME, whose configuration says so
    port: int  # of the door, where sites reach it


@contextmanager
def running_link(
    machines: Machines, certificates: Path, folder: Path, made: socket, notice: Notice, name: str
) -> Iterator[Link]:
    """Run a server with the `certificates` of its federation; its door is at the bound socket `made`.

    Its local files are made in `folder`, which only its user can read. `flwr` knows it by `name`. The SuperLink's
    state stays there: one that is started again knows its sites.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    loopback, home = Loopback.make(folder / "loopback"), folder / "home"
    (port,) = processes.free_ports(1)
    address = f"{LOOPBACK}:{port}"
    processes.write_connection(home, name, address, loopback.authority)
    env = processes.environment(home)
    machines.start(SUPERLINK, processes.superlink_command(loopback, port, folder / STATE), env)
    machines.wait_for_port(SUPERLINK, port)
    machines.start(SUPEREXEC, processes.superexec_command(loopback, address), env)
    keys = (certificates / SERVER, certificates / SERVER_KEY, certificates / AUTHORITY, certificates / REVOKED)
    invitations, faults = Invitations(certificates), Faults(folder / FAULTS)
    trust = loopback.client_context()
    with front_door(made, *keys, address, trust, notice, invitations=invitations, faults=faults) as door:
        yield Link(address, home, door.port)
