"""`ggeur federate link`: run the federation's server."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import mark, say
from ggeur.stats.errors import GgeurError


def link(
    certificates: Annotated[Path, typer.Argument(help="Folder with ca.crt, server.crt and server.key.")],
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: the kit's, or loopback.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0: any; default: the kit's, or 8000.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the state: registered sites, runs, messages.")] = False,
    metrics: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Loopback port of /metrics, for Prometheus.")
    ] = None,
) -> None:
    """Run the server (SuperLink), which admits sites.

    It is on loopback, behind a proxy (the door) that admits sites by certificate.
    """
    from ggeur.flower.machines.certificates import AUTHORITY, SERVER, SERVER_KEY
    from ggeur.flower.machines.processes import Machines, require_flower

    require_flower()
    for name in (AUTHORITY, SERVER, SERVER_KEY):
        if not (certificates / name).exists():
            raise GgeurError(
                f"There is no {certificates / name}; make it with `ggeur federate certificates {certificates} "
                "--host HOST`.",
                code="certificate-missing",
            )
    from ggeur.flower.door.listening import bound
    from ggeur.flower.machines.kit import read_federation
    from ggeur.flower.machines.link import STATE, SUPEREXEC, SUPERLINK, running_link
    from ggeur.flower.machines.status import serve_metrics
    from ggeur.stats.storage import cannot, lock_file

    facts = read_federation(certificates)
    host = host or (facts.listen if facts else "127.0.0.1")
    port = port if port is not None else facts.port if facts else 8000
    made, folder = bound(host, port), certificates.absolute() / "link"

    def notice(sentence: str) -> None:
        mark("door", sentence, soft_wrap=True)

    with cannot(f"write {folder}"):
        folder.mkdir(exist_ok=True, mode=0o700)
    say("Starting the SuperLink")
    with (
        lock_file(folder / ".lock", f"Another link runs with {certificates}; end that one first."),
        ExitStack() as door,
        Machines() as machines,
    ):
        known = (folder / STATE).exists() and not fresh
        if fresh:
            for file in folder.glob(f"{STATE}*"):
                file.unlink()
        if known:
            say("Sites and runs of before are known; --fresh begins anew")
        running = door.enter_context(running_link(machines, certificates, folder, made, notice, name="ours"))
        say(f"Sites reach the door at {host}:{running.port}. On this machine, flwr reaches the SuperLink after")
        say(f"export FLWR_HOME={running.home}", soft_wrap=True)
        say(f"Let sites in with: ggeur federate register {certificates}", soft_wrap=True)
        if metrics is not None:
            serve_metrics(certificates, metrics)
        machines.watch((SUPERLINK, SUPEREXEC), notice)
