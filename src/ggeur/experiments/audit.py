"""An audit: what each party to a federation can find out about the samples of each client, attacked and measured.

The attacks take what a party sees; the samples themselves only tell how well they worked.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.feature_audit import NEAR, FeatureObserver
from ggeur.experiments.grid import Experiment
from ggeur.experiments.partitions import client_names, clients_of
from ggeur.experiments.released import OtherClient, Released, TotalObserver
from ggeur.experiments.settings import Settings, settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData, task_of
from ggeur.federation.start import one_shot_head
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import ClosedForm
from ggeur.models.model import Model
from ggeur.privacy.attacks import Group, auc, chance, groups, in_span, likelihood_ratio, recovered_samples
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance, FederationStatistics
from ggeur.stats.storage import sealed, unsealed, write_bytes
from ggeur.stats.types import Bool, Float, Int

Party = Literal["server", "other client", "total", "model"]
PARTIES: tuple[Party, ...] = ("server", "other client", "total", "model")
Found = Literal["not sent", "nothing found", "membership", "span", "exact samples"]
ORDER: tuple[Found, ...] = ("not sent", "nothing found", "membership", "span", "exact samples")  # from the least

_SAME = 1e-6  # of a sample's norm: a recovered sample so near is that sample
_SURE = 3.0  # standard deviations of chance that an AUC must lie above a coin's
_FLOAT32 = 1e-4  # what may be left outside a span whose matrix travelled in float32


class Finding(NamedTuple):
    """What one `party` can find out about the `samples` samples of a class at a client."""

    party: Party
    client: int
    label: int
    samples: int
    found: Found
    recovered: int = 0  # samples found exactly
    auc: float | None = None  # of telling members from samples held out

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.found == "exact samples" and self.recovered < self.samples:
            return f"exact samples ({self.recovered} of {self.samples})"
        return f"membership AUC {self.auc:.2f}" if self.found == "membership" else self.found


@dataclass(frozen=True)
class Audit:
    """The findings by client, class and party, and whose they are."""

    findings: list[Finding]
    clients: list[str]
    classes: tuple[str, ...]
    kind: Covariance | None  # of the messages

    def of(self, party: Party) -> list[Finding]:
        """Return those of one `party`."""
        return [f for f in self.findings if f.party == party]

    @property
    def exact(self) -> int:
        """How many samples somebody can recover."""
        most: dict[tuple[int, int], int] = {}
        for f in self.findings:
            most[f.client, f.label] = max(most.get((f.client, f.label), 0), f.recovered)
        return sum(most.values())


def table_settings(table: Path, kind: str | None, clients: int, beta: float, statistics: str, seed: int) -> Settings:
    """GGEUR on a `table` dealt out by a partition of that `kind`; default: by labels and, if several, by domains.

    A domain that is one client has no shapes from `covariance` = "none"; what is sent of means then are prototypes.
    """
    if kind is None:
        kind = "dirichlet" if EmbeddingTable.load(table).n_domains == 1 else "label-and-domain"
    own = {"dirichlet": {"clients": clients, "beta": beta}, "label-and-domain": {"beta": beta}}.get(kind, {})
    alone = kind != "dirichlet"
    return settings(
        {
            "data": {"table": str(table)},
            "partition": {"kind": kind, **own},
            "augment": {"kind": "prototypes"} if alone and statistics == "none" else {"covariance": statistics},
            "run": {"seeds": [seed]},
        }
    )


def audit_run(run: Path, min_count: int = 0) -> Audit:
    """The audit of the last group of a `run` folder, with the model that it trained.

    The model stays as it is, whatever `min_count` would have kept from it.
    """
    if not (run / "config.toml").exists():
        raise GgeurError(
            f"{run} is no run folder: it holds no config.toml. Name a table (.npz) or a run.", code="folder-not-run"
        )
    experiment = Experiment.load(run / "config.toml")
    last = len(experiment.points) * len(experiment.seeds) - 1
    return audit(experiment.points[-1], experiment.seeds[-1], min_count, Model.load(run, trial=last))


def audit(point: Settings, seed: int, min_count: int = 0, model: Model | None = None) -> Audit:
    """Return what each party can find out where groups under `min_count` samples are not shared.

    Without a `model` one is solved from the messages, which is what they are good for at the least.
    """
    trial_data, setup = TrialData(), Setup.of(point)
    table, _ = trial_data.samples(setup, seed)
    least = max(min_count, point.privacy.release.least_group)
    everybody = clients_of(table, point.partition, seed)
    sent = Released(setup, clients_of(table, point.partition, seed, least), seed)
    held = _Held(table, everybody.homes)
    names, kind = client_names(table, everybody.parts), sent.kind
    if model is not None:
        sure = _sureness(model, trial_data.split(point.data, seed))
    else:  # what is audited without a model sends messages
        sure = _sureness(_solved(sent.total(), table, seed), table)
    total, other = TotalObserver(sent) if kind is not None else None, OtherClient(sent)
    asks = isinstance(sent.algorithm, ClosedForm) and sent.algorithm.features is not None
    features = FeatureObserver(sent, task_of(table)) if asks else None
    findings: list[Finding] = []
    for k, own in enumerate(everybody.parts):
        seen: dict[int, list[tuple[Group, Int]]] = {}
        for samples, message in sent.seen(k) if kind is not None else ():
            for c, group in groups(message).items():
                if len(mine := samples[table.y[samples] == c]):  # under noise, groups without a sample are sent as well
                    seen.setdefault(c, []).append((group, mine))
        if (
            setup.standardise and len(own) == 1 and not point.privacy.secure_aggregation
        ):  # the sum behind the units is that sample
            seen.setdefault(int(table.y[own[0]]), []).append((Group(1, table.x[own[0]].astype(np.float64)), own))
        for c in np.unique(table.y[own]).tolist():
            mine = own[table.y[own] == c]
            views: list[tuple[Party, Iterable[tuple[Group | None, Int]], float]] = [
                ("server", seen.get(c, []), 1e-6),
                ("other client", [(other.group(k, c), mine)], _FLOAT32),
                ("total", total.looks(k, c) if total else [], 1e-6),
            ]
            for party, looks, inside in views:
                each = [held.look(group, samples, k, inside) for group, samples in looks if group is not None]
                if features is not None and party == "server" and c in seen:
                    each += [held.look_at_features(features, k, c, seen[c])]
                findings.append(Finding(party, k, c, len(mine), *_worst(each)))
            findings.append(Finding("model", k, c, len(mine), *_worst([held.told(sure[mine], sure, k, c)])))
    return Audit(findings, names, table.class_names, kind)


Look = tuple[Found, Int, float | None]  # what, which samples exactly, and the AUC


def _worst(looks: Sequence[Look]) -> tuple[Found, int, float | None]:
    """Of several messages about one group; a sample that two of them give away is one."""
    if not looks:
        return "not sent", 0, None
    found, _, sharp = max(looks, key=lambda look: (ORDER.index(look[0]), look[2] or 0.0))
    return found, len(np.unique(np.concatenate([look[1] for look in looks]))), sharp


class _Held(NamedTuple):
    """The samples that attacks are measured on: members, and test samples that nobody shared anything of."""

    table: EmbeddingTable
    homes: Sequence[int | None]

    def others(self, k: int, c: int) -> Int:
        """Test samples of class `c`, of the domain of client `k` if it has one, so that only membership differs."""
        t, home = self.table, self.homes[k]
        assert t.test is not None  # the table has been split
        alike = t.test & (t.y == c)
        return np.flatnonzero(alike if home is None else alike & (t.domains == home))

    def look(self, group: Group, members: Int, k: int, inside: float) -> Look:
        """Return what `group` gives away about the samples `members` of client `k`."""
        x: NDArray[Any] = self.table.x[members].astype(np.float64)
        others = self.table.x[self.others(k, int(self.table.y[members[0]]))]
        samples = recovered_samples(group)
        if samples is not None and len(samples) and len(hits := members[_matched(samples, x)]):
            return "exact samples", hits, None
        span = None if group.spread is None else in_span(group.mean, group.spread, np.concatenate([x, others]), inside)
        if span is None:
            scores = likelihood_ratio(group, np.concatenate([x, others]))
        elif len(others) and span[: len(x)].all() and not span[len(x) :].any():
            return "span", members[:0], 1.0
        else:
            scores = span.astype(np.float64)
        return _membership(scores[: len(x)], scores[len(x) :])

    def look_at_features(self, features: FeatureObserver, k: int, c: int, seen: Sequence[tuple[Group, Int]]) -> Look:
        """Return what the features of class `c` at client `k` give away, beside the groups that were `seen` of it."""
        members = np.concatenate([mine for _, mine in seen])
        x = self.table.x[members].astype(np.float64)
        samples = features.recovered(k, c, seen[0][0]) if len(seen) == 1 else None
        if samples is not None and len(hits := members[_matched(samples, x, NEAR)]):
            return "exact samples", hits, None
        others = self.table.x[self.others(k, c)]
        if not len(others):
            return "nothing found", members[:0], None
        scores = features.likeness(k, c, np.concatenate([x, others]))
        if scores[: len(x)].min() > scores[len(x) :].max():
            return "span", members[:0], 1.0
        return _membership(scores[: len(x)], scores[len(x) :])

    def told(self, members: Float, sure: Float, k: int, c: int) -> Look:
        """Return what the model gives away by being surer of its `members` than of samples it has not seen."""
        return _membership(members, sure[self.others(k, c)])


def _membership(members: Float, others: Float) -> Look:
    none = np.zeros(0, np.int64)
    if not len(others):
        return "nothing found", none, None
    found = auc(members, others)
    sure = found > 0.5 + _SURE * chance(len(members), len(others))
    return ("membership" if sure else "nothing found"), none, found


def _matched(samples: Float, x: Float, same: float = _SAME) -> Bool:
    """Which of the samples `x` are among the recovered `samples`."""
    far = np.linalg.norm(x[:, None] - samples[None], axis=2).min(axis=1)
    return np.asarray(far <= same * np.linalg.norm(x, axis=1))


def _solved(total: FederationStatistics, table: EmbeddingTable, seed: int) -> Model:
    name = "ncm" if total.kind == "none" else "lda"
    params = one_shot_head(resolve_closed_form(name, {}), name, total, task_of(table), seed)
    return Model(params, "linear", table.dimension, table.class_names, {})


def _sureness(model: Model, table: EmbeddingTable) -> Float:
    """(N,): the log of the probability that the model gives each sample's own class."""
    found = model.probabilities(table)[np.arange(len(table)), table.y]
    return np.log(np.maximum(found.astype(np.float64), 1e-38))


FILE = "audit.json"
_SCHEMA = 1


def save_audit(found: Audit, folder: str | os.PathLike[str]) -> Path:
    """Write it into a `folder`, whole or not at all; its path."""
    path = Path(folder) / FILE
    write_bytes(path, sealed({"schema": _SCHEMA, "audit": _reader().dump_python(found, mode="json")}))
    return path


def load_audit(folder: str | os.PathLike[str]) -> Audit | None:
    """Return what the file of a `folder` holds; None where there is none."""
    path = Path(folder) / FILE
    try:
        tree = unsealed(path.read_bytes(), {"schema", "audit"})
        if tree["schema"] != _SCHEMA:
            raise ValueError(f"this version reads schema {_SCHEMA}")
        return _reader().validate_python(tree["audit"])
    except FileNotFoundError:
        return None
    except (OSError, KeyError, ValidationError, ValueError, RecursionError) as error:
        raise GgeurError(
            f"{path} is not what an audit wrote; run `ggeur audit` again.", code="audit-file-invalid"
        ) from error


@lru_cache(maxsize=1)
def _reader() -> TypeAdapter[Audit]:
    return TypeAdapter(Audit)
