"""The terminal: one console, and our warnings as notes on it."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape

from ggeur.core.errors import GgeurWarning

console = Console()


@contextmanager
def notes() -> Iterator[None]:
    """Within the block each of our warnings is printed once, as a note; those of libraries are not."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, GgeurWarning) and str(message) not in shown:
            shown.add(str(message))
            console.print(f"[yellow]note:[/] {escape(str(message))}", highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("always", GgeurWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
