"""The command line. Here commands are declared, one module each, and shown; what decides or computes is below.

Modules import nothing heavy before a command runs. A user's mistake is one sentence and exit code 2.
"""

import codecs
import io
import sys
import unicodedata

# Of one letter each, so that tables stay in line.
_PLAIN = {"±": "~", "…": ".", "–": "-", "—": "-", "’": "'", "×": "x", "β": "b", "★": "*", "━": "-", "·": "."}


def write_plainly_where_needed() -> None:
    """On a terminal or into a file that cannot hold a letter, another stands for it, and nothing fails."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        letters = (_PLAIN.get(c) or unicodedata.normalize("NFKD", c)[0] for c in error.object[error.start : error.end])
        return "".join(c if c.isascii() else "?" for c in letters), error.end

    codecs.register_error("ggeur-plain", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="ggeur-plain")


def main() -> None:
    """Entry point of the `ggeur` command."""
    from ggeur.cli.app import app
    from ggeur.core.errors import GgeurError
    from ggeur.runs.interrupt import stop_on_signals

    write_plainly_where_needed()
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
