"""What a report opens with: what was compared, on what data, and how large the embeddings themselves are."""

import datetime
from collections.abc import Mapping, Sequence

import numpy as np

from ggeur.data.image_table import ImageTable
from ggeur.experiments.partitions import partition_samples
from ggeur.report.evidence import ReportedData
from ggeur.report.folders import ReportedRun
from ggeur.stats.errors import GgeurError
from ggeur.stats.long_jobs import human_bytes

_METHODS = 12  # that are named
_DOMAINS = 8
_SKEW = {"dirichlet": "label skew", "domain": "domain shift", "label-and-domain": "label skew and domain shift"}


def overview(run: ReportedRun, data: Sequence[ReportedData]) -> list[tuple[str, str]]:
    """Return what the run compared on its `data`: headings, each with its words."""
    trials, seeds = run.result.trials, run.experiment.seeds
    names = list(dict.fromkeys(line.name for line in run.table.lines))
    more = f" and {len(names) - _METHODS} more" if len(names) > _METHODS else ""
    found = [(f"Data: {one.name}", _data(one, seeds[0])) for one in data]
    found.append(("Methods", ", ".join(names[:_METHODS]) + more))
    if any(trial.local_steps for trial in trials):
        rounds = sorted({point.train.rounds for point in run.experiment.points})
        found.append(("Rounds", ", ".join(f"{n:,}" for n in rounds)))
    found.append(("Seeds", f"{len(seeds)}" if len(seeds) > 1 else "1, which says nothing about chance"))
    finished = datetime.datetime.fromtimestamp((run.folder / "result.json").stat().st_mtime, datetime.UTC)
    seconds = sum(trial.seconds for trial in trials)
    found.append(("Time", f"finished on {finished:%Y-%m-%d}; {_duration(seconds)} for {len(trials):,} trials"))
    return found


def _data(one: ReportedData, seed: int) -> str:
    """Return the samples, classes, sites, domains and encoder of some data, as far as they are known."""
    partitions = list(dict.fromkeys(point.partition for point in one.points))
    skew = " and ".join(dict.fromkeys(_SKEW.get(p.kind, p.kind) for p in partitions))
    betas = sorted({p.beta for p in partitions if p.kind != "domain"})
    skew += f" (β = {', '.join(f'{beta:g}' for beta in betas)})" if betas else ""
    table = one.table
    if table is None:
        return skew
    test = int(table.test.sum()) if table.test is not None else 0
    words = [f"{len(table.y) - test:,} training and {test:,} test samples", f"{table.n_classes:,} classes"]
    try:
        sites = sorted({len(partition_samples(table, p, seed)) for p in partitions})
        words.append(f"{' or '.join(f'{n:,}' for n in sites)} sites with {skew}")
    except GgeurError:
        words.append(skew)
    if len(table.domain_names) > 1:
        more = " and others" if len(table.domain_names) > _DOMAINS else ""
        words.append(f"domains {', '.join(table.domain_names[:_DOMAINS])}{more}")
    encoder = table.meta.get("encoder") if isinstance(table.meta, Mapping) else None
    if not isinstance(table, ImageTable):
        words.append(f"encoder {encoder}" if encoder else f"embeddings of {table.x.shape[1]:,} dimensions")
    return "; ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def embedding_bytes(data: Sequence[ReportedData], seed: int) -> float | None:
    """Return the bytes of a site's training embeddings in float32, averaged over sites; None without the tables."""
    sizes = []
    for one in data:
        if one.table is None or isinstance(one.table, ImageTable):
            return None
        for partition in dict.fromkeys(point.partition for point in one.points):
            parts = partition_samples(one.table, partition, seed)
            sizes.append(4 * one.table.x.shape[1] * float(np.mean([len(part) for part in parts])))
    return float(np.mean(sizes)) if sizes else None


def raw_size(raw: float | None) -> str:
    """Return the sentence that says how large a site's embeddings are; empty where that is not known."""
    return "" if not raw else f"A site's training embeddings are {human_bytes(int(raw))} in float32, on average."
