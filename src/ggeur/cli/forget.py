"""`ggeur forget`: remove a site from a one-shot classifier (exact unlearning)."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import ChooseAgain, Custom, FittedModel, JsonLines, KeepUnits, PictureEncoder, Quiet
from ggeur.cli.screen import notes, say
from ggeur.stats.errors import GgeurError


def forget(
    model: FittedModel,
    site: Annotated[str, typer.Argument(help="Name of the site to remove.")],
    remaining: Annotated[
        list[Path] | None,
        typer.Argument(help="Tables of remaining sites, to score their test samples."),
    ] = None,
    encoder: PictureEncoder = None,
    choose_again: ChooseAgain = False,
    keep_units: KeepUnits = False,
    custom: Custom = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the removal.")] = False,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Remove a site from a one-shot classifier.

    The result is bit-identical to a model fitted without the site. Asks first, and writes a receipt.
    """
    from ggeur.models.joining import forget_site
    from ggeur.report.model_page import write_model_page

    if not yes and not _confirmed(site, model):
        say("Nothing was changed.")
        raise typer.Exit(1)
    with notes():
        receipt = forget_site(
            model,
            site,
            remaining or [],
            encoder=encoder,
            choose_again=choose_again,
            keep_units=keep_units,
            custom=custom,
        )
        page = write_model_page(model, custom=custom)
    say(f"{site} is no longer in {model}; the receipt is {receipt}, the page {page}", soft_wrap=True)


def _confirmed(site: str, model: Path) -> bool:
    """Ask whether to remove the site; without a terminal nobody can answer, so that --yes is required."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise GgeurError(
            f"This removes the site '{site}' from {model} and deletes its statistics: confirm with --yes.",
            code="confirmation-missing",
        )
    return typer.confirm(f"Remove the site '{site}' from {model} and delete its statistics?")
