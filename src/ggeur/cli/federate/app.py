"""`ggeur federate app`: write an experiment as a Flower app."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import Overrides
from ggeur.cli.screen import mark, say
from ggeur.stats.errors import GgeurError


def app(
    experiment: Annotated[Path, typer.Argument(help="Experiment file (TOML) with \\[federate] sites.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write the app to.")],
    out: Annotated[str, typer.Option("--out", help="Run folder, on the SuperLink's machine.")],
    set_: Overrides = None,
) -> None:
    """Write the Flower app of an experiment, for `flwr run`."""
    from ggeur.flower.machines.processes import require_flower

    require_flower()
    from ggeur.experiments.grid import Experiment
    from ggeur.flower.machines.flower_app import write_app
    from ggeur.flower.server.serverapp import unprotected

    if folder.exists() and not folder.is_dir():
        raise GgeurError(f"{folder} is a file; name a new folder.", code="folder-is-file")
    if folder.exists() and any(folder.iterdir()):
        raise GgeurError(f"The folder {folder} is not empty; name a new one.", code="folder-not-empty")
    asked = Experiment.load(experiment, set_ or [])
    write_app(folder, asked, Path(out).absolute())
    if note := unprotected(asked):
        mark("note", note)
    say(
        f"A Flower app is in {folder}; run it with: flwr run {shlex.quote(str(folder))} SUPERLINK --stream",
        soft_wrap=True,
    )
