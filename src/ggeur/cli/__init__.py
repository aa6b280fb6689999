"""The command line: `ggeur`, one thin module per command. A user's mistake is one sentence and exit code 2."""

import sys


def main() -> None:
    """Entry point of the `ggeur` command."""
    from rich.console import Console

    from ggeur.cli.app import app
    from ggeur.core.errors import GgeurError
    from ggeur.runs.interrupt import stop_on_signals

    stop_on_signals()  # before anything heavy is imported
    try:
        app()
    except GgeurError as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {_plain(str(error))}", highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
