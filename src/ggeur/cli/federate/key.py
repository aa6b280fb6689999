"""`ggeur federate key`: make a node's key pair."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import say


def key(
    path: Annotated[Path, typer.Argument(help="File for the node's private key; .pub is written beside it.")],
) -> None:
    """Make the key pair that authenticates a node."""
    from ggeur.flower.machines.certificates import make_node_key
    from ggeur.flower.machines.processes import require_flower

    require_flower()
    make_node_key(path)
    say(
        f"{path} is the node's secret and stays with it; {path}.pub is to be registered at the SuperLink.",
        soft_wrap=True,
    )
