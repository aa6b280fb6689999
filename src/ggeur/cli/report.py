"""`ggeur report`: runs, or a model, as one page to read."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import OwnMethod, check_out_file
from ggeur.cli.screen import notes, say
from ggeur.core.errors import GgeurError


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or one model folder that `ggeur fit` wrote.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Page to write; default: report.html, a model's in its folder.")
    ] = None,
    latex: Annotated[
        bool, typer.Option("--latex", help="Also write the tables for a paper, as .tex beside it.")
    ] = False,
    contributions: Annotated[
        bool,
        typer.Option("--contributions", help="Estimate what each site adds to the best one-shot classifier."),
    ] = False,
    own: OwnMethod = False,
) -> None:
    """Write one self-contained page about finished runs: tables, figures, costs, settings; or about a fitted model."""
    if out is not None:
        check_out_file(out)
    from ggeur.report.model_folder import is_model
    from ggeur.report.model_page import write_model_page
    from ggeur.report.page import write_report

    if any(map(is_model, runs)):
        if len(runs) > 1 or latex or contributions:
            raise GgeurError(
                "A model has a page of its own: name it alone, without --latex and --contributions.",
                code="option-conflict-report",
            )
        with notes():
            say(f"The page is {write_model_page(runs[0], out, own=own)}", soft_wrap=True)
        return
    out = out or Path("report.html")
    with notes():
        write_report(runs, out, latex=latex, contributions=contributions)
    tables = f", its tables are in {out.with_suffix('.tex')}" if latex else ""
    say(f"The report is {out}{tables}", soft_wrap=True)
