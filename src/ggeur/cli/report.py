"""`ggeur report`: write a report on runs or on a model."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import Custom, JsonLines, Quiet, check_out_file
from ggeur.cli.screen import notes, say
from ggeur.stats.errors import GgeurError


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or one model folder of `ggeur fit`.")],
    out: Annotated[Path | None, typer.Option("--out", help="Page to write; default: report.html.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Also write the tables as LaTeX (.tex).")] = False,
    contributions: Annotated[
        bool,
        typer.Option("--contributions", help="Estimate the contribution of each site."),
    ] = False,
    custom: Custom = False,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Write a page about finished runs or a model.

    One HTML file without network: tables, figures, costs, settings.
    """
    if out is not None:
        check_out_file(out)
    from ggeur.report.folders import is_model
    from ggeur.report.model_page import write_model_page
    from ggeur.report.page import write_report

    if any(map(is_model, runs)):
        if len(runs) > 1 or latex or contributions:
            raise GgeurError(
                "A model has a page of its own: name it alone, without --latex and --contributions.",
                code="option-conflict-report",
            )
        with notes():
            say(f"The page is {write_model_page(runs[0], out, custom=custom)}", soft_wrap=True)
        return
    out = out or Path("report.html")
    with notes():
        write_report(runs, out, latex=latex, contributions=contributions)
    tables = f", its tables are in {out.with_suffix('.tex')}" if latex else ""
    say(f"The report is {out}{tables}", soft_wrap=True)
