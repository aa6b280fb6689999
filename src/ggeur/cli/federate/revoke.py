"""`ggeur federate revoke`: revoke a site's certificate."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import say


def revoke(
    certificates: Annotated[Path, typer.Argument(help="Folder that `ggeur federate link` was started with.")],
    name: Annotated[str, typer.Argument(help="Name of the site.")],
) -> None:
    """Revoke a site's certificate.

    A running link refuses the site's next call.
    """
    from ggeur.flower.machines.certificates import REVOKED, revoke_site
    from ggeur.flower.machines.processes import require_flower

    require_flower()
    serial = revoke_site(certificates, name)
    say(f"{certificates / REVOKED} has the certificate {serial} of {name}.", soft_wrap=True)
