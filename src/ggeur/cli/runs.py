"""`ggeur runs`: list runs and models."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column

from ggeur.cli.options import JsonLines
from ggeur.cli.screen import console, event, say, titled_table


def runs(
    folder: Annotated[Path, typer.Argument(help="Folder that holds run folders and models.")] = Path("."),
    json_lines: JsonLines = False,
) -> None:
    """List runs and models with their accuracy.

    One line each: name, date, state, best method, accuracy.
    """
    from rich.markup import escape

    from ggeur.report.folders import list_runs

    found = list_runs(folder)
    if not found:
        say(f"There are no runs and no models in {folder}.")
        return
    columns = (Column("name", overflow="fold"), Column("changed", no_wrap=True), "state", "best method")
    table = titled_table("", *columns, Column("AVG", justify="right", no_wrap=True))
    for one in found:
        accuracy = "" if one.accuracy is None else f"{one.accuracy:.1f}"
        table.add_row(escape(one.name), f"{one.date:%Y-%m-%d %H:%M}", one.state, escape(one.method), accuracy)
        event(one.kind, **one._asdict() | {"date": one.date.isoformat()})
    console.print(table)
