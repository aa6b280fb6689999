"""`ggeur table`: read a table of another program, check it, and write it as one file."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import (
    ColumnDomain,
    ColumnGroup,
    ColumnId,
    ColumnTest,
    ColumnX,
    ColumnY,
    EncoderId,
    check_out_file,
    table_columns,
)
from ggeur.cli.screen import notes, say
from ggeur.stats.errors import GgeurError


def table(
    files: Annotated[list[Path], typer.Argument(help="Files of one table: .parquet, .csv, .npy and labels, .h5, ...")],
    out: Annotated[Path, typer.Option("--out", help="Table to write (.parquet, .npz).")],
    x: ColumnX = None,
    y: ColumnY = None,
    domain: ColumnDomain = None,
    test: ColumnTest = None,
    id: ColumnId = None,
    group: ColumnGroup = None,
    encoder_id: EncoderId = None,
) -> None:
    """Convert embeddings of any program to a table.

    Also says what is in it.
    """
    if out.suffix not in (".npz", ".parquet"):
        raise GgeurError(f"Cannot write {out}: --out must end in .parquet or .npz.", code="output-file-suffix")
    check_out_file(out)
    from ggeur.data.tables.files import TableFiles
    from ggeur.data.tables.writing import write_parquet

    with notes():
        found = TableFiles(files, table_columns(x, y, domain, test, id, group, encoder_id))
        if out.suffix == ".npz":
            found.read().save(out)
        else:
            write_parquet(out, found)
    tests = f", {found.counts[..., 1].sum():,} of them test samples" if found.marked else ""
    say(
        f"{found.samples:,} samples{tests}, {found.dimension} dimensions, {len(found.class_names)} classes, "
        f"domains: {', '.join(found.domain_names)}"
    )
    say(f"The table is in {out}", soft_wrap=True)
