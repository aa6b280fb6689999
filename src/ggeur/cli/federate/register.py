"""`ggeur federate register`: let sites in."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import say


def register(
    server: Annotated[Path, typer.Argument(help="Folder that `ggeur federate link` runs with.")],
    names: Annotated[list[str] | None, typer.Argument(help="Sites to let in; default: all that have asked.")] = None,
    public_key: Annotated[Path | None, typer.Option(help="Public key of a site that has no kit.")] = None,
    days: Annotated[int, typer.Option(min=1, help="How long the certificate is valid.")] = 365,
) -> None:
    """Let in the sites that have asked to join.

    Compare their fingerprints first.
    """
    from ggeur.flower.machines.processes import require_flower
    from ggeur.flower.machines.registering import let_in

    require_flower()
    for name, fingerprint in let_in(server, names or [], public_key, days):
        say(f"{name} is let in, with the node key {fingerprint}", soft_wrap=True)
