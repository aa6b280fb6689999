"""`ggeur forget`: remove a site from a one-shot classifier (exact unlearning)."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import ChooseAgain, FittedModel, OwnMethod, PictureEncoder
from ggeur.cli.screen import notes, say


def forget(
    model: FittedModel,
    site: Annotated[str, typer.Argument(help="Name of the site to remove.")],
    remaining: Annotated[
        list[Path] | None,
        typer.Argument(help="Tables of remaining sites, to score their test samples."),
    ] = None,
    encoder: PictureEncoder = None,
    choose_again: ChooseAgain = False,
    own: OwnMethod = False,
) -> None:
    """Remove a site and write a receipt; the result is bit-identical to a model fitted without the site."""
    from ggeur.models.joining import forget_site
    from ggeur.report.model_page import write_model_page

    with notes():
        receipt = forget_site(model, site, remaining or [], encoder=encoder, choose_again=choose_again, own=own)
        page = write_model_page(model, own=own)
    say(f"{site} is no longer in {model}; the receipt is {receipt}, the page {page}", soft_wrap=True)
