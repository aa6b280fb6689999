"""`ggeur federate run`: run an experiment over the sites of a running server."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.federate.up import say_event
from ggeur.cli.options import ExperimentFile, JsonLines, Overrides, Quiet, Resume
from ggeur.cli.screen import progress, say, show_result
from ggeur.stats.errors import GgeurError


def run(
    server: Annotated[Path, typer.Argument(help="Folder that `ggeur federate link` runs with.")],
    experiment: ExperimentFile = None,
    out: Annotated[Path | None, typer.Option("--out", help="New run folder to write.")] = None,
    resume: Resume = None,
    reopen: Annotated[
        bool, typer.Option("--reopen", help="With --resume: add sites missing from a finished run.")
    ] = False,
    set_: Overrides = None,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Run an experiment over the sites of a server.

    The server must be running. Waits for the end.
    """
    from ggeur.flower.machines.processes import require_flower

    require_flower()
    from ggeur.cli.run import experiment_and_folder
    from ggeur.flower.machines.running import ServerRun, with_sites
    from ggeur.flower.server.serverapp import check_deployable
    from ggeur.report.tracking import check_tracking, tracked

    if reopen and resume is None:
        raise GgeurError(
            "--reopen needs a finished run: name its folder with --resume.", code="option-reopen-without-run"
        )
    asked, folder = experiment_and_folder(experiment, out, resume, set_, real=True)
    asked = with_sites(asked, server)
    check_deployable(asked)
    check_tracking(asked)
    try:
        with progress(asked, folder) as shown, tracked(asked, folder, shown) as on_round:
            going_on = resume is not None
            result = ServerRun(server, asked, folder, on_round, say_event).finish(resume=going_on, again=reopen)
    except (KeyboardInterrupt, GgeurError) as stopped:
        if (folder / "checkpoint").exists():
            command = f"ggeur federate run {shlex.quote(str(server))} --resume {shlex.quote(str(folder))}"
            say(f"Go on with: {command}", soft_wrap=True)
        if isinstance(stopped, KeyboardInterrupt):
            raise typer.Exit(130) from stopped
        raise
    show_result(result, folder.name)
    say(f"Results, trained heads and federation.jsonl are in {folder}")
