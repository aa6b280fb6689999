"""`ggeur federate status`: the sites of a running server."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import console


def status(
    server: Annotated[Path, typer.Argument(help="Folder that `ggeur federate link` runs with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Show which sites are online.

    Also since when, and their last errors.
    """
    import json
    from dataclasses import asdict

    from rich.table import Table

    from ggeur.flower.machines.processes import require_flower
    from ggeur.flower.machines.status import federation_status

    require_flower()
    sites = federation_status(server)
    if as_json:
        print(json.dumps([asdict(one) for one in sites]))
        return
    table = Table("site", "state", "since", "last error", box=None)
    for one in sites:
        error = "" if one.error is None else f"{one.error_at}: {one.error}"
        table.add_row(one.name, one.state, (one.since or "")[:19].replace("T", " "), error)
    console.print(table)
