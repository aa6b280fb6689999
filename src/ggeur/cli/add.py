"""`ggeur add`: add a site to a one-shot classifier."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import (
    ChooseAgain,
    ColumnDomain,
    ColumnGroup,
    ColumnId,
    ColumnTest,
    ColumnX,
    ColumnY,
    Custom,
    EncoderId,
    FittedModel,
    JsonLines,
    KeepUnits,
    PictureEncoder,
    Quiet,
    TrustedKeys,
    table_columns,
)
from ggeur.cli.screen import notes, say


def add(
    model: FittedModel,
    site: Annotated[Path, typer.Argument(help="Site to add: a table, image folder or .stats file.")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(help="Tables of the other sites, to score their test samples."),
    ] = None,
    encoder: PictureEncoder = None,
    x: ColumnX = None,
    y: ColumnY = None,
    domain: ColumnDomain = None,
    test: ColumnTest = None,
    id: ColumnId = None,
    group: ColumnGroup = None,
    encoder_id: EncoderId = None,
    choose_again: ChooseAgain = False,
    keep_units: KeepUnits = False,
    trust: TrustedKeys = None,
    custom: Custom = False,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Add a site to a one-shot classifier.

    Its new classes are added too. Writes a receipt.
    """
    from ggeur.models.joining import add_site
    from ggeur.models.sites import site_name
    from ggeur.report.model_page import write_model_page

    with notes():
        name = site_name(site)
        receipt = add_site(
            model,
            site,
            others or [],
            encoder=encoder,
            columns=table_columns(x, y, domain, test, id, group, encoder_id),
            choose_again=choose_again,
            keep_units=keep_units,
            trust=trust,
            custom=custom,
        )
        page = write_model_page(model, custom=custom)
    say(f"{name} is in {model}; the receipt is {receipt}, the page {page}", soft_wrap=True)
