"""`ggeur predict`: classify images or the samples of a table."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ggeur.cli.options import (
    ColumnId,
    ColumnX,
    ColumnY,
    Custom,
    EncoderId,
    JsonLines,
    PictureEncoder,
    Quiet,
    Trial,
    check_out_file,
    open_model,
    table_columns,
)
from ggeur.cli.screen import embedding_bar, event, notes, say, tell_skipped
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.data.tables.columns import TableColumns
    from ggeur.models.model import Model
    from ggeur.models.prediction import Answers

_LISTED = 50  # answers that are shown one by one
_UNKNOWN = "I do not know"


def predict(
    model: Annotated[Path, typer.Argument(help="Model folder, run folder, or an exported model.")],
    given: Annotated[Path, typer.Argument(help="Image, image folder, or embedding table.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write (.csv, .json); default: a summary.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of classes to name per sample.")] = 1,
    reject: Annotated[float, typer.Option(min=0, max=1, help="Least probability of an answer.")] = 0.0,
    encoder: PictureEncoder = None,
    x: ColumnX = None,
    y: ColumnY = None,
    id: ColumnId = None,
    encoder_id: EncoderId = None,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Skip and list unreadable images.")
    ] = False,
    trial: Trial = "last",
    custom: Custom = False,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Classify images or the samples of a table.

    Images are embedded by the model's encoder.
    """
    if out is not None and out.suffix not in (".csv", ".json"):
        raise GgeurError(f"Cannot write {out}: --out must end in .csv or .json.", code="output-file-suffix")
    if out is not None:
        check_out_file(out)
    with notes():
        head = open_model(model, trial, custom).model
        each = _answers(
            head, given, encoder, reject, skip_unreadable, table_columns(x, y, None, None, id, None, encoder_id)
        )
        tally, first, skipped = _Tally(head.class_names), None, ""
        with _writing(out, top) as write:
            for found in each:
                first = found if not tally.samples else None  # a list is of few, which come together
                skipped = tell_skipped(found.unreadable) or skipped
                write(found, tally.samples)
                for answer in _records(found, top, tally.samples):
                    event("prediction", **answer)
                tally.add(found)
    if out is not None:
        say(f"{tally.samples} predictions are in {out}{skipped}")
    elif first is not None and first.names and len(first) <= _LISTED:
        _list(first, top)
    else:
        _count(tally)
    _compare(tally)


def _answers(
    head: "Model",
    given: Path,
    encoder: str | None,
    reject: float,
    skip_unreadable: bool,
    columns: "TableColumns | None",
) -> Iterator["Answers"]:
    """Yield the answers: of pictures and small tables all at once, of other tables some samples at a time."""
    from ggeur.data.readers import unlabelled
    from ggeur.data.tables.pairing import is_table

    table = is_table(given)
    if table and (columns is not None or given.suffix != ".npz"):
        from ggeur.data.tables.files import TableFiles
        from ggeur.models.prediction import answers_in_pieces

        yield from answers_in_pieces(head, TableFiles(given, columns, labelled=False), reject)
        return
    with embedding_bar(0 if table else len(unlabelled(given))) as on_batch:
        yield head.predict(given, encoder=encoder, reject=reject, skip_unreadable=skip_unreadable, on_batch=on_batch)


@contextmanager
def _writing(out: Path | None, top: int) -> Iterator[Callable[["Answers", int], None]]:
    """Yield what writes answers to `out`, the first of which has the given number; the file appears at the end."""
    from ggeur.stats.storage import write_atomically

    if out is None:
        yield lambda found, number: None
        return
    lines = _csv if out.suffix == ".csv" else _json
    with write_atomically(out) as file:

        def write(found: "Answers", number: int) -> None:
            file.write(lines(found, top, number).encode())

        yield write
        file.write(b"" if out.suffix == ".csv" else b"\n]")


def _csv(found: "Answers", top: int, first: int) -> str:
    text = io.StringIO()
    lines = csv.writer(text)
    more = [f"{what}_{k}" for k in range(2, min(top, len(found.class_names)) + 1) for what in ("class", "probability")]
    if not first:
        lines.writerow(["sample", "file", "class", "probability", *more])
    names = found.names or ("",) * len(found)
    for i, (name, label, best) in enumerate(zip(names, found.labels, found.top(top), strict=True), first):
        rest = [part for other, p in best[1:] for part in (other, f"{p:.4f}")]
        lines.writerow([i, name, label or "", f"{best[0][1]:.4f}", *rest])
    return text.getvalue()


def _json(found: "Answers", top: int, first: int) -> str:
    text = json.dumps(_records(found, top, first), indent=1, ensure_ascii=False)
    return (",\n" if first else "[\n") + text[2:-2]


def _records(found: "Answers", top: int, first: int) -> list[dict[str, Any]]:
    names = found.names or (None,) * len(found)
    return [
        {
            "sample": i,
            "file": name,
            "class": label,
            "probability": round(best[0][1], 6),
            "top": [{"class": other, "probability": round(p, 6)} for other, p in best],
        }
        for i, (name, label, best) in enumerate(zip(names, found.labels, found.top(top), strict=True), first)
    ]


class _Tally:
    """How often each class was answered, and how many answers agree with the samples' labels or folders."""

    def __init__(self, class_names: tuple[str, ...]) -> None:
        self.class_names, self.answers = class_names, Counter[str | None]()
        self.right, self.labelled, self.from_folders = 0, True, False

    @property
    def samples(self) -> int:
        return self.answers.total()

    def add(self, found: "Answers") -> None:
        labels = found.labels
        self.answers.update(labels)
        self.from_folders = found.from_folders
        self.labelled &= bool(found.truth) and set(found.truth) <= set(self.class_names)
        if self.labelled:
            self.right += sum(label == true for label, true in zip(labels, found.truth, strict=True))


def _list(found: "Answers", top: int) -> None:
    for name, label, best in zip(found.names, found.labels, found.top(top), strict=True):
        if label is None:
            likeliest, p = best[0]
            said = f"{_UNKNOWN} (at most {100 * p:.1f} %, {likeliest})"
        else:
            said = ", ".join(f"{other} {100 * p:.1f} %" for other, p in best)
        say(f"{name}: {said}", soft_wrap=True)


def _count(tally: _Tally) -> None:
    for name in tally.class_names:
        say(f"{tally.answers[name]:7d}  {name}")
    if unknown := tally.answers[None]:
        say(f"{unknown:7d}  ({_UNKNOWN})")


def _compare(tally: _Tally) -> None:
    """Print the agreement with the samples' labels, or with the names of the pictures' folders."""
    unknown = tally.answers[None]
    answered = tally.samples - unknown
    if not tally.labelled or not answered:
        return
    right = 100 * tally.right / answered
    some = f" of {answered} answers, {unknown} not given," if unknown else ""
    whose = "the names of their folders" if tally.from_folders else "the labels of all samples"
    say(f"{right:.2f} %{some} agree with {whose}, any it was trained on included.")
