"""The `ggeur` command: all commands, each declared in a module of its own."""

from collections.abc import Callable
from typing import Annotated

import typer

from ggeur.cli.add import add
from ggeur.cli.audit import audit
from ggeur.cli.cost import cost
from ggeur.cli.datasets import datasets
from ggeur.cli.demo import demo
from ggeur.cli.embed import embed
from ggeur.cli.encoders import encoders
from ggeur.cli.evaluate import evaluate
from ggeur.cli.export import export
from ggeur.cli.federate import federate
from ggeur.cli.fit import fit
from ggeur.cli.forget import forget
from ggeur.cli.inspect import inspect
from ggeur.cli.methods import methods
from ggeur.cli.plan import plan
from ggeur.cli.predict import predict
from ggeur.cli.report import report
from ggeur.cli.reproduce import reproduce
from ggeur.cli.run import run
from ggeur.cli.runs import runs
from ggeur.cli.screen import Voice, speak
from ggeur.cli.serve import serve
from ggeur.cli.summarize import summarize
from ggeur.cli.table import table

GROUPS: dict[str, tuple[Callable[..., None], ...]] = {  # as `--help` shows them
    "Classify across sites": (demo, plan, summarize, fit, evaluate, predict, add, forget),
    "Run experiments": (run, runs, report, reproduce),
    "Prepare data": (embed, table, inspect, datasets, encoders, methods),
    "Protect and deploy": (audit, export, serve, cost),
}
COMMANDS = tuple(command for commands in GROUPS.values() for command in commands)

app = typer.Typer(
    name="ggeur",
    help="Train one image classifier across sites that cannot share their images.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for group, commands in GROUPS.items():
    for command in commands:
        app.command(rich_help_panel=group)(command)
app.add_typer(federate, rich_help_panel="Protect and deploy")


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"ggeur {version('ggeur')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Set the options that stand before any command."""
    speak(Voice.WORDS)  # --quiet and --json-lines of a command change it
