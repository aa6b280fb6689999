"""How well selection from statistics selects: regret to the best candidate, by rule, default and margin.

python tools/selection_study.py run OUT.json TABLE.npz [...] [--test] [--seeds 5]
python tools/selection_study.py report OUT.json [--default LABEL] [--margin 1]

`run` scores development samples: a fifth of each group's training samples, and all that a partition leaves unused; test
samples are not read. Constants are chosen by these. With `--test` it scores test samples, once all constants are fixed,
and cross-validates on real samples too. A run is one partition with one seed. Digits,
by domain, and tables of one domain have one partition, so one seed. `report` prints for each rule the mean regret (of
the federations' means over seeds), the worst run, and what was taken; and how far the temperature of four classifiers,
fitted on synthetic and on real samples left out, is from the best one: in nats of the log-loss on what is scored.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax

import ggeur
from ggeur.experiments.partitions import clients_of
from ggeur.experiments.settings import Partition
from ggeur.federation.folds import Fold, folds_of, sample_folds, unseen
from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.selection import MARGIN, Scores, by_rule, cross_validated, solved_candidates
from ggeur.federation.start import one_shot_head
from ggeur.federation.temperature import CrossValidatedScores, synthetic_temperature, temperature
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods.algorithm import Candidate, Selection, Task
from ggeur.methods.auto import auto
from ggeur.stats.site_statistics import Breakdown, Covariance, FederationStatistics, StatisticsQuery

CALIBRATED = ("lda", "ggeur-limit", "mixture", "blend")


def federations(table: ggeur.EmbeddingTable) -> list[Partition]:
    """The partitions of a table: by domain and by label and domain, or by label where there is one domain."""
    if table.n_domains == 1:
        return [Partition(kind="dirichlet", beta=0.1)]
    return [Partition(kind="domain"), *(Partition(kind="label-and-domain", beta=b) for b in (0.5, 0.1))]


def validation_of(table: ggeur.EmbeddingTable, seed: int) -> ggeur.EmbeddingTable:
    """The training samples alone, of which a fifth of every group are marked as test."""
    kept = table.subset(np.flatnonzero(~table.test))
    rng, marks = np.random.default_rng(seed), np.zeros(len(kept), bool)
    for d, c in {(int(d), int(c)) for d, c in zip(kept.domains, kept.y, strict=True)}:
        rows = rng.permutation(np.flatnonzero((kept.domains == d) & (kept.y == c)))
        marks[rows[: len(rows) // 5]] = True
    return replace(kept, test=marks)


def group_counts(clients: LocalFederation) -> Any:
    """(D, C): all samples together, of each class in each domain."""
    samples = np.concatenate(clients.parts)
    count = np.zeros((int(clients.domains.max()) + 1, clients.n_classes), np.int64)
    np.add.at(count, (clients.domains[samples], clients.y[samples]), 1)
    return count


class LocalFolds(NamedTuple):
    """LocalFederation, each with the fold of every sample of it."""

    clients: LocalFederation
    number: int  # of folds
    fold: Sequence[Any]

    @classmethod
    def of(cls, clients: LocalFederation, number: int, seed: int, least: int = 0) -> "LocalFolds":
        """With at `least` so many samples of a group in each fold that has any of it."""
        each = [
            sample_folds(clients.y[samples], clients.domains[samples], number, seed, k, least)
            for k, samples in enumerate(clients.parts)
        ]
        return cls(clients, number, each)

    def _in(self, fold: Fold, client: int) -> Any:
        samples = self.clients.parts[client]
        if fold.groups is None:
            return np.asarray(self.fold[client] == fold.number)
        return fold.groups[self.clients.domains[samples], self.clients.y[samples]]

    def rows_in(self, fold: Fold) -> Any:
        """All samples of `fold`, client after client."""
        return np.concatenate([samples[self._in(fold, k)] for k, samples in enumerate(self.clients.parts)])

    def total(self, fold: Fold, needs: Covariance, apart: Breakdown | None) -> FederationStatistics:
        """The statistics of all samples but those of `fold`: `needs` of their total, `apart` of every domain."""
        kept = [samples[~self._in(fold, k)] for k, samples in enumerate(self.clients.parts)]
        return replace(self.clients, parts=kept).statistics(StatisticsQuery(needs, apart))


def cross_validated_scores(folds: LocalFolds, candidate: Candidate, task: Task, seed: int) -> CrossValidatedScores:
    """Return what a candidate says of samples, and where groups are unseen of whole groups, that are left
    out.

    Each group counts as it does where a head is chosen: once where it was seen, and those left out whole stand for the
    unseen ones.
    """
    clients, solved = folds.clients, candidate.solved
    head, count = resolve_head(solved.head), group_counts(clients)
    each = folds_of(count, folds.number, seed)
    left = np.any([f.groups for f in each if f.groups is not None] or [count < 0], axis=0)
    logits, y, weight = [], [], []
    for fold in each:
        params = one_shot_head(solved, candidate.name, folds.total(fold, solved.needs, solved.apart), task, seed)
        samples = folds.rows_in(fold)
        found = double_logits(head, params, clients.x[samples])
        assert found is not None
        logits.append(found)
        y.append(clients.y[samples])
        one = 1.0 if fold.groups is None else unseen(count) / left.sum()
        weight.append(one / count[clients.domains[samples], clients.y[samples]])
    w = np.concatenate(weight)
    return CrossValidatedScores(np.concatenate(logits), np.concatenate(y), w / w.sum() if len(w) else w)


def accuracy(table: ggeur.EmbeddingTable, rows: Any, head: str, params: Any, by_class: bool) -> float:
    """The mean over domains of the accuracy, in percent; within a domain over samples, or over classes."""
    logits = double_logits(resolve_head(head), params, table.x[rows])
    assert logits is not None
    hit, y, domain = logits.argmax(axis=1) == table.y[rows], table.y[rows], table.domains[rows]
    each = []
    for d in np.unique(domain):
        groups = [hit[(domain == d) & (y == c)].mean() for c in np.unique(y[domain == d])]
        each.append(np.mean(groups) if by_class else hit[domain == d].mean())
    return float(100 * np.mean(each))


def on_real_samples(clients: LocalFederation, chosen: Selection, task: Task, seed: int) -> Scores:
    """Cross-validation on the clients' own samples."""
    folds, count = LocalFolds.of(clients, chosen.folds, seed), group_counts(clients)
    parts = folds_of(count, chosen.folds, seed)
    right = np.zeros((2, len(chosen.candidates), *count.shape), np.int64)
    start = solved_candidates(
        chosen, clients.statistics(StatisticsQuery(chosen.needs, chosen.apart)), task, seed, {}, {}
    )
    for fold in parts:
        rows = folds.rows_in(fold)
        found = solved_candidates(chosen, folds.total(fold, chosen.needs, chosen.apart), task, seed, start, {})
        for i, params in found.items():
            logits = double_logits(resolve_head(chosen.candidates[i].solved.head), params, clients.x[rows])
            assert logits is not None
            hit = rows[logits.argmax(axis=1) == clients.y[rows]]
            np.add.at(right[int(fold.groups is not None), i], (clients.domains[hit], clients.y[hit]), 1)
    left = np.any([f.groups for f in parts if f.groups is not None] or [count < 0], axis=0)
    here, missing = count > 0, unseen(count)
    share = np.concatenate([right[0][:, here] / count[here], right[1][:, left] / count[left]], axis=1)
    weight = np.concatenate([np.ones(here.sum()), np.full(left.sum(), missing / max(left.sum(), 1))])
    return Scores(share, weight / weight.sum(), bool(left.any()), bool(left.any()) or not missing)


def calibration(
    clients: LocalFederation,
    by_domain: tuple[Any, ...],
    chosen: Selection,
    scored: CrossValidatedScores,
    i: int,
    task: Task,
    seed: int,
) -> list[float]:
    """Excess log-loss at no temperature, at that by synthetic samples, and at that by real ones; then these three T."""

    def loss(t: float) -> float:
        p = log_softmax(scored.logits / t, axis=1)
        return -float(scored.weight @ p[np.arange(len(p)), scored.y])

    best, one = temperature(scored), chosen.candidates[i]
    synthetic = synthetic_temperature(one, by_domain, task, seed).value or float("nan")
    left = cross_validated_scores(LocalFolds.of(clients, 4, seed), one, task, seed)
    real = temperature(left)
    return [*(loss(t) - loss(best) for t in (1.0, synthetic, real)), best, synthetic, real]


def runs(path: str, seeds: int, test: bool, statistics: str) -> Iterator[dict[str, Any]]:
    """Every federation of a table with every seed."""
    own = ggeur.EmbeddingTable.load(path)
    for partition in federations(own):
        for seed in range(seeds if own.test is None or partition.kind == "label-and-domain" else 1):
            table = own.split(seed) if test else validation_of(own.split(seed), seed)
            clients = clients_of(table, partition, seed)
            held = np.concatenate(clients.parts)
            scored = np.flatnonzero(table.test) if test else np.setdiff1d(np.arange(len(table)), held)
            task, chosen = Task(table.dimension, table.class_names), auto(covariance=statistics)
            total: FederationStatistics = clients.statistics(StatisticsQuery(statistics, Breakdown(statistics)))
            truth, calibrated = [], {}
            plain = clients.statistics(StatisticsQuery(chosen.needs, chosen.apart))
            for c in chosen.candidates:
                params = one_shot_head(c.solved, c.name, plain, task, seed)
                truth.append(accuracy(table, scored, c.solved.head, params, not test))
                if c.label in CALIBRATED and statistics == "per-class":
                    logits = double_logits(resolve_head(c.solved.head), params, table.x[scored])
                    assert logits is not None
                    of_table = CrossValidatedScores(logits, table.y[scored], np.full(len(scored), 1 / len(scored)))
                    i = len(truth) - 1
                    calibrated[c.label] = calibration(clients, total.apart, chosen, of_table, i, task, seed)
            began = time.process_time()
            synthetic = cross_validated(chosen, total.apart, task, seed, {})
            seconds = time.process_time() - began
            name = f"{Path(path).stem}, {partition.kind}"
            name += f" {partition.beta:g}" if partition.kind == "label-and-domain" else ""
            found = {"federation": name, "seed": seed, "seconds": seconds, "truth": truth, "samples": len(held)}
            found["calibration"] = calibrated
            found["synthetic"] = [synthetic.share.tolist(), synthetic.weight.tolist(), synthetic.known]
            if test:
                began = time.process_time()
                real = on_real_samples(clients, chosen, task, seed)
                found["seconds_real"] = time.process_time() - began
                found["real"] = [real.share.tolist(), real.weight.tolist(), real.known]
            yield found


def regrets(found: list[dict[str, Any]], chosen: Selection, which: str, default: str, margin: float) -> list[int]:
    """Which candidate each run takes."""
    taken = []
    for run in found:
        share, weight, known = run[which]
        scores = Scores(np.array(share), np.array(weight), known=known)
        taken.append(by_rule(chosen.candidates, scores, default, None, margin).taken)
    return taken


def report(found: list[dict[str, Any]], default: str | None, margin: float) -> None:
    """Print what every rule would take, and its regret."""
    chosen = auto()
    labels = [c.label for c in chosen.candidates]
    truth = np.array([run["truth"] for run in found])
    regret = truth.max(axis=1, keepdims=True) - truth
    names = list(dict.fromkeys(run["federation"] for run in found))
    of = [np.array([run["federation"] == name for run in found]) for name in names]

    def line(title: str, taken: list[int]) -> None:
        lost = regret[np.arange(len(found)), taken]
        means = [lost[mine].mean() for mine in of]
        print(f"{title:58s} mean {np.mean(means):5.2f}  worst run {lost.max():5.2f}  worst mean {max(means):5.2f}")

    for i, label in enumerate(labels):
        line(f"always {label}", [i] * len(found))
    whichs = [which for which in ("synthetic", "real") if which in found[0]]
    if default is None:
        for which in whichs:
            for label in labels:
                for m in (0.0, 0.5, 1.0, 1.5, 2.0):
                    line(f"{which}, default {label}, margin {m}", regrets(found, chosen, which, label, m))
        return
    for which in whichs:
        line(f"{which}, default {default}, margin {margin}", regrets(found, chosen, which, default, margin))
    print("\nfederation: mean of every candidate; of the selected one, by synthetic and real samples")
    print("; ".join(f"{i} {label}" for i, label in enumerate(labels)))
    for name, mine in zip(names, of, strict=True):
        row = [f"{value:5.1f}" for value in truth[mine].mean(axis=0)]
        some = [run for run, here in zip(found, mine, strict=True) if here]
        for which in whichs:
            taken = regrets(some, chosen, which, default, margin)
            got = truth[mine][np.arange(len(some)), taken].mean()
            row.append(f"| {which} {got:.1f} {taken}")
        print(f"{name:46s}", " ".join(row), f"| {np.mean([run['seconds'] for run in some]):.1f} s")
    print("\nexcess log-loss at T = 1, by synthetic samples, by real ones; then T: best, synthetic, real (medians)")
    for name, mine in zip(names, of, strict=True):
        some = [run for run, here in zip(found, mine, strict=True) if here and run.get("calibration")]
        for label in CALIBRATED if some else ():
            values = np.median([run["calibration"][label] for run in some], axis=0)
            print(f"{name:46s} {label:12s}", " ".join(f"{v:7.3f}" for v in values))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "report"])
    parser.add_argument("out", type=Path)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--covariance", default="per-class")
    parser.add_argument("--default")
    parser.add_argument("--margin", type=float, default=MARGIN)
    asked = parser.parse_args()
    if asked.command == "report":
        report(json.loads(asked.out.read_text()), asked.default, asked.margin)
        return
    found = []
    for path in asked.tables:
        for run in runs(path, asked.seeds, asked.test, asked.covariance):
            found.append(run)
            best = int(np.argmax(run["truth"]))
            print(
                run["federation"],
                run["seed"],
                f"best {best} {run['truth'][best]:.2f}",
                f"{run['seconds']:.1f} s",
                flush=True,
            )
            asked.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
