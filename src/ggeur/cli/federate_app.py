"""The commands below `ggeur federate` and their options; nothing heavy is imported before one runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

federate = typer.Typer(name="federate", help="Run an experiment on real machines, with Flower.", no_args_is_help=True)

Set = Annotated[list[str] | None, typer.Option("--set", help="Override a value: section.key=value; may be repeated.")]


@federate.command()
def up(
    experiment: Annotated[
        Path | None, typer.Argument(help="Experiment file (TOML); may be left out with --resume.", show_default=False)
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes; as many as the partition makes clients.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write; it must not exist.")] = None,
    resume: Annotated[Path | None, typer.Option("--resume", help="Run folder to go on in.")] = None,
    set_: Set = None,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, with TLS and keys, and run an experiment over them."""
    from ggeur.cli.federate import up as command

    command(experiment, nodes, out, resume, set_ or [])


@federate.command()
def app(
    experiment: Annotated[Path, typer.Argument(help="Experiment file (TOML) with [federate] nodes.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write the app to.")],
    out: Annotated[str, typer.Option("--out", help="Run folder, on the SuperLink's machine.")],
    set_: Set = None,
) -> None:
    """Write a Flower app that runs an experiment, for `flwr run`."""
    from ggeur.cli.federate import app as command

    command(experiment, folder, out, set_ or [])


@federate.command()
def certificates(
    folder: Annotated[Path, typer.Argument(help="Folder to write them to.")],
    host: Annotated[list[str], typer.Option(help="Name or address by which nodes reach the server; may be repeated.")],
    days: Annotated[int, typer.Option(min=1, help="How long they are valid.")] = 365,
) -> None:
    """Make TLS certificates for a SuperLink."""
    from ggeur.cli.federate import certificates as command

    command(folder, host, days)


@federate.command()
def key(
    path: Annotated[Path, typer.Argument(help="File for the node's private key; .pub is written beside it.")],
) -> None:
    """Make the key by which a node proves who it is."""
    from ggeur.cli.federate import key as command

    command(path)


@federate.command()
def link(
    certificates: Annotated[Path, typer.Argument(help="Folder with ca.crt, server.crt and server.key.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
) -> None:
    """Run a SuperLink that admits registered nodes only, over TLS, without telemetry."""
    from ggeur.cli.federate import link as command

    command(certificates, host, port)


@federate.command()
def node(
    superlink: Annotated[str, typer.Argument(help="HOST:PORT of the SuperLink.")],
    authority: Annotated[Path, typer.Option("--ca", help="The federation's ca.crt.")],
    key: Annotated[Path, typer.Option("--key", help="This node's private key.")],
    partition: Annotated[int, typer.Option(min=0, help="This site's number, from 0 on, its own in the federation.")],
    table: Annotated[Path | None, typer.Option(help="Embedding table (.npz) of this site.")] = None,
    images: Annotated[Path | None, typer.Option(help="Or a folder of images, embedded here.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder for images; default: the experiment's.")] = None,
    domain: Annotated[str | None, typer.Option(help="Name of this site's domain, where its table names none.")] = None,
    store: Annotated[Path | None, typer.Option(help="Folder for its training set; default: in the cache.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Loopback port for the node's own processes.")] = 9094,
    own_methods: Annotated[
        bool, typer.Option("--own-methods", help='Allow methods named "package.module:name", which are imported here.')
    ] = False,
    trusted: Annotated[
        Path | None, typer.Option("--trusted-entities", help="Run only apps signed by a key in this file of Flower's.")
    ] = None,
) -> None:
    """Run a SuperNode for this site's data, over TLS, without telemetry."""
    from ggeur.cli.federate import node as command

    config: dict[str, Any] = {"partition-id": partition}
    paths = {"table": table, "images": images, "store": store}
    config |= {name: str(path.absolute()) for name, path in paths.items() if path is not None}
    config |= {name: text for name, text in (("encoder", encoder), ("domain", domain)) if text is not None}
    config |= {"own-methods": True} if own_methods else {}
    command(superlink, authority.absolute(), key.absolute(), port, config, trusted and trusted.absolute())
