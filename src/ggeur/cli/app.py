"""The commands and their options. Nothing heavy is imported before a command runs, so that `--help` is instant."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="ggeur",
    help="Train one classifier over sites whose data may not move and does not look alike.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Out = Annotated[Path | None, typer.Option("--out", help="Run folder to write; it must not exist or be empty.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ggeur {version('ggeur')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options before any command."""


@app.command()
def demo(
    out: Out = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the federation.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with its own split and partition.")] = 3,
) -> None:
    """Compare FedAvg, its controls and GGEUR on the built-in digits, in about a minute."""
    from ggeur.cli.demo import demo as command

    command(out, rounds, seeds)


@app.command()
def run(
    experiment: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    out: Out = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override a value: section.key=value; may be repeated.")
    ] = None,
) -> None:
    """Run an experiment file: every point of its grid, with every seed."""
    from ggeur.cli.run import run as command

    command(experiment, out, set_ or [])


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Run folder, or one model of it (RUN/model/cell-000).")],
    table: Annotated[Path, typer.Argument(help="Embedding table (.npz) made with the same encoder.")],
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write; default: print a summary.")] = None,
) -> None:
    """Classify the rows of a table with a trained head."""
    from ggeur.cli.predict import predict as command

    command(model, table, out)


@app.command()
def methods() -> None:
    """List the federated methods and their parameters."""
    from ggeur.cli.lists import methods as command

    command()


@app.command()
def datasets() -> None:
    """List the datasets that can be named in an experiment."""
    from ggeur.cli.lists import datasets as command

    command()


@app.command()
def encoders() -> None:
    """List the encoders that turn images into embeddings."""
    from ggeur.cli.lists import encoders as command

    command()
