"""`ggeur report`: runs as one page to read."""

from collections.abc import Sequence
from pathlib import Path

from ggeur.cli.screen import console, notes
from ggeur.core.errors import GgeurError
from ggeur.report.page import write_report


def report(runs: Sequence[Path], out: Path, *, latex: bool) -> None:
    """Write the page, and with `latex` the tables beside it."""
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise GgeurError(f"Cannot write {out}: --out must name a file in a folder that exists.")
    with notes():
        write_report(runs, out, latex=latex)
    tables = f", its tables are in {out.with_suffix('.tex')}" if latex else ""
    console.print(f"The report is {out}{tables}", markup=False, highlight=False, soft_wrap=True)
