"""`ggeur add`: add a site to a one-shot classifier."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import ChooseAgain, Custom, FittedModel, JsonLines, PictureEncoder, Quiet
from ggeur.cli.screen import notes, say


def add(
    model: FittedModel,
    site: Annotated[Path, typer.Argument(help="Site to add: a table (.npz) or an image folder.")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(help="Tables of the other sites, to score their test samples."),
    ] = None,
    encoder: PictureEncoder = None,
    choose_again: ChooseAgain = False,
    own: Custom = False,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Add a site to a one-shot classifier.

    Its new classes are added too. Writes a receipt.
    """
    from ggeur.models.joining import add_site
    from ggeur.report.model_page import write_model_page

    with notes():
        receipt = add_site(model, site, others or [], encoder=encoder, choose_again=choose_again, own=own)
        page = write_model_page(model, own=own)
    say(f"{site} is in {model}; the receipt is {receipt}, the page {page}", soft_wrap=True)
