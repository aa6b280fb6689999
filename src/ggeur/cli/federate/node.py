"""`ggeur federate node`: run a site's SuperNode."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from ggeur.cli.screen import mark, say
from ggeur.stats.errors import GgeurError


def node(
    superlink: Annotated[
        str | None, typer.Argument(help="HOST:PORT of the federation's server.", show_default=False)
    ] = None,
    kit: Annotated[
        Path | None, typer.Option(help="This site's folder of `ggeur federate kit`, in place of the next four.")
    ] = None,
    authority: Annotated[Path | None, typer.Option("--ca", help="The federation's ca.crt.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="This node's private key.")] = None,
    number: Annotated[
        int | None, typer.Option(min=0, help="This site's number from 0, unique in the federation.", show_default=False)
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, hidden=True, help="The name of --number in 0.2.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="This site's certificate; default: KEY.crt.")] = None,
    table: Annotated[Path | None, typer.Option(help="Embedding table (.npz) of this site.")] = None,
    images: Annotated[Path | None, typer.Option(help="Image folder of this site, embedded locally.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder for images; default: the experiment's.")] = None,
    domain: Annotated[str | None, typer.Option(help="This site's domain, if its table names none.")] = None,
    store: Annotated[Path | None, typer.Option(help="Folder for the training set; default: in the cache.")] = None,
    roster: Annotated[
        Path | None,
        typer.Option(help="All sites' public keys; then require secure aggregation."),
    ] = None,
    min_count: Annotated[int, typer.Option(min=0, help="Reject requests with a lower \\[privacy] min_count.")] = 0,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy budget of this site over all runs."),
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of the privacy budget.")] = 1e-5,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Loopback port of the node; default: 9094 + number.")
    ] = None,
    custom_methods: Annotated[
        bool,
        typer.Option("--custom-methods", help="Allow imports of custom methods and other parts."),
    ] = False,
    trusted: Annotated[
        Path | None, typer.Option("--trusted-entities", help="Flower's file of keys; run only apps signed by these.")
    ] = None,
) -> None:
    """Run this site's node (SuperNode), over TLS.

    Without telemetry.
    """
    from ggeur.flower.machines.processes import Machines, require_flower

    number = partition if number is None else number
    require_flower()
    from ggeur.flower.machines.kit import read_kit

    if kit is not None:
        site_kit = read_kit(kit.absolute())
        superlink, number = superlink or site_kit.server, site_kit.number
        authority, key, certificate = site_kit.authority, site_kit.key, site_kit.certificate
    if superlink is None or authority is None or key is None:
        raise GgeurError(
            "Name the site's folder with --kit, or HOST:PORT, --ca and --key.", code="node-options-missing"
        )
    if number is None:
        raise GgeurError("Give this site's number from 0 with --number.", code="option-number-missing")
    authority, key, trusted = authority.absolute(), key.absolute(), trusted and trusted.absolute()
    certificate = (certificate or key.with_name(f"{key.name}.crt")).absolute()
    for path in () if kit is not None else (authority, key, trusted):
        if path is not None and not path.exists():
            raise GgeurError(f"There is no file {path}.", code="file-missing")
    if kit is None and not certificate.exists():
        raise GgeurError(
            f"There is no file {certificate}; the server makes it from {key.name}.pub with `ggeur federate admit`.",
            code="certificate-missing",
        )
    from ggeur.flower.site.data import SiteData

    config: dict[str, Any] = {"partition-id": number}
    paths = {"table": table, "images": images, "store": store}
    config |= {name: str(path.absolute()) for name, path in paths.items() if path is not None}
    config |= {name: text for name, text in (("encoder", encoder), ("domain", domain)) if text is not None}
    config |= {"custom-methods": True} if custom_methods else {}
    config |= {"min-count": min_count} if min_count else {}
    config |= {"epsilon": repr(epsilon), "delta": repr(delta)} if epsilon is not None else {}
    config |= {"roster": str(roster.absolute()), "key": str(key)} if roster is not None else {}
    site = SiteData(config)  # now rather than at the first request
    if roster is not None:
        site.check_roster()
    data = Path(config.get("table") or config["images"])
    if not data.exists():
        raise GgeurError(f"There is no {data}; --table or --images names this site's data.", code="data-path-missing")
    from ggeur.flower.machines.node import Identity, loopback_port, site_node, wait_for_free_port
    from ggeur.flower.machines.supervisor import Supervisor, join
    from ggeur.stats.storage import cannot, lock_file

    def tell(sentence: str) -> None:
        say(sentence, soft_wrap=True)

    def notice(sentence: str) -> None:
        mark("door", sentence, soft_wrap=True)

    folder = site.root / f"node-{number}"
    with cannot(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(site.root, 0o700)  # also that of an earlier version
    identity = Identity(authority, key, certificate)
    port = loopback_port(number) if port is None else port
    with (
        lock_file(folder / ".lock", f"Another node with the number {number} uses {site.root}; end it first."),
        ExitStack() as door,  # the node still needs it while it ends
        Machines() as machines,
    ):
        wait_for_free_port(port)
        if kit is not None:
            join(site_kit, tell)
        running = site_node(machines, "node", identity, folder, superlink, config, port, notice, trusted)
        supervised = door.enter_context(running)
        Supervisor(supervised, superlink, identity, tell).run()
