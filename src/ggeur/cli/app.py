"""The commands and their options. Nothing heavy is imported before a command runs, so that `--help` is instant."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.federate_app import federate

app = typer.Typer(
    name="ggeur",
    help="Train one classifier over sites whose data may not move and does not look alike.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(federate)

Out = Annotated[Path | None, typer.Option("--out", help="Run folder to write; it must not exist or be empty.")]

Data = Annotated[Path | None, typer.Option("--data", help="Folder with datasets' own files; default: $GGEUR_DATA.")]


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
    experiment: Annotated[
        Path | None, typer.Argument(help="Experiment file (TOML); may be left out with --resume.", show_default=False)
    ] = None,
    out: Out = None,
    resume: Annotated[Path | None, typer.Option("--resume", help="Run folder to go on in.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override a value: section.key=value; may be repeated.")
    ] = None,
) -> None:
    """Run an experiment file: every point of its grid, with every seed."""
    from ggeur.cli.run import run as command

    command(experiment, out, resume, set_ or [])


@app.command()
def embed(
    source: Annotated[str, typer.Argument(help="A dataset's name, or a folder <domain>/<class>/* or <class>/*.")],
    out: Annotated[Path, typer.Option("--out", help="Embedding table to write (.npz).")],
    encoder: Annotated[
        str, typer.Option(help="builtin, onnx:PATH, or a Hugging Face model's name or folder.")
    ] = "openai/clip-vit-base-patch16",
    data: Data = None,
    share: Annotated[
        float | None, typer.Option(help="Share of each domain's training images to take; default: the paper's.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images per call of the encoder.")] = 64,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave unreadable images out, and list them.")
    ] = False,
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="Template for class names, with {}; may be repeated. Default: 'a photo of a {}'."),
    ] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale embeddings to unit length.")] = False,
    size: Annotated[int | None, typer.Option(help="ONNX: side of the square that the model takes, in pixels.")] = None,
    resize: Annotated[str | None, typer.Option(help="ONNX: shorter-side (and centre crop), or squeeze.")] = None,
    interpolation: Annotated[str | None, typer.Option(help="ONNX: nearest, bilinear, bicubic or lanczos.")] = None,
    mean: Annotated[
        tuple[float, float, float] | None, typer.Option(help="ONNX: mean of red, green, blue; default: ImageNet's.")
    ] = None,
    std: Annotated[
        tuple[float, float, float] | None, typer.Option(help="ONNX: standard deviation; default: ImageNet's.")
    ] = None,
) -> None:
    """Turn images into an embedding table: in batches, cached, and going on where it stopped."""
    from ggeur.cli.embed import embed as command

    command(
        source,
        encoder,
        out,
        data=data,
        share=share,
        batch=batch,
        skip_unreadable=skip_unreadable,
        prompts=prompt or [],
        normalize=normalize,
        size=size,
        resize=resize,
        interpolation=interpolation,
        mean=mean,
        std=std,
    )


@app.command()
def inspect(
    table: Annotated[Path, typer.Argument(help="Embedding table (.npz).")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the figures; default: numbers only.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Partition to draw: dirichlet, domain or label-and-domain. Default: by the number of domains."
        ),
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Clients of a dirichlet partition.")] = 10,
    beta: Annotated[
        list[float] | None, typer.Option(help="Skew; may be repeated. Default: the six of the paper's Figure 9.")
    ] = None,
    client: Annotated[
        int | None, typer.Option(min=0, help="Client to look at, under the first beta; default: the largest.")
    ] = None,
    class_: Annotated[list[str] | None, typer.Option("--class", help="Class to look at; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of split, partition and draws.")] = 0,
) -> None:
    """Show what a table holds: counts, norms, spectra, similarity across domains, and the paper's figures."""
    from ggeur.cli.inspect import inspect as command

    command(table, out, kind, clients, beta or [0.1, 0.3, 0.5, 0.7, 1, 5], client, class_ or [], seed)


@app.command()
def reproduce(
    table: Annotated[
        str | None, typer.Argument(help="Table of the paper: table1 to table7, table10, table11.", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say which tables can run here, and stop.")] = False,
    tables: Annotated[
        list[Path] | None,
        typer.Option("--table", help="Embedding table (.npz) to use; may be repeated. Default: embed the dataset."),
    ] = None,
    data: Data = None,
    rows: Annotated[
        list[str] | None, typer.Option(help="Rows to run, as in 'FedAvg*'; may be repeated. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with its own split and partition.")] = 3,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds; default: the paper's.", show_default=False)] = None,
    protocol: Annotated[
        str, typer.Option(help="paper (as written), released (as scripted) or sound (ours).")
    ] = "paper",
    encoder: Annotated[str, typer.Option(help="Encoder, where the dataset has to be embedded.")] = (
        "openai/clip-vit-base-patch16"
    ),
    out: Annotated[Path | None, typer.Option("--out", help="Run folder; an unfinished one is gone on with.")] = None,
) -> None:
    """Reproduce a table of the paper: measured beside published, with a report."""
    from ggeur.cli.reproduce import list_tables
    from ggeur.cli.reproduce import reproduce as command

    if list_ or table is None:
        list_tables(data)
    else:
        command(
            table,
            data=data,
            tables=tables or [],
            rows=rows or [],
            seeds=seeds,
            rounds=rounds,
            protocol=protocol,
            encoder=encoder,
            out=out,
        )


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    out: Annotated[Path, typer.Option("--out", help="Page to write.")] = Path("report.html"),
    latex: Annotated[
        bool, typer.Option("--latex", help="Also write the tables for a paper, as .tex beside it.")
    ] = False,
) -> None:
    """Write one self-contained page about finished runs: tables, figures, costs, settings."""
    from ggeur.cli.report import report as command

    command(runs, out, latex=latex)


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
def datasets(data: Data = None) -> None:
    """List the datasets that can be named, and where they were found."""
    from ggeur.cli.lists import datasets as command

    command(data)


@app.command()
def encoders() -> None:
    """List the encoders that turn images into embeddings."""
    from ggeur.cli.lists import encoders as command

    command()


@app.command()
def plan(
    clients: Annotated[
        int | None, typer.Option(min=1, help="Number of clients; default: from 10 to 100 million.", show_default=False)
    ] = None,
    classes: Annotated[int, typer.Option(min=1, help="Number of classes.")] = 10,
    dim: Annotated[int, typer.Option(min=1, help="Dimensions of the embeddings.")] = 512,
    client_mbit: Annotated[float, typer.Option(help="A client's link, in Mbit/s.")] = 20.0,
    server_mbit: Annotated[float, typer.Option(help="A server's or aggregator's link, in Mbit/s.")] = 1000.0,
    patience: Annotated[float, typer.Option(help="Seconds that one node may take in messages.")] = 600.0,
) -> None:
    """Print what a federation of any size costs: bytes, memory, work and time."""
    from ggeur.cli.plan import plan as command

    command(clients, classes, dim, client_mbit, server_mbit, patience)
