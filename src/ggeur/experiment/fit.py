"""From sites to a model in one call: sums, choice, head, scores, and a folder with what joining and leaving need."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.core.message import KINDS as STATISTICS
from ggeur.core.message import Statistics
from ggeur.core.validate import check_choice, check_is, check_path, check_whole
from ggeur.data.files import CannotWrite, cannot, write_bytes
from ggeur.data.table import EmbeddingTable
from ggeur.experiment import helps as who_helps
from ggeur.experiment.calibrating import calibrated
from ggeur.experiment.estimator import OneMessageClassifier
from ggeur.experiment.evaluation import TestSet, mean_accuracy
from ggeur.experiment.sites import GivenSite, OnPictures, Site, read_sites
from ggeur.experiment.solution import Solution, together
from ggeur.federation.helping import Helping, OnHead
from ggeur.federation.ledger import Entry, Ledger
from ggeur.federation.sums import Sums, Whole
from ggeur.heads import resolve as resolve_head
from ggeur.heads import sizes
from ggeur.heads.head import Params
from ggeur.runs.card import card
from ggeur.runs.change import LOCK, NEXT, PART, Command, drop, locked, pending, staged
from ggeur.runs.interrupt import uninterrupted
from ggeur.runs.model import Model
from ggeur.runs.site_files import (
    CARD,
    WRITTEN,
    Kept,
    read_receipts,
    save_ledger,
    save_sums,
    save_total,
    settle,
    write_receipt,
)


def fit(
    sites: Sequence[GivenSite] | Mapping[str, GivenSite],
    *,
    method: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    statistics: Statistics = "per-class",
    encoder: str | None = None,
    min_count: int = 0,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    sealed: bool = False,
    helps: bool = False,
    calibrate: bool = True,
    on_head: OnHead = lambda done, total: None,
    on_pictures: OnPictures = lambda site, done, total, computed: None,
) -> OneMessageClassifier:
    """Solve one head for several sites from the sums of each, and say how well it does on their test rows, if any.

    Parameters
    ----------
    sites : pairs (x, y), embedding tables, or paths to tables and folders of pictures; or a mapping of names to them.
    method : a solved head, or "auto", which chooses one by leaving rows and cells out.
    parameters : those of the method; default: its own defaults.
    statistics : "per-class" second moments, or "pooled" ones.
    encoder : what embeds folders of pictures: builtin, onnx:PATH, or a Hugging Face model's name or folder.
    min_count : how many rows of a class a site must have to share them; 10 is what we recommend.
    seed : of the folds of "auto", and of heads that draw.
    out : a model folder to write, with what `ggeur add` and `ggeur forget` need beside the model.
    sealed : keep the sites' sums there added up, with salted hashes of them, and not one by one.
    helps : find out who helps whom, by heads without each site, and keep it in the model folder as helps.json.
    on_head : called for each of these heads, with how many are solved and how many there will be.
    on_pictures : called while folders are embedded, with the site, pictures done, of how many, and how many of those
        were not in the cache.
    calibrate : fit a temperature for the probabilities, on rows left out of heads that are solved for this alone.

    The classifier's `solution_` says what was chosen and why, `metrics_` the accuracy on rows that tables mark as test,
    `helping_` who helps whom, where that was asked for and there are rows to tell by, and `calibration_` the
    temperature of its probabilities with what rows say of them.

    >>> rng = np.random.default_rng(0)
    >>> sites = [(rng.normal(size=(40, 3)) + 4 * np.eye(3)[np.arange(40) % 3], np.arange(40) % 3) for _ in range(2)]
    >>> classifier = fit(sites, method="lda")
    >>> classifier.predict([[4.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
    array([0, 2])
    """
    folder = None if out is None else check_path("out", out)
    check_is("method", method, str, "a method's name")
    check_choice("statistics", statistics, STATISTICS)
    check_whole("seed", seed, least=0)
    check_whole("min_count", min_count, least=0)
    if not callable(on_head) or not callable(on_pictures):
        raise GgeurError("on_head and on_pictures must be functions, which are told how far it is.")
    if parameters is not None:
        check_is("parameters", parameters, Mapping, "a mapping of names to values")
    if folder is not None:
        _check_new(folder)
    read = [site.shared(min_count) for site in read_sites(sites, encoder, on_pictures)]
    found = OneMessageClassifier(method, parameters=parameters, statistics=statistics, seed=seed)
    found.solve_sites(read, min_count)
    solution, names = found.solution_, tuple(map(str, found.classes_.tolist()))
    found.metrics_ = scores(read, names, solution, found.params_)
    found.calibration_ = calibrated(read, names, solution, found.params_, min_count) if calibrate else {}
    with ExitStack() as held:
        if folder is not None:
            _claim(folder, held)
            settings = {"method": method, "statistics": statistics, "seed": seed, "min_count": min_count}
            encoders = {site.name: site.encoder for site in read}
            ledger = Ledger.of(Entry.of(sums, encoders[sums.name]) for sums in found.sums_)
            whole = solution.whole(found.sums_, names)
            fitted = Fitted(
                solution, found.params_, whole, ledger.encoder({}), settings, found.metrics_, found.calibration_
            )
            keep(folder, fitted, found.sums_, ledger, Command("fit"), sealed=sealed)
        found.helping_ = _who_helps(read, solution, on_head) if helps else None
        if folder is not None and found.helping_ is not None:
            with cannot(f"write {folder}", CannotWrite):
                who_helps.save(found.helping_, folder)
    return found


def _who_helps(sites: Sequence[Site], solution: Solution, on_head: OnHead) -> Helping | None:
    """None where sites have too few rows to tell by, which is no reason to be without a model."""
    try:
        return who_helps.helping_of_solution(sites, solution, on_head)
    except GgeurError as error:
        warnings.warn(str(error), GgeurWarning, stacklevel=3)
        return None


class Fitted(NamedTuple):
    """A head, how it was solved and from what, and what a model says of it."""

    solution: Solution
    params: Params
    whole: Whole
    encoder: Mapping[str, Any]
    settings: Mapping[str, Any]
    metrics: Mapping[str, Any]
    calibration: Mapping[str, Any] = {}  # none once a site has joined or left: it was fitted for another head

    @property
    def model(self) -> Model:
        """The model of it."""
        head = self.solution.solved.head
        return Model(
            self.params,
            head,
            self.whole.message.dimension,
            self.whole.class_names,
            self.encoder,
            sizes(head, self.params),
            algorithm=self.solution.to_json(),
            settings=self.settings,
            metrics=self.metrics,
            calibration=self.calibration,
            privacy={"min_count": least} if (least := self.settings.get("min_count")) else {},
        )


def scores(sites: Sequence[Site], names: tuple[str, ...], solution: Solution, params: Params) -> dict[str, Any]:
    """Percent right on the test rows of `sites`, by domain and on average; nothing where there are none.

    `cells` are how many rows of each domain and class are right, and how many there are.
    """
    tested = [s for s in sites if s.test.any()]
    if not tested:
        return {}
    rows = together(tested, names, test=True)
    c = rows.clients
    table = EmbeddingTable(
        x=c.x,
        y=c.y,
        domain=c.domains,
        test=np.ones(len(c.y), np.bool_),
        class_names=rows.class_names,
        domain_names=rows.domain_names,
    )
    kind = solution.solved.head
    tests = TestSet(table, resolve_head(kind, **sizes(kind, params)))
    domains = tests.accuracy(params)
    cells = {d: {names[k]: list(n) for k, n in own.items()} for d, own in tests.cells(params).items()}
    return {"domains": domains, "avg": mean_accuracy(domains), "test_rows": len(c.y), "cells": cells}


def keep(
    folder: Path,
    fitted: Fitted,
    changed: Sequence[Sums],
    ledger: Ledger,
    command: Command,
    *,
    sealed: bool,
    more: Mapping[str, Any] | None = None,
) -> Command:
    """Write the model, the sums that have `changed` or the sealed total, the ledger, the card and a receipt of `more`.

    All of it becomes the model's at once, so that whatever is cut short here is mended by giving the same `command`
    again, which is returned with its receipt. The folder is locked, and at rest.
    """
    model, apart = fitted.model, fitted.solution.solved.apart
    if sealed and apart is not None:
        what = "the class means" if apart.kind == "means" else "second moments"
        warnings.warn(
            f"{fitted.solution.method} needs {what} of every domain, so the sealed total holds them too: where a "
            "domain is one site, they are that site's own.",
            GgeurWarning,
            stacklevel=2,
        )
    with cannot(f"write {folder}", CannotWrite), uninterrupted():
        with staged(folder, lambda: command) as new:
            for sums in () if sealed else changed:
                save_sums(new, sums)
            model.save(new)
            save_ledger(new, Kept(ledger, save_total(new, fitted.whole) if sealed else ""))
            if more is not None:
                receipt = write_receipt(folder, new, command.what, command.site, ledger, more)
                command = command._replace(receipt=receipt)
            history = [*read_receipts(folder), *read_receipts(new)]
            write_bytes(new / CARD, card(model, ledger, sealed, history).encode())
        settle(folder)
    return command


def _check_new(path: Path) -> None:
    """GgeurError where something lies there already, other than what a fit that was cut short has left."""
    if path.exists() and not path.is_dir():
        raise GgeurError(f"{path} is not a folder; name a new one with --out.")
    if path.exists() and not _is_unfinished(path) and {p.name for p in path.iterdir()} - {LOCK, PART}:
        raise GgeurError(f"{path} is not empty; name a new folder with --out.")


def _is_unfinished(path: Path) -> bool:
    cut = pending(path)
    return cut is not None and cut.what == "fit" and not {p.name for p in path.iterdir()} - {LOCK, PART, NEXT, *WRITTEN}


def _claim(folder: Path, held: ExitStack) -> None:
    """Lock the new `folder`, in which another may have begun since it was looked at, and clear what was left there."""
    with cannot(f"write {folder}", CannotWrite):
        folder.mkdir(parents=True, exist_ok=True)
    held.enter_context(locked(folder))
    _check_new(folder)
    with cannot(f"write {folder}", CannotWrite):
        drop(folder, WRITTEN)
