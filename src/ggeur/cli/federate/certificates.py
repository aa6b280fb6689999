"""`ggeur federate certificates`: by which nodes know their server."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import say


def certificates(
    folder: Annotated[Path, typer.Argument(help="Folder to write them to.")],
    host: Annotated[list[str], typer.Option(help="Name or address by which nodes reach the server; may be repeated.")],
    days: Annotated[int, typer.Option(min=1, help="How long they are valid.")] = 365,
) -> None:
    """Make TLS certificates for a SuperLink."""
    from ggeur.deploy.machines.certificates import AUTHORITY, make_certificates
    from ggeur.deploy.machines.processes import require_flower

    require_flower()
    make_certificates(folder, host, days)
    say(f"{folder} holds server.crt and server.key for the SuperLink, and {AUTHORITY} for every node.")
