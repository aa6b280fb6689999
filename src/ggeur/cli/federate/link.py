"""`ggeur federate link`: this process becomes a SuperLink."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ggeur.core.errors import GgeurError


def link(
    certificates: Annotated[Path, typer.Argument(help="Folder with ca.crt, server.crt and server.key.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
) -> None:
    """Run a SuperLink that admits registered nodes only, over TLS, without telemetry."""
    from ggeur.deploy.machines.certificates import AUTHORITY, SERVER, SERVER_KEY
    from ggeur.deploy.machines.processes import link_command, require_flower

    require_flower()
    for name in (AUTHORITY, SERVER, SERVER_KEY):
        if not (certificates / name).exists():
            raise GgeurError(
                f"There is no {certificates / name}; make it with `ggeur federate certificates {certificates} "
                "--host HOST`."
            )
    become(link_command(certificates, host, port))


def become(command: list[str]) -> None:
    """This process turns into Flower's, with telemetry, update checks and run-time installs off."""
    from ggeur.deploy.machines.processes import environment

    os.execve(command[0], command, environment())
