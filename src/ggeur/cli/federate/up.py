"""`ggeur federate up`: run a whole federation as processes on this machine."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ggeur.cli.options import ExperimentFile, JsonLines, Overrides, Quiet, Resume
from ggeur.cli.run import experiment_and_folder
from ggeur.cli.screen import console, event, progress, say, show_result
from ggeur.stats.errors import GgeurError

_JOURNAL_LINES = {  # the events of the journal that are printed
    "joined": "client {client} has joined (node {node})",
    "returned": "[green]client {client} is back[/] (node {node})",
    "left": "[yellow]client {client} has left[/] (node {node}, round {round})",
    "refused": "[red]refused[/] node {node} (client {client}, round {round}): {why}",
    "missing": "[yellow]missing[/] client {client} in round {round}: {why}",
    "awaited": "[yellow]waiting[/] up to {seconds} s for clients {clients}, lost before statistics were merged",
    "silent": "[yellow]no greeting[/] from node {node}: {why}",
    "resumed": "resuming after round {round}",
    "summed": "secure aggregation of {what}: total of sites {sites} opened",
    "restarted": "[yellow]secure aggregation of {what}: restarted with new keys[/]",
    "note": "[yellow]note:[/] {why}",
}


def up(
    experiment: ExperimentFile = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Number of nodes; default: clients of the partition.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="New run folder to write.")] = None,
    resume: Resume = None,
    reopen: Annotated[
        bool, typer.Option("--reopen", help="With --resume: add sites missing from a finished run.")
    ] = False,
    set_: Overrides = None,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Run a whole federation on this machine.

    Starts a SuperLink and SuperNodes, with TLS and keys, on loopback.
    """
    from ggeur.flower.machines.processes import require_flower

    require_flower()
    from ggeur.flower.machines.up import check_new_run, with_nodes
    from ggeur.flower.machines.up import up as run_up
    from ggeur.flower.server.serverapp import check_deployable
    from ggeur.report.tracking import check_tracking, tracked

    if reopen and resume is None:
        raise GgeurError(
            "--reopen needs a finished run: name its folder with --resume.", code="option-reopen-without-run"
        )
    asked, folder = experiment_and_folder(experiment, out, resume, set_, real=True)
    if resume is None:
        check_new_run(folder)
    asked = with_nodes(asked, nodes)
    check_deployable(asked)
    check_tracking(asked)
    console.print(f"Starting a SuperLink and {asked.points[0].federate.sites} SuperNodes on loopback", highlight=False)
    try:
        with progress(asked, folder) as shown, tracked(asked, folder, shown) as on_round:
            going_on = resume is not None
            result = run_up(asked, folder, resume=going_on, again=reopen, on_round=on_round, on_event=say_event)
    except KeyboardInterrupt as stopped:
        _say_how_to_go_on(folder, "Stopped.")
        raise typer.Exit(130) from stopped
    except GgeurError:
        _say_how_to_go_on(folder, "")
        raise
    show_result(result, folder.name)
    say(f"Results, trained heads and federation.jsonl are in {folder}")


def say_event(happened: dict[str, Any]) -> None:
    """Print an event of the journal."""
    text = _JOURNAL_LINES.get(happened["event"])
    event("federation", **{"what" if name == "event" else name: value for name, value in happened.items()})
    if text is not None:
        values = {name: escape(str(value)) for name, value in happened.items()}
        console.print(text.format(**values), highlight=False, soft_wrap=True)


def _say_how_to_go_on(folder: Path, first: str) -> None:
    if (folder / "checkpoint").exists():
        command = f"ggeur federate up --resume {shlex.quote(str(folder))}"
        say(f"{first} Go on with: {command}".strip(), soft_wrap=True)
    elif first:
        say(f"{first} No round was kept; there is nothing to go on from.")
