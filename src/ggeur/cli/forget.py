"""`ggeur forget`: a solved model as if a site had never been in it."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import ChooseAgain, FittedModel, OwnMethod, PictureEncoder
from ggeur.cli.screen import notes, say


def forget(
    model: FittedModel,
    site: Annotated[str, typer.Argument(help="The site that leaves, by name.")],
    remaining: Annotated[
        list[Path] | None,
        typer.Argument(help="Tables of all sites that remain, to choose and calibrate again."),
    ] = None,
    encoder: PictureEncoder = None,
    choose_again: ChooseAgain = False,
    own: OwnMethod = False,
) -> None:
    """Take a site out of a solved model: the head is then, to the bit, one that never saw it; and write a receipt."""
    from ggeur.experiment.joining import forget_site
    from ggeur.report.model_page import write_model_page

    with notes():
        receipt = forget_site(model, site, remaining or [], encoder=encoder, choose_again=choose_again, own=own)
        page = write_model_page(model, own=own)
    say(f"{site} is no longer in {model}; the receipt is {receipt}, the page {page}", soft_wrap=True)
