"""`ggeur federate`: run an experiment on real machines; one module per command."""

from collections.abc import Callable

import typer

from ggeur.cli.federate.admit import admit
from ggeur.cli.federate.app import app
from ggeur.cli.federate.certificates import certificates
from ggeur.cli.federate.key import key
from ggeur.cli.federate.kit import kit
from ggeur.cli.federate.link import link
from ggeur.cli.federate.node import node
from ggeur.cli.federate.register import register
from ggeur.cli.federate.revoke import revoke
from ggeur.cli.federate.run import run
from ggeur.cli.federate.status import status
from ggeur.cli.federate.up import up

COMMANDS: tuple[Callable[..., None], ...] = (
    *(up, kit, link, node, register, run, status, revoke),
    *(certificates, key, admit, app),
)

federate = typer.Typer(name="federate", help="Run an experiment on real machines, with Flower.", no_args_is_help=True)
for command in COMMANDS:
    federate.command()(command)
