"""`ggeur federate certificates`: make the federation's authority and the server's TLS certificate."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import say


def certificates(
    folder: Annotated[Path, typer.Argument(help="Folder to write them to.")],
    host: Annotated[list[str], typer.Option(help="Host name or address of the server; repeatable.")],
    days: Annotated[int, typer.Option(min=1, help="How long they are valid.")] = 365,
) -> None:
    """Make the authority and the server's certificate."""
    from ggeur.flower.machines.certificates import AUTHORITY, AUTHORITY_KEY, make_certificates
    from ggeur.flower.machines.processes import require_flower

    require_flower()
    make_certificates(folder, host, days)
    say(f"{folder} holds server.crt and server.key for `ggeur federate link`, and {AUTHORITY} for every site.")
    say(f"{folder / AUTHORITY_KEY} makes the certificates of sites: keep it secret, and a copy of it elsewhere.")
