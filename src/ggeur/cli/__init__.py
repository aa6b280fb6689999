"""The command line. Here commands are declared, one module each, and shown; what decides or computes is below.

Modules import nothing heavy before a command runs. A user's mistake is one sentence and exit code 2.
"""

import sys


def main() -> None:
    """Entry point of the `ggeur` command."""
    from ggeur.cli.app import app
    from ggeur.core.errors import GgeurError
    from ggeur.runs.interrupt import stop_on_signals

    stop_on_signals()  # before anything heavy is imported
    try:
        app()
    except GgeurError as error:
        from rich.console import Console
        from rich.markup import escape

        console = Console(stderr=True, soft_wrap=True, emoji=False, highlight=False)
        console.print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
