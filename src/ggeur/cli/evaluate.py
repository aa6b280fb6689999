"""`ggeur evaluate`: count a model's answers on a site's test samples, or add up what several sites counted."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ggeur.cli.options import (
    ColumnGroup,
    ColumnId,
    ColumnTest,
    ColumnX,
    ColumnY,
    Custom,
    EncoderId,
    PictureEncoder,
    Quiet,
    Trial,
    check_out_file,
    open_model,
    table_columns,
)
from ggeur.cli.screen import console, embedding_bar, mark, notes, say
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.data.tables.columns import TableColumns
    from ggeur.models.evaluating import Evaluation
    from ggeur.models.model import Model

_SUFFIX = ".scores"  # here too, as importing it would slow `--help` down
_PAGE = Path("evaluation.html")


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model folder, run folder, or an exported model.")],
    given: Annotated[
        list[Path], typer.Argument(help="One site (a table or a folder of images), or score files of sites.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write: SITE.scores, or a page (.html) with its .json.")
    ] = None,
    site: Annotated[
        str | None, typer.Option("--site", help="Name of the site; default: of its file or folder.")
    ] = None,
    test_share: Annotated[
        float | None, typer.Option("--test-share", help="Share of samples held out; default: the model's, or 0.2.")
    ] = None,
    salt: Annotated[
        str | None, typer.Option("--salt", help="Public salt of the hold-out; default: the model's.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Score all samples: the model was trained on none.")] = False,
    min_count: Annotated[
        int | None, typer.Option(min=0, help="Smallest count in a score file; default: the model's.")
    ] = None,
    specificity: Annotated[float, typer.Option(help="Specificity at which sensitivity is given.")] = 0.95,
    encoder: PictureEncoder = None,
    x: ColumnX = None,
    y: ColumnY = None,
    test: ColumnTest = None,
    id: ColumnId = None,
    group: ColumnGroup = None,
    encoder_id: EncoderId = None,
    trial: Trial = "last",
    custom: Custom = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on held-out samples of sites.

    Score a model on the test samples of a site, or add up the scores of several sites.
    """
    files = [path for path in given if path.suffix == _SUFFIX]
    if files and len(files) < len(given):
        raise GgeurError(
            "Give either one site or score files of several (.scores), not both.", code="evaluation-mixed-inputs"
        )
    with notes():
        head = open_model(model, trial, custom).model
        if files:
            _add_up(head, files, out or _PAGE, specificity)
            return
        if len(given) > 1:
            raise GgeurError(
                "A site is evaluated where its samples are: give one, write its scores with --out SITE.scores, and add "
                "up the score files.",
                code="evaluation-several-sites",
            )
        columns = table_columns(x, y, None, test, id, group, encoder_id)
        _score(head, given[0], out, site, test_share, salt, every, min_count, encoder, columns)


def _score(
    head: "Model",
    given: Path,
    out: Path | None,
    site: str | None,
    test_share: float | None,
    salt: str | None,
    every: bool,
    min_count: int | None,
    encoder: str | None,
    columns: "TableColumns | None",
) -> None:
    from ggeur.data.readers import unlabelled
    from ggeur.data.tables.pairing import is_table
    from ggeur.models.evaluating import evaluation, hold_out_of, planned_hold_out, score_file, scores_of_site
    from ggeur.models.sites import name_of_path

    out = out or Path(f"{site or name_of_path(given)}{_SUFFIX}")
    check_out_file(out, _SUFFIX)
    share, salt = hold_out_of(head, test_share, salt)
    pictures = given.is_dir() and not is_table(given)
    with embedding_bar(len(unlabelled(given)) if pictures else 0) as on_batch:
        scores = scores_of_site(
            head, given, share, salt, name=site, encoder=encoder, every=every, columns=columns, on_batch=on_batch
        )
    least = int(head.settings.get("min_count", 0)) if min_count is None else min_count
    found = score_file(head, scores, share, salt, least)
    if scores.scored == "held out" and planned_hold_out(head) is None:
        mark(
            "note",
            "the model does not say that test samples were held out; if it was trained on all samples of this site, "
            "these figures are too good.",
        )
    found.save(out)
    counts = found.counts
    say(f"{int(counts.samples.sum()):,} of {scores.total:,} samples of {found.site} are scored ({found.scored}).")
    print_evaluation(evaluation([found]))
    withheld = int((counts.confusion < 0).sum())
    hidden = f", {withheld:,} counts of less than {least} or near them withheld" if withheld else ""
    say(f"{out} holds counts of answers and scores, no sample{hidden}.", soft_wrap=True)


def _add_up(head: "Model", paths: list[Path], out: Path, specificity: float) -> None:
    from ggeur.models.evaluating import evaluation, model_hash, to_json
    from ggeur.models.score_files import ScoreFile
    from ggeur.report.evaluation_page import write_evaluation_page
    from ggeur.stats.storage import write_bytes

    check_out_file(out, ".html")
    check_out_file(out.with_suffix(".json"))
    files = [ScoreFile.load(path) for path in paths]
    for path, one in zip(paths, files, strict=True):
        if one.model != model_hash(head):
            raise GgeurError(
                f"{path} was made with another model than {head.algorithm.get('method', 'this one')} here: evaluate "
                f"this model at the site '{one.site}'.",
                code="scores-model-mismatch",
            )
    found = evaluation(files, specificity)
    import json

    write_bytes(out.with_suffix(".json"), json.dumps(to_json(found), indent=1, ensure_ascii=False).encode())
    write_evaluation_page(found, out)
    print_evaluation(found)
    say(f"The page is {out}, its figures are in {out.with_suffix('.json')}", soft_wrap=True)


def print_evaluation(found: "Evaluation") -> None:
    """Print the figures of every site and of all."""
    from rich.table import Table

    from ggeur.models.evaluating import worst
    from ggeur.report.evaluation_page import evaluation_summary, percent

    table = Table("site", "samples", "accuracy", "balanced accuracy", "macro F1", "AUROC")
    rows = {**found.sites, "all sites": found.overall} if len(found.sites) > 1 else found.sites
    for name, own in rows.items():
        cells = (own["accuracy"], own["balanced_accuracy"], own["macro_f1"])
        table.add_row(name, f"{own['samples']:,}", *(percent(m) for m in cells), percent(own["auroc"]))
    console.print(table)
    for sentence in evaluation_summary(found, *worst(found))[1:]:
        say(sentence, soft_wrap=True)
