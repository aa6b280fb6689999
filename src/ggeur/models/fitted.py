"""A head that was solved for sites: scored on their test samples, and kept as a folder that sites can join and
leave.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.federation.evaluation import mean_accuracy, predicted_labels
from ggeur.federation.ledger import Ledger
from ggeur.federation.stored_statistics import StoredFederation, StoredStatistics
from ggeur.federation.temperature import CrossValidatedScores, Temperature, calibration, synthetic_temperature
from ggeur.heads import resolve as resolve_head
from ggeur.heads import sizes
from ggeur.heads.head import Params, double_logits
from ggeur.methods.algorithm import Task
from ggeur.models.card import card
from ggeur.models.model import Model
from ggeur.models.site_files import (
    CARD,
    WRITTEN,
    read_receipts,
    save_ledger,
    save_statistics,
    settle,
    write_receipt,
)
from ggeur.models.sites import AnySite
from ggeur.models.solution import Solution, positions
from ggeur.models.transaction import LOCK, NEXT, PART, Command, drop, locked, pending, staged
from ggeur.stats.errors import GgeurError
from ggeur.stats.long_jobs import phase, uninterrupted
from ggeur.stats.site_statistics import Breakdown, StatisticsQuery
from ggeur.stats.storage import CannotWrite, cannot, write_bytes
from ggeur.stats.threads import single_threaded

_CALIBRATED = 50_000  # test samples at most that a calibration is measured on, evenly taken


class Fitted(NamedTuple):
    """A head, how it was solved and from what, and what a model says of it."""

    solution: Solution
    params: Params
    federation: StoredFederation
    encoder: Mapping[str, Any]
    settings: Mapping[str, Any]
    metrics: Mapping[str, Any]
    calibration: Mapping[str, Any]

    @property
    def model(self) -> Model:
        """The model of it."""
        head = self.solution.solved.head
        return Model(
            self.params,
            head,
            self.federation.dimension,
            self.federation.class_names,
            self.encoder,
            sizes(head, self.params),
            algorithm=self.solution.to_json(),
            settings=self.settings,
            metrics=self.metrics,
            calibration=self.calibration,
            privacy={"min_count": least} if (least := self.settings.get("min_count")) else {},
        )


@single_threaded
def scores(sites: Sequence[AnySite], names: tuple[str, ...], solution: Solution, params: Params) -> dict[str, Any]:
    """Percent right on the test samples of `sites`, by domain and on average; nothing where there are none.

    `groups` are how many samples of each domain and class are right, and how many there are.
    """
    kind, hits = solution.solved.head, Counter[tuple[str, int, bool]]()
    classes = predicted_labels(resolve_head(kind, **sizes(kind, params)))
    for site in sites:
        own, domains = np.array(positions(site.class_names, names)), site.domain_names
        for x, y, d in site.pieces(test=True) if site.tests else ():
            right = np.asarray(classes(params, x)) == own[y]
            groups, number = np.unique(np.stack([d, own[y], right]), axis=1, return_counts=True)
            for (domain, c, hit), n in zip(groups.T.tolist(), number.tolist(), strict=True):
                hits[domains[domain], c, bool(hit)] += n
    if not hits:
        return {}
    by_group: dict[str, dict[int, list[int]]] = {}
    for domain, c in sorted({(domain, c) for domain, c, _ in hits}):
        right_of, wrong_of = hits[domain, c, True], hits[domain, c, False]
        by_group.setdefault(domain, {})[c] = [right_of, right_of + wrong_of]
    totals = {d: np.sum(list(own.values()), axis=0).tolist() for d, own in by_group.items()}
    accuracy = {d: 100 * (right / n) for d, (right, n) in totals.items()}
    return {
        "domains": accuracy,
        "avg": mean_accuracy(accuracy),
        "test_samples": sum(hits.values()),
        "groups": {d: {names[c]: n for c, n in own.items() if c >= 0} for d, own in by_group.items()},
    }


@single_threaded
def calibrated(
    federation: StoredFederation, solution: Solution, params: Params, sites: Sequence[AnySite]
) -> dict[str, Any]:
    """Return the calibration that a model states, from the statistics and from the test samples of `sites`."""
    names, found = federation.class_names, Temperature(None, "a temperature needs per-class covariances")
    if solution.solved.features is not None:
        found = Temperature(None, "synthetic samples have no statistics of features; it takes test samples")
    elif federation.kind == "per-class":
        by_domain = federation.statistics(StatisticsQuery("per-class", Breakdown("per-class"))).apart
        found = synthetic_temperature(solution.solver, by_domain, Task(federation.dimension, names), solution.seed)
    every = -(-sum(site.tests for site in sites) // _CALIBRATED)  # so that logits fit into memory
    parts, classes, at = [], [], 0
    for site in sites:
        own = np.array(positions(site.class_names, names))
        for x, y, _ in site.pieces(test=True) if site.tests else ():
            some = slice(-at % every, None, every)
            logits = double_logits(resolve_head(solution.solved.head), params, x[some])
            assert logits is not None
            parts.append(logits)
            classes.append(own[y[some]])
            at += len(y)
    if not parts:
        return calibration(found, None)
    logits, y = np.concatenate(parts), np.concatenate(classes)
    return calibration(found, CrossValidatedScores(logits, y, np.full(len(y), 1 / len(y))))


def keep(
    folder: Path,
    fitted: Fitted,
    changed: Sequence[StoredStatistics],
    ledger: Ledger,
    command: Command,
    more: Mapping[str, Any] | None = None,
) -> Command:
    """Write the model, the statistics that have `changed`, the ledger, the card and a receipt of `more`.

    All of it becomes the model's at once, so that whatever is cut short here is mended by giving the same `command`
    again, which is returned with its receipt. The folder is locked, and at rest.
    """
    phase("write")
    model = fitted.model
    with cannot(f"write {folder}", CannotWrite), uninterrupted():
        with staged(folder, lambda: command) as new:
            for statistics in changed:
                save_statistics(new, statistics)
            model.save(new)
            save_ledger(new, ledger)
            if more is not None:
                receipt = write_receipt(folder, new, command.what, command.site, ledger, more)
                command = command._replace(receipt=receipt)
            history = [*read_receipts(folder), *read_receipts(new)]
            write_bytes(new / CARD, card(model, ledger, history).encode())
        settle(folder)
    return command


def check_new_model(path: Path) -> None:
    """GgeurError where something lies there already, other than what a fit that was cut short has left."""
    if path.exists() and not path.is_dir():
        raise GgeurError(f"{path} is not a folder; name a new one with --out.", code="folder-is-file")
    if path.exists() and not _is_unfinished(path) and {p.name for p in path.iterdir()} - {LOCK, PART}:
        raise GgeurError(f"{path} is not empty; name a new folder with --out.", code="folder-not-empty")
    above = next(one for one in path.absolute().parents if one.exists())
    if not above.is_dir():
        raise GgeurError(
            f"{above} is not a folder, so {path} cannot be one; name another with --out.", code="folder-is-file"
        )


def _is_unfinished(path: Path) -> bool:
    cut = pending(path)
    return cut is not None and cut.what == "fit" and not {p.name for p in path.iterdir()} - {LOCK, PART, NEXT, *WRITTEN}


def claim(folder: Path, held: ExitStack) -> None:
    """Lock the new `folder`, in which another may have begun since it was looked at, and clear what was left there."""
    with cannot(f"write {folder}", CannotWrite):
        folder.mkdir(parents=True, exist_ok=True)
    held.enter_context(locked(folder))
    check_new_model(folder)
    with cannot(f"write {folder}", CannotWrite):
        drop(folder, WRITTEN)
