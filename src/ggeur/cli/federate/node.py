"""`ggeur federate node`: a site."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from ggeur.cli.screen import mark, say
from ggeur.core.errors import GgeurError


def node(
    superlink: Annotated[str, typer.Argument(help="HOST:PORT of the federation's server.")],
    authority: Annotated[Path, typer.Option("--ca", help="The federation's ca.crt.")],
    key: Annotated[Path, typer.Option("--key", help="This node's private key.")],
    partition: Annotated[int, typer.Option(min=0, help="This site's number, from 0 on, its own in the federation.")],
    certificate: Annotated[
        Path | None, typer.Option(help="This site's certificate; default: that beside the key, KEY.crt.")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="Embedding table (.npz) of this site.")] = None,
    images: Annotated[Path | None, typer.Option(help="Or a folder of images, embedded here.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder for images; default: the experiment's.")] = None,
    domain: Annotated[str | None, typer.Option(help="Name of this site's domain, where its table names none.")] = None,
    store: Annotated[Path | None, typer.Option(help="Folder for its training set; default: in the cache.")] = None,
    roster: Annotated[
        Path | None,
        typer.Option(help="All sites' public keys, for secure aggregation; it then answers under those alone."),
    ] = None,
    min_count: Annotated[
        int, typer.Option(min=0, help="Answer only where [privacy] min_count keeps trials of fewer rows here.")
    ] = 0,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Or only under [privacy] epsilon: what all messages of this site, run after run, may spend."),
    ] = None,
    delta: Annotated[float, typer.Option(help="The delta of that budget.")] = 1e-5,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Loopback port for the node's own processes.")] = 9094,
    custom_methods: Annotated[
        bool,
        typer.Option("--custom-methods", help='Allow methods named "package.module:name", which are imported here.'),
    ] = False,
    trusted: Annotated[
        Path | None, typer.Option("--trusted-entities", help="Run only apps signed by a key in this file of Flower's.")
    ] = None,
) -> None:
    """Run a SuperNode for this site's data, over TLS, without telemetry."""
    from ggeur.deploy.machines.processes import Machines, require_flower

    require_flower()
    authority, key, trusted = authority.absolute(), key.absolute(), trusted and trusted.absolute()
    certificate = (certificate or key.with_name(f"{key.name}.crt")).absolute()
    for path in (authority, key, trusted):
        if path is not None and not path.exists():
            raise GgeurError(f"There is no file {path}.", code="file-missing")
    if not certificate.exists():
        raise GgeurError(
            f"There is no file {certificate}; the federation's server makes it of {key.name}.pub with `ggeur federate "
            "admit`.",
            code="certificate-missing",
        )
    from ggeur.deploy.site.data import SiteData

    config: dict[str, Any] = {"partition-id": partition}
    paths = {"table": table, "images": images, "store": store}
    config |= {name: str(path.absolute()) for name, path in paths.items() if path is not None}
    config |= {name: text for name, text in (("encoder", encoder), ("domain", domain)) if text is not None}
    config |= {"custom-methods": True} if custom_methods else {}
    config |= {"min-count": min_count} if min_count else {}
    config |= {"epsilon": repr(epsilon), "delta": repr(delta)} if epsilon is not None else {}
    config |= {"roster": str(roster.absolute()), "key": str(key)} if roster is not None else {}
    site = SiteData(config)  # better now than at the first message
    if roster is not None:
        site.check_roster()
    data = Path(config.get("table") or config["images"])
    if not data.exists():
        raise GgeurError(f"There is no {data}; --table or --images names this site's data.", code="data-path-missing")
    from ggeur.data.files import cannot, lock_file
    from ggeur.deploy.machines.node import Identity, executor, running_node

    def notice(sentence: str) -> None:
        mark("door", sentence, soft_wrap=True)

    folder = site.root / f"node-{partition}"
    with cannot(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(site.root, 0o700)  # also that of an earlier version
    identity = Identity(authority, key, certificate)
    with (
        lock_file(folder / ".lock", f"Another node of partition {partition} uses {site.root}; end it first."),
        ExitStack() as door,  # which the node still leaves by
        Machines() as machines,
    ):
        door.enter_context(running_node(machines, "node", identity, folder, superlink, config, port, notice, trusted))
        say(f"The node calls {superlink} with the certificate {certificate}.", soft_wrap=True)
        machines.watch("node", executor("node"), notice)
