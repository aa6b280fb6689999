"""`ggeur federate`: the same experiment on real machines."""

import os
import shlex
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from ggeur.cli.run import default_folder
from ggeur.cli.show import console, progress, result_table, show_messages
from ggeur.core.errors import GgeurError
from ggeur.deploy.machines import processes as machines
from ggeur.deploy.machines.certificates import AUTHORITY, make_certificates, make_node_key
from ggeur.settings.grid import Experiment

_SAID = {  # what of the journal is worth a line
    "joined": "client {client} is there (node {node})",
    "returned": "[green]client {client} is back[/] (node {node})",
    "left": "[yellow]client {client} has left[/] (node {node}, round {round})",
    "refused": "[red]refused[/] node {node} (client {client}, round {round}): {why}",
    "missing": "[yellow]missing[/] client {client} in round {round}: {why}",
    "silent": "[yellow]no greeting[/] from node {node}: {why}",
    "resumed": "going on after round {round}",
    "note": "[yellow]note:[/] {why}",
}


def up(path: Path | None, nodes: int | None, out: Path | None, resume: Path | None, overrides: list[str]) -> None:
    machines.require_flower()
    from ggeur.deploy.machines.up import up as run_up
    from ggeur.deploy.machines.up import with_nodes
    from ggeur.deploy.server.serverapp import check_deployable

    if resume is not None and out is not None:
        raise GgeurError("--out names a new run folder and --resume an old one; give one of them.")
    if resume is not None:
        experiment = Experiment.load(path or resume / "config.toml", overrides)
    elif path is not None:
        experiment = Experiment.load(path, overrides)
    else:
        raise GgeurError("Name an experiment file to run, or a run folder to go on in with --resume.")
    experiment = with_nodes(experiment, nodes)
    check_deployable(experiment)
    folder = resume or out or default_folder(path.stem if path is not None else "federation")
    console.print(
        f"Starting a SuperLink and {experiment.points[0].federate.nodes} SuperNodes on loopback", highlight=False
    )
    try:
        with progress(experiment, folder) as on_round:
            result = run_up(experiment, folder, resume=resume is not None, on_round=on_round, on_event=_say)
    except KeyboardInterrupt as stopped:
        _say_how_to_go_on(folder, "Stopped.")
        raise typer.Exit(130) from stopped
    except GgeurError:
        _say_how_to_go_on(folder, "")
        raise
    console.print()
    console.print(result_table(result, folder.name))
    show_messages(result)
    console.print(f"Results, trained heads and federation.jsonl are in {folder}", markup=False, highlight=False)


def _say(event: dict[str, Any]) -> None:
    text = _SAID.get(event["event"])
    if text is not None:
        values = {name: escape(str(value)) for name, value in event.items()}
        console.print(text.format(**values), highlight=False, soft_wrap=True)


def _say_how_to_go_on(folder: Path, first: str) -> None:
    if (folder / "checkpoint").exists():
        command = f"ggeur federate up --resume {shlex.quote(str(folder))}"
        console.print(f"{first} Go on with: {command}".strip(), markup=False, highlight=False, soft_wrap=True)
    elif first:
        console.print(f"{first} No round was kept; there is nothing to go on from.", highlight=False)


def app(path: Path, folder: Path, out: str, overrides: list[str]) -> None:
    machines.require_flower()
    from ggeur.deploy.machines.flower_app import write_app

    if folder.exists() and not folder.is_dir():
        raise GgeurError(f"{folder} is a file; name a new folder.")
    if folder.exists() and any(folder.iterdir()):
        raise GgeurError(f"The folder {folder} is not empty; name a new one.")
    write_app(folder, Experiment.load(path, overrides), Path(out).absolute())
    console.print(
        f"A Flower app is in {folder}; run it with: flwr run {shlex.quote(str(folder))} SUPERLINK --stream",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def certificates(folder: Path, hosts: list[str], days: int) -> None:
    machines.require_flower()
    make_certificates(folder, hosts, days)
    console.print(
        f"{folder} holds server.crt and server.key for the SuperLink, and {AUTHORITY} for every node.",
        markup=False,
        highlight=False,
    )


def key(path: Path) -> None:
    machines.require_flower()
    make_node_key(path)
    console.print(
        f"{path} is the node's secret and stays with it; {path}.pub is to be registered at the SuperLink.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def link(folder: Path, host: str, port: int) -> None:
    machines.require_flower()
    for name in (AUTHORITY, "server.crt", "server.key"):
        if not (folder / name).exists():
            raise GgeurError(
                f"There is no {folder / name}; make it with `ggeur federate certificates {folder} --host HOST`."
            )
    _become(machines.link_command(folder, host, port))


def node(
    superlink: str, authority: Path, secret: Path, port: int, config: dict[str, Any], trusted: Path | None = None
) -> None:
    machines.require_flower()
    for path in (authority, secret, trusted):
        if path is not None and not path.exists():
            raise GgeurError(f"There is no file {path}.")
    from ggeur.deploy.site.data import Site

    Site(config)  # better now than at the first message
    data = Path(config.get("table") or config["images"])
    if not data.exists():
        raise GgeurError(f"There is no {data}; --table or --images names this site's data.")
    _become(machines.node_command(authority, secret, superlink, config, port, trusted))


def _become(command: list[str]) -> None:
    """This process turns into Flower's, with telemetry, update checks and run-time installs off."""
    os.execve(command[0], command, machines.environment())
