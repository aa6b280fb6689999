"""`ggeur predict`: use a trained head on a table."""

import csv
import io
from pathlib import Path

import numpy as np

from ggeur.cli.show import console
from ggeur.data.files import write_atomically
from ggeur.data.table import EmbeddingTable
from ggeur.runs.model import Model


def predict(model_path: Path, table_path: Path, out: Path | None) -> None:
    model, table = Model.load(model_path), EmbeddingTable.load(table_path)
    probabilities = model.probabilities(table)
    best = probabilities.argmax(axis=1)
    if out is not None:
        text = io.StringIO()
        lines = csv.writer(text)
        lines.writerow(["row", "class", "probability"])
        lines.writerows([i, model.class_names[c], f"{probabilities[i, c]:.4f}"] for i, c in enumerate(best))
        with write_atomically(out) as file:
            file.write(text.getvalue().encode())
        console.print(f"{len(best)} predictions are in {out}", markup=False, highlight=False)
        return
    for c, n in enumerate(np.bincount(best, minlength=len(model.class_names))):
        console.print(f"{n:7d}  {model.class_names[c]}", markup=False, highlight=False)
    if table.class_names == model.class_names:
        right = 100 * float((best == table.y).mean())
        console.print(
            f"{right:.2f} % agree with the labels of all rows, any it was trained on included.", highlight=False
        )
