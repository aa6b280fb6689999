"""`ggeur report`: runs as one page to read."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import check_out_file
from ggeur.cli.screen import notes, say


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    out: Annotated[Path, typer.Option("--out", help="Page to write.")] = Path("report.html"),
    latex: Annotated[
        bool, typer.Option("--latex", help="Also write the tables for a paper, as .tex beside it.")
    ] = False,
    helps: Annotated[
        bool,
        typer.Option(
            "--helps",
            help="Find out who helps whom, by solving the best one-message head anew without each site; kept as "
            "helps.json in the run folder, from which later reports read it.",
        ),
    ] = False,
) -> None:
    """Write one self-contained page about finished runs: tables, figures, costs, settings."""
    check_out_file(out)
    from ggeur.report.page import write_report

    with notes():
        write_report(runs, out, latex=latex, helps=helps)
    tables = f", its tables are in {out.with_suffix('.tex')}" if latex else ""
    say(f"The report is {out}{tables}", soft_wrap=True)
