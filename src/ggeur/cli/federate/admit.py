"""`ggeur federate admit`: make a certificate for a site."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import say


def admit(
    certificates: Annotated[Path, typer.Argument(help="Folder that `ggeur federate certificates` wrote.")],
    public_key: Annotated[Path, typer.Argument(help="The node's public key, which the site sent.")],
    name: Annotated[str, typer.Option(help="Name of the site, unique in the federation.")],
    days: Annotated[int, typer.Option(min=1, help="How long the certificate is valid.")] = 365,
) -> None:
    """Make the certificate that a site shows to the server."""
    from ggeur.flower.machines.certificates import AUTHORITY, make_site_certificate
    from ggeur.flower.machines.processes import require_flower

    require_flower()
    path = make_site_certificate(certificates, public_key, name, days)
    say(f"Send {path} and {certificates / AUTHORITY} to {name}; neither is secret.", soft_wrap=True)
