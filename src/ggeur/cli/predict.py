"""`ggeur predict`: use a trained head on a table."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import console, say


def predict(
    model: Annotated[Path, typer.Argument(help="Run folder, or one model of it (RUN/model/cell-000).")],
    table: Annotated[Path, typer.Argument(help="Embedding table (.npz) made with the same encoder.")],
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write; default: print a summary.")] = None,
    cell: Annotated[str, typer.Option(help="Of a run folder: a cell's number, an arm's name, or last.")] = "last",
    own: Annotated[
        bool, typer.Option("--own", help="The model's head is your own, and its module may be imported.")
    ] = False,
) -> None:
    """Classify the rows of a table with a trained head."""
    from ggeur.data.files import write_bytes
    from ggeur.data.image_table import load_any
    from ggeur.runs.model import Model

    chosen = int(cell) if cell.isdecimal() else cell
    head, rows = Model.load(model, cell=chosen, own=own), load_any(table)
    probabilities = head.probabilities(rows)
    best = probabilities.argmax(axis=1)
    if out is not None:
        text = io.StringIO()
        lines = csv.writer(text)
        lines.writerow(["row", "class", "probability"])
        lines.writerows([i, head.class_names[c], f"{probabilities[i, c]:.4f}"] for i, c in enumerate(best))
        write_bytes(out, text.getvalue().encode())
        say(f"{len(best)} predictions are in {out}")
        return
    for c, name in enumerate(head.class_names):
        say(f"{int((best == c).sum()):7d}  {name}")
    if rows.class_names == head.class_names:
        right = 100 * float((best == rows.y).mean())
        console.print(
            f"{right:.2f} % agree with the labels of all rows, any it was trained on included.", highlight=False
        )
