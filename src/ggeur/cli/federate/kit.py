"""`ggeur federate kit`: make a folder for the server and one for each site."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import say


def kit(
    sites: Annotated[str, typer.Option(help="Names of the sites, with commas between.")],
    host: Annotated[str, typer.Option(help="Host name or address by which sites reach the server.")],
    folder: Annotated[Path, typer.Argument(help="New folder to write.")] = Path("federation"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the server.")] = 8000,
    days: Annotated[int, typer.Option(min=1, help="How long certificates are valid.")] = 365,
) -> None:
    """Make a folder for the server and one per site.

    Each site's folder is to be handed over to it.
    """
    from ggeur.flower.machines.kit import SERVER, make_kit
    from ggeur.flower.machines.processes import require_flower

    require_flower()
    names = [name.strip() for name in sites.split(",") if name.strip()]
    make_kit(folder, names, host, port, days)
    say(f"{folder / SERVER} is for the server: ggeur federate link {folder / SERVER}", soft_wrap=True)
    for name in names:
        say(f"{folder / name} is for {name}, who starts it: ./start --table TABLE.npz", soft_wrap=True)
