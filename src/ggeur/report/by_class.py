"""Accuracy by class: recall and macro F1 of every row, and which classes the most accurate head confuses."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context

from ggeur.data.image_table import ImageTable
from ggeur.experiments.result import Trial
from ggeur.federation.evaluation import confusion
from ggeur.models.model import Model
from ggeur.report.entries import ReportEntry
from ggeur.report.evidence import ReportedData
from ggeur.report.figures import STYLE, CaptionedFigure, captioned, colourbar, grid, name_ticks, write_cells
from ggeur.report.folders import ReportedRun
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Float, Int

_SHOWN = 12  # classes that have a column each
_DRAWN = 30  # classes of a confusion matrix
_PAIRS = 3  # confusions that are named
_WRITTEN = 12  # classes up to which the shares are written out


class ClassScores(NamedTuple):
    """The scores of one row, averaged over its seeds."""

    name: str
    macro_f1: float
    recall: Float  # (C,) in percent; NaN without test samples
    lowest: str  # the class with the lowest recall, and that


def class_scores(entries: Sequence[ReportEntry], class_names: Sequence[str]) -> list[ClassScores]:
    """Return the scores by class of all `entries` that have them for these classes."""
    found = []
    for entry in entries:
        trials = [t for t in entry.row.trials if t.macro_f1 is not None and len(t.recall) == len(class_names)]
        if trials:
            recall = _mean_recall(trials)
            worst = int(np.nanargmin(recall))
            f1 = float(np.mean([t.macro_f1 for t in trials if t.macro_f1 is not None]))
            found.append(ClassScores(entry.full_name, f1, recall, f"{class_names[worst]}, {recall[worst]:.1f}"))
    return found


def _mean_recall(trials: Sequence[Trial]) -> Float:
    values = np.array([[np.nan if v is None else v for v in t.recall] for t in trials], float)
    present = ~np.isnan(values)
    return np.where(present.any(axis=0), np.where(present, values, 0).sum(axis=0) / present.sum(axis=0).clip(1), np.nan)


def scores_by_class(run: ReportedRun, data: Sequence[ReportedData]) -> dict[str, Any] | None:
    """Return what the section by class shows; None where the run has several data or no scores by class."""
    if len(data) != 1 or run.table.unit != "percent":
        return None
    names = data[0].table.class_names if data[0].table is not None else ()
    scores = class_scores(run.entries, names)
    if not scores:
        return None
    return {"names": names[:_SHOWN] if len(names) <= _SHOWN else (), "scores": scores}


def confused(run: ReportedRun, data: Sequence[ReportedData]) -> CaptionedFigure | None:
    """Return the confusion matrix of the most accurate row's head, of the first seed; None where it has none."""
    done = [(i, entry) for i, entry in enumerate(run.entries) if entry.avg is not None]
    table = data[0].table if len(data) == 1 else None
    if not done or table is None or isinstance(table, ImageTable) or not 1 < table.n_classes <= _DRAWN:
        return None
    _, best = max(done, key=lambda pair: pair[1].avg or 0.0)
    number = run.experiment.varied.index(best.row.settings) * len(run.experiment.seeds)
    try:
        test = table.subset(np.flatnonzero(table.test)) if table.test is not None else None
        model = Model.load(run.folder, trial=number)
        if test is None or len(model.class_names) != table.n_classes:
            return None
        counts = confusion(test.y, model.probabilities(test).argmax(axis=1), table.n_classes)
    except GgeurError:
        return None
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return captioned(
        "confusion", _figure(share, table.class_names), name=best.full_name, pairs=_pairs(counts, table.class_names)
    )


def _figure(share: Float, names: Sequence[str]) -> Any:
    side = 0.34 * max(len(names), 8)
    with rc_context(STYLE):
        figure, (ax,) = grid(1, 1, 1.9 + side, 0.9 * side, 0.9)
        image = ax.imshow(np.ma.masked_less(share, 0.05), cmap="YlGnBu", vmin=0, vmax=100, interpolation="nearest")
        if len(names) <= _WRITTEN:
            write_cells(ax, image, [[f"{v:.0f}" if v >= 0.5 else "" for v in row] for row in share])
        name_ticks(ax, names, names)
        ax.set(xlabel="predicted", ylabel="true")
        colourbar(figure, [ax], image, "% of the true class")
    return figure


def _pairs(counts: Int, names: Sequence[str]) -> str:
    """Return the classes that are confused most often, in words."""
    wrong = counts - np.diag(np.diag(counts))
    most = [divmod(int(i), len(names)) for i in np.argsort(-wrong, axis=None, kind="stable")[:_PAIRS]]
    named = [f"{names[i]} taken for {names[j]} ({wrong[i, j]:,} times)" for i, j in most if wrong[i, j]]
    return f" Most often: {'; '.join(named)}." if named else ""
