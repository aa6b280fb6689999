"""`ggeur plan`: write what the sites of a federation agree on before they compute statistics."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ggeur.cli.options import PictureEncoder
from ggeur.cli.screen import notes, say


def plan(
    out: Annotated[Path, typer.Argument(help="Plan to write (TOML).")],
    sites: Annotated[
        list[Path] | None, typer.Argument(help="Tables or image folders whose classes the plan takes.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the federation; default: that of the file.")
    ] = None,
    class_: Annotated[list[str] | None, typer.Option("--class", help="Class name; repeatable.")] = None,
    encoder: PictureEncoder = None,
    covariance: Annotated[str, typer.Option(help="Covariance that sites send: per-class or pooled.")] = "per-class",
    min_count: Annotated[int, typer.Option(min=0, help="Smallest group a site shares.")] = 10,
    test_share: Annotated[float, typer.Option(help="Share of samples held out for testing.")] = 0.2,
    salt: Annotated[str | None, typer.Option(help="Salt of the test samples; default: drawn.")] = None,
) -> None:
    """Write the plan of a federation by file.

    Every site follows it with `--plan`. No statistics are computed.
    """
    from ggeur.models.planning import write_plan

    with notes():
        made = write_plan(
            out,
            sites or [],
            name=name,
            classes=class_ or [],
            encoder=encoder,
            covariance=covariance,
            min_count=min_count,
            test_share=test_share,
            salt=salt,
        )
    many = len(made.classes)
    classes = f"{many} class{'es' * (many != 1)}" if many else "any classes"
    say(
        f"{out}: {classes}, encoder {made.encoder.encoder or 'not fixed'}, "
        f"{made.covariance} moments, groups of {made.min_count} or more, {made.test_share:.0%} for testing",
        soft_wrap=True,
    )
    say(
        f"Send it to every site, which writes: ggeur summarize SITE --plan {quote(out.name)} --out SITE.stats",
        soft_wrap=True,
    )
