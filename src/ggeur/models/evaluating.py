"""Evaluate a model where the test samples are, and add up what sites counted: only counts leave a site."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.data.holdout import SALT, TEST_SHARE, check_salt, check_test_share, held_out, held_out_in_files
from ggeur.data.readers import image_folder
from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.columns import TableColumns
from ggeur.data.tables.files import TableFiles
from ggeur.data.tables.pairing import is_table
from ggeur.encoders.cache import digest_of
from ggeur.encoders.job import embed
from ggeur.federation.metrics import Bounded, count_metrics, score_metrics
from ggeur.federation.score_counts import count_scores
from ggeur.models.joining import head_hash
from ggeur.models.model import Model
from ggeur.models.prediction import encoder_of
from ggeur.models.score_files import Scored, ScoreFile
from ggeur.models.sites import check_has_samples, name_of_path
from ggeur.stats.errors import GgeurError, nearest, nearest_file
from ggeur.stats.types import Bool, Int
from ggeur.stats.validate import check_whole

SPECIFICITY = 0.95


class SiteScores(NamedTuple):
    """The model's probabilities of a site's test samples, their classes by the model's numbers, and their groups."""

    name: str
    total: int  # samples of the site, training ones included
    scored: Scored
    probabilities: NDArray[Any]  # (n, C)
    y: Int
    groups: tuple[Any, ...] | None = None


def model_hash(model: Model) -> str:
    """Return a hash of all that the probabilities of `model` depend on."""
    about = json.dumps([head_hash(model.params), model.temperature, list(model.class_names)])
    return hashlib.sha256(about.encode()).hexdigest()


def planned_hold_out(model: Model) -> tuple[float, str] | None:
    """Return the share and the salt by which the sites of `model` held out test samples, where a plan says so."""
    plan = model.settings.get("plan")
    return None if plan is None else (float(plan["test_share"]), str(plan.get("salt", SALT)))


def hold_out_of(model: Model, share: float | None = None, salt: str | None = None) -> tuple[float, str]:
    """Return the share and the salt of the test samples of `model`; others than its own are refused."""
    own = planned_hold_out(model)
    known = own or (TEST_SHARE, SALT)
    asked = check_test_share(known[0] if share is None else share), check_salt(known[1] if salt is None else salt)
    if own and asked != own:
        raise GgeurError(
            f"The sites of this model held out {own[0]:g} of their samples by the salt '{own[1]}': with another share "
            "or salt, samples would be scored that it was trained on.",
            code="evaluation-holdout-mismatch",
        )
    return asked


def scores_of_site(
    model: Model,
    given: str | os.PathLike[str] | EmbeddingTable,
    share: float,
    salt: str,
    *,
    name: str | None = None,
    encoder: str | None = None,
    every: bool = False,
    columns: TableColumns | None = None,
    groups: Sequence[Any] | None = None,
    on_batch: Callable[[int, int], None] | None = None,
) -> SiteScores:
    """Score the test samples of a site: a table in files or in memory, or a folder of images; `every` takes all."""
    images: list[str] | None = None
    if isinstance(given, EmbeddingTable):
        title, table = name or "site", given
    else:
        title = name or name_of_path(given)
        if is_table(given):
            return _scores_in_files(model, TableFiles(os.fspath(given), columns), share, salt, title, every)
        path = Path(given)
        check_has_samples(path)
        if not path.exists():
            raise GgeurError(f"There is no folder or table '{path}'.{nearest_file(path)}", code="site-missing")
        pictures = image_folder(path)
        images = [digest_of(item.read()).hex() for item in pictures.items]
        table = embed(pictures, encoder_of(model, encoder), on_batch=on_batch).table
    if every:
        test = np.ones(len(table), np.bool_)
    else:
        test = held_out(table, share, salt, groups=groups, images=images)
    _check_some(test, title)
    kept, own = table.subset(test), None if groups is None else tuple(np.asarray(groups, object)[test])
    y = classes_of_model(kept.y, table.class_names, model.class_names, title)
    return SiteScores(title, len(table), _kind(every, table.test is not None), model.probabilities(kept), y, own)


def _scores_in_files(model: Model, files: TableFiles, share: float, salt: str, title: str, every: bool) -> SiteScores:
    model.check_encoder("The table", files.dimension, files.meta)
    test, y, groups = held_out_in_files(files, share, salt, every=every)
    _check_some(test, title)
    classes, first, each = classes_of_model(y[test], files.class_names, model.class_names, title), 0, []
    for piece in files.pieces():
        mine, first = test[first : first + len(piece.x)], first + len(piece.x)
        if mine.any():
            each.append(model.probabilities_of(piece.x[mine]))
    own = tuple(np.asarray(groups, object)[test]) if groups else None
    return SiteScores(title, len(y), _kind(every, files.marked), np.concatenate(each), classes, own)


def _kind(every: bool, marked: bool) -> Scored:
    return "all" if every else "marked" if marked else "held out"


def _check_some(test: Bool, site: str) -> None:
    if not test.any():
        raise GgeurError(
            f"The site '{site}' has no test samples: hold out a larger share (--test-share), or score all samples of a "
            "table that was never trained on (--all).",
            code="evaluation-without-samples",
        )


def score_file(model: Model, scores: SiteScores, share: float, salt: str, min_count: int = 0) -> ScoreFile:
    """Return what a site sends of its `scores`: counts, and of those no small ones."""
    check_whole("min_count", min_count, least=0)
    if model.privacy.get("epsilon") is not None:
        raise GgeurError(
            "This model's sites are protected by epsilon, and counts of test samples would not be: evaluate it on "
            "samples that may be counted, with a model that was fitted without epsilon.",
            code="evaluation-under-epsilon",
        )
    counts = count_scores(scores.probabilities, scores.y, min_count, scores.groups)
    if not counts.samples.any():
        raise GgeurError(
            f"Every class has fewer than {min_count} test samples at '{scores.name}', so nothing may be counted: take "
            "a smaller min_count, or hold out more.",
            code="evaluation-all-withheld",
        )
    return ScoreFile(scores.name, model_hash(model), model.class_names, min_count, salt, share, scores.scored, counts)


def classes_of_model(y: Int, own: Sequence[str], names: Sequence[str], site: str) -> Int:
    """Return classes `y`, numbered as a site's `own` names, by the numbers of the model's `names`."""
    place = {name: number for number, name in enumerate(names)}
    for c in np.unique(y):
        if own[c] not in place:
            raise GgeurError(
                f"The site '{site}' has test samples of the class '{own[c]}', which the model does not know."
                f"{nearest(own[c], names)}",
                code="evaluation-class-unknown",
            )
    return np.array([place.get(name, -1) for name in own], np.int64)[y]


class Evaluation(NamedTuple):
    """Metrics of a model at every site, by name, and over all; `count_metrics` and `score_metrics` have their keys."""

    class_names: tuple[str, ...]
    sites: dict[str, dict[str, Any]]
    overall: dict[str, Any]
    specificity: float
    min_count: int
    scored: tuple[str, ...]
    confusion: tuple[NDArray[np.int64], NDArray[np.int64]]  # its least and its greatest counts, over all sites


def evaluation(files: Sequence[ScoreFile], specificity: float = SPECIFICITY) -> Evaluation:
    """Add up the counts of several sites, in any order."""
    if not 0 < specificity <= 1:
        raise GgeurError(
            f"The specificity is {specificity}; it must be above 0 and at most 1.", code="argument-not-fraction"
        )
    files = sorted(files, key=lambda f: f.site)
    if not files:
        raise GgeurError("There are no score files: name at least one (.scores).", code="scores-missing")
    first = files[0]
    for before, one in pairwise(files):
        if before.site == one.site:
            raise GgeurError(
                f"Two of the score files are of the site '{one.site}'; give one of each site.", code="scores-site-twice"
            )
        _check_same(first, one)
    numbers = range(len(first.class_names))
    each = {f.site: _metrics([f], specificity) for f in files}
    total = Bounded.of([(f.counts, f.min_count) for f in files])
    return Evaluation(
        first.class_names,
        each,
        _metrics(files, specificity) | {"samples_by_class": [int(total.samples[c]) for c in numbers]},
        specificity,
        max(f.min_count for f in files),
        tuple(sorted({f.scored for f in files})),
        (total.low, total.high),
    )


def _check_same(first: ScoreFile, one: ScoreFile) -> None:
    for what, code, same in (
        ("another model", "scores-model-mismatch", first.model == one.model),
        ("other classes", "scores-class-mismatch", first.class_names == one.class_names),
        ("another salt or share", "scores-holdout-mismatch", (first.salt, first.share) == (one.salt, one.share)),
    ):
        if not same:
            raise GgeurError(
                f"The scores of '{one.site}' are of {what} than those of '{first.site}': evaluate one model, with one "
                "hold-out, at all sites.",
                code=code,
            )


def _metrics(files: Sequence[ScoreFile], specificity: float) -> dict[str, Any]:
    bounded = Bounded.of([(f.counts, f.min_count) for f in files])
    found, counts = count_metrics(bounded), [f.counts for f in files]
    for c, own in found["classes"].items():
        own |= score_metrics(counts, c, specificity, bounded.design)
    scored = [own for own in found["classes"].values() if own["auroc"] is not None]
    errors = [own["calibration_error"] for own in scored]
    found["auroc"] = _mean_auroc([own["auroc"] for own in scored])
    found["calibration_error"] = float(np.mean(errors)) if errors and None not in errors else None
    found["groups"] = sum(c.groups.groups for c in counts if c.groups is not None) or None
    found["design"] = bounded.design
    return found


def _mean_auroc(each: Sequence[Any]) -> dict[str, float] | None:
    """Return the unweighted mean over classes, one against the rest."""
    if not each:
        return None
    return {"low": float(np.mean([m.low for m in each])), "high": float(np.mean([m.high for m in each]))}


def worst(found: Evaluation) -> tuple[str | None, str | None]:
    """Return the site with the lowest accuracy and the class with the lowest recall, where they differ."""
    by_site = {name: m["accuracy"].value for name, m in found.sites.items()}
    by_class = {found.class_names[c]: m["recall"].value for c, m in found.overall["classes"].items()}
    return _lowest(by_site), _lowest(by_class)


def _lowest(values: Mapping[str, float]) -> str | None:
    return min(values, key=lambda name: values[name]) if len(set(values.values())) > 1 else None


def to_json(found: Evaluation) -> dict[str, Any]:
    """Return the evaluation as plain values, classes by name."""

    def plain(value: Any) -> Any:
        if hasattr(value, "_asdict"):
            return {key: plain(one) for key, one in value._asdict().items()}
        if isinstance(value, dict):
            return {str(key): plain(one) for key, one in value.items()}
        if isinstance(value, tuple | list):
            return [plain(one) for one in value]
        return round(float(value), 6) if isinstance(value, float | np.floating) else value

    def named(metrics: dict[str, Any]) -> Any:
        classes = {found.class_names[c]: own for c, own in metrics["classes"].items()}
        return plain({**metrics, "classes": classes})

    site, lowest = worst(found)
    low, high = found.confusion
    return {
        "class_names": list(found.class_names),
        "overall": named(found.overall),
        "sites": {name: named(metrics) for name, metrics in found.sites.items()},
        "worst_site": site,
        "worst_class": lowest,
        "specificity": found.specificity,
        "min_count": found.min_count,
        "scored": list(found.scored),
        "confusion": low.tolist() if (low == high).all() else {"low": low.tolist(), "high": high.tolist()},
    }
