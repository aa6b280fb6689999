"""`ggeur summarize`: write a site's statistics to a file, which is all that leaves it."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.fit import following_pictures
from ggeur.cli.options import (
    ColumnDomain,
    ColumnGroup,
    ColumnId,
    ColumnTest,
    ColumnX,
    ColumnY,
    EncoderId,
    JsonLines,
    PictureEncoder,
    PlanFile,
    Quiet,
    check_out_file,
    table_columns,
)
from ggeur.cli.screen import notes, say
from ggeur.stats.errors import GgeurError


def summarize(
    site: Annotated[Path, typer.Argument(help="Site: a table or an image folder with <class>/*.")],
    out: Annotated[Path, typer.Option("--out", help="File to write: NAME.stats.")],
    plan: PlanFile = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the site; default: that of SITE.")] = None,
    encoder: PictureEncoder = None,
    x: ColumnX = None,
    y: ColumnY = None,
    domain: ColumnDomain = None,
    test: ColumnTest = None,
    id: ColumnId = None,
    group: ColumnGroup = None,
    encoder_id: EncoderId = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="Write one group of all samples.")] = False,
    sequence: Annotated[int, typer.Option(min=1, help="Number of the file; a higher one replaces it.")] = 1,
    key: Annotated[Path | None, typer.Option("--key", help="Private key to sign with; made if there is none.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(help="exact: exit with 1 if a sample can be recovered exactly.")
    ] = None,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Write a site's statistics to one file.

    The file is for `ggeur fit` and `ggeur add` elsewhere. A report beside it says what the file gives away.
    """
    from ggeur.stats.long_jobs import human_bytes

    if fail_on not in (None, "exact"):
        raise GgeurError(f"--fail-on takes exact, not '{fail_on}'.", code="option-fail-on-unknown")
    check_out_file(out, ".stats")
    for suffix in (".html", ".json"):  # of the report
        check_out_file(Path(f"{out}{suffix}"))
    with notes(), following_pictures() as on_pictures:
        from ggeur.models.summarize import summarize as summarize_site

        found = summarize_site(
            site,
            out,
            plan=plan,
            name=name,
            encoder=encoder,
            columns=table_columns(x, y, domain, test, id, group, encoder_id),
            unlabelled=unlabelled,
            sequence=sequence,
            key=key,
            on_pictures=on_pictures,
        )
    meta = found.file.meta
    if key is not None:
        say(f"Signed with {key}; {key.with_suffix('.pub')} is what the coordinator needs to know this site by")
    say(
        f"{out}: {found.file.samples:,} samples of '{meta.site}', {len(meta.classes)} classes, "
        f"{meta.encoder.dimension} dimensions, {meta.plan.covariance} moments; left out: {found.held_out:,} test "
        f"samples and {found.withheld:,} of groups below {meta.plan.min_count}",
        soft_wrap=True,
    )
    say(
        f"{human_bytes(found.size)}; these samples in float64, as the file has its numbers, "
        f"take {human_bytes(found.embeddings_size)}"
    )
    from ggeur.report.egress_page import write_egress_report

    report = write_egress_report(out)
    say(report.recommendation)
    say(f"{out}.html and {out}.json say what it gives away, for whoever approves its export", soft_wrap=True)
    if fail_on and report.recovered:
        raise typer.Exit(1)
