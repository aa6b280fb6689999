"""The command line: one module per command, which declares its options and prints its results.

Modules import nothing heavy before a command runs. A user's mistake is one sentence and exit code 2.
"""

import codecs
import io
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Each replacement is one character wide, so that tables stay aligned.
_PLAIN = {"±": "~", "…": ".", "–": "-", "—": "-", "’": "'", "×": "x", "β": "b", "★": "*", "━": "-", "·": "."}


def write_plainly_where_needed() -> None:
    """Replace characters that the terminal or file cannot encode, instead of failing."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        letters = (_PLAIN.get(c) or unicodedata.normalize("NFKD", c)[0] for c in error.object[error.start : error.end])
        return "".join(c if c.isascii() else "?" for c in letters), error.end

    codecs.register_error("ggeur-plain", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="ggeur-plain")


class Printed(io.TextIOWrapper):
    """Standard output that records in `failed` that writing failed."""

    failed = False

    def write(self, text: str, /) -> int:
        with self._watched():
            return super().write(text)

    def flush(self) -> None:
        with self._watched():
            super().flush()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.failed = True
            raise


def watch_printing() -> None:
    """Record from now on whether printing fails, on a full disk or a closed pipe."""
    out = sys.stdout
    if type(out) is io.TextIOWrapper and out is sys.__stdout__:
        how = {"line_buffering": out.line_buffering, "write_through": out.write_through}
        encoding, errors = out.encoding, out.errors
        sys.stdout = Printed(out.detach(), encoding, errors, **how)  # type: ignore[arg-type]  # its buffer is binary


def main() -> None:
    """Entry point of the `ggeur` command."""
    from ggeur.cli.app import app
    from ggeur.stats.errors import GgeurError
    from ggeur.stats.long_jobs import stop_on_signals

    watch_printing()
    write_plainly_where_needed()
    stop_on_signals()  # before anything heavy is imported
    try:
        try:
            _run(app)
        finally:
            if sys.stdout is not None:  # which it is where it was closed
                sys.stdout.flush()  # while what goes wrong can still be said
    except GgeurError as error:
        _say_error(str(error))
        sys.exit(2)
    except OSError as error:
        if not isinstance(sys.stdout, Printed) or not sys.stdout.failed:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # lest Python fails on the rest as it ends
        _say_error(f"Cannot print: {error.strerror or error}.")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except ImportError as error:
        if not _was_stopped(error):
            raise
        sys.exit(130)


def _was_stopped(error: BaseException) -> bool:
    """Return whether a Ctrl-C caused the `error`, as where it meets the import of a compiled module."""
    cause = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt) or (cause is not None and _was_stopped(cause))


def _run(app: Any) -> None:
    """Run a command; a mistake in its options is said as all mistakes are."""
    import click

    try:
        code = app(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.ctx.get_help())
        sys.exit(2)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        name = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else "ggeur"
        hint = re.compile(r"( Did you mean '[^']*'\?)\1+")  # click and typer both give it
        text = _of_before(error) or hint.sub(r"\1", error.format_message()).rstrip(".")
        _say_error(f"{text}{'' if text.endswith('?') else '.'} See `{name} --help`.")
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _of_before(error: Any) -> str:
    """Return what an option that 0.2 had is called now, if `error` is about one that the command still has."""
    from ggeur.stats.old_names import OPTIONS

    old = getattr(error, "option_name", "")
    known = error.ctx.command.params if old in OPTIONS and error.ctx is not None else ()
    new = OPTIONS.get(old)
    return f"The option {old} is called {new} now" if any(new in one.opts for one in known) else ""


def _say_error(text: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, soft_wrap=True, emoji=False, highlight=False)
    console.print(f"[bold red]error:[/] {escape(text)}")
