"""`ggeur predict`: classify images or the samples of a table."""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ggeur.cli.options import Custom, JsonLines, PictureEncoder, Quiet, Trial, check_out_file, open_model
from ggeur.cli.screen import embedding_bar, event, notes, say, tell_skipped
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.models.prediction import Answers

_LISTED = 50  # answers that are shown one by one
_UNKNOWN = "I do not know"


def predict(
    model: Annotated[Path, typer.Argument(help="Model folder, run folder, or an exported model.")],
    given: Annotated[Path, typer.Argument(help="Image, image folder, or embedding table (.npz).")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write (.csv, .json); default: a summary.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of classes to name per sample.")] = 1,
    reject: Annotated[float, typer.Option(min=0, max=1, help="Least probability of an answer.")] = 0.0,
    encoder: PictureEncoder = None,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Skip and list unreadable images.")
    ] = False,
    trial: Trial = "last",
    own: Custom = False,
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
    from ggeur.data.readers import unlabelled
    from ggeur.stats.storage import write_bytes

    with notes():
        head = open_model(model, trial, own).model
        with embedding_bar(0 if given.suffix == ".npz" else len(unlabelled(given))) as on_batch:
            found = head.predict(
                given, encoder=encoder, reject=reject, skip_unreadable=skip_unreadable, on_batch=on_batch
            )
    skipped = tell_skipped(found.unreadable)
    for answer in _records(found, top):
        event("prediction", **answer)
    if out is not None:
        write_bytes(out, (_csv if out.suffix == ".csv" else _json)(found, top).encode())
        say(f"{len(found)} predictions are in {out}{skipped}")
    elif found.names and len(found) <= _LISTED:
        _list(found, top)
    else:
        _count(found)
    _compare(found)


def _csv(found: "Answers", top: int) -> str:
    text = io.StringIO()
    lines = csv.writer(text)
    more = [f"{what}_{k}" for k in range(2, min(top, len(found.class_names)) + 1) for what in ("class", "probability")]
    lines.writerow(["sample", "file", "class", "probability", *more])
    names = found.names or ("",) * len(found)
    for i, (name, label, best) in enumerate(zip(names, found.labels, found.top(top), strict=True)):
        rest = [part for other, p in best[1:] for part in (other, f"{p:.4f}")]
        lines.writerow([i, name, label or "", f"{best[0][1]:.4f}", *rest])
    return text.getvalue()


def _json(found: "Answers", top: int) -> str:
    return json.dumps(_records(found, top), indent=1, ensure_ascii=False)


def _records(found: "Answers", top: int) -> list[dict[str, Any]]:
    names = found.names or (None,) * len(found)
    return [
        {
            "sample": i,
            "file": name,
            "class": label,
            "probability": round(best[0][1], 6),
            "top": [{"class": other, "probability": round(p, 6)} for other, p in best],
        }
        for i, (name, label, best) in enumerate(zip(names, found.labels, found.top(top), strict=True))
    ]


def _list(found: "Answers", top: int) -> None:
    for name, label, best in zip(found.names, found.labels, found.top(top), strict=True):
        if label is None:
            likeliest, p = best[0]
            said = f"{_UNKNOWN} (at most {100 * p:.1f} %, {likeliest})"
        else:
            said = ", ".join(f"{other} {100 * p:.1f} %" for other, p in best)
        say(f"{name}: {said}", soft_wrap=True)


def _count(found: "Answers") -> None:
    for name in found.class_names:
        say(f"{found.labels.count(name):7d}  {name}")
    if unknown := found.labels.count(None):
        say(f"{unknown:7d}  ({_UNKNOWN})")


def _compare(found: "Answers") -> None:
    """Print the agreement with the samples' labels, or with the names of the pictures' folders."""
    if not found.truth or not set(found.truth) <= set(found.class_names):
        return
    said = [(label, true) for label, true in zip(found.labels, found.truth, strict=True) if label is not None]
    if not said:
        return
    right = 100 * sum(label == true for label, true in said) / len(said)
    some = "" if len(said) == len(found) else f" of {len(said)} answers, {len(found) - len(said)} not given,"
    whose = "the names of their folders" if found.from_folders else "the labels of all samples"
    say(f"{right:.2f} %{some} agree with {whose}, any it was trained on included.")
