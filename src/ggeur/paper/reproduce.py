"""A table of the paper as one experiment.

Every row of every part becomes an arm; what cannot run is kept, with the reason.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ggeur.data.image_table import ImageTable
from ggeur.data.readers import plain_name
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment, override
from ggeur.experiments.partitions import partition_samples
from ggeur.experiments.settings import PROTOCOLS, Train
from ggeur.experiments.trial_data import TrialData, task_of
from ggeur.heads import resolve
from ggeur.heads.head import Head
from ggeur.methods.clip_folder import clip_folder
from ggeur.paper.paper_tables import PartEmbeddings, Table, TablePart, TableRow
from ggeur.paper.reproduction import AbsentRow, Arm, Column, Reproduction
from ggeur.stats.errors import GgeurError, Unavailable

_PASSES = 3  # a step costs about three times what the network costs forwards
_MORE = {"moon": 5 / 3, "fedntd": 4 / 3}  # which also ask other networks
_BATCH, _TIMES, _LONGEST = 8, 50, 1.0  # pictures in a batch that is timed, so often, or for so many seconds


def image_notes(part: TablePart, source: PartEmbeddings, network: str | None) -> list[str]:
    """Return what a reader must know of these rows on the pictures of `source`, by another `network` if named."""
    assert isinstance(source.table, ImageTable)
    head, pixels, theirs = network or part.images["head"], source.table.pixels, part.images["pixels"]
    benchmark = part.images.get("benchmark", part.images["head"])
    notes = [f"{part.name}: rows (images) have GroupNorm for the benchmark's BatchNorm, and our test samples."]
    if head != benchmark:
        notes.append(f"{part.name}: rows (images) are of {head}, in the place of the benchmark's {benchmark}.")
    if pixels != theirs:
        notes.append(f"{part.name}: rows (images) are of {pixels} x {pixels} pixels; the benchmark's are {theirs}.")
    return notes


def estimated_seconds(experiment: Experiment) -> float:
    """Estimate how long the rows on pictures will take here, by the pictures they train on and how long one takes.

    It is a guess within a factor of two or three; it tells minutes from days.
    """
    trial_data, seconds = TrialData(), 0.0
    forwards: dict[tuple[str, str, int, int], float] = {}  # networks are timed once
    for point in experiment.points:
        head = resolve(point.train.head, **point.head_parameters)
        if not head.images:
            continue
        table = trial_data.split(point.data, experiment.seeds[0])
        rows = sum(map(len, partition_samples(table, point.partition, experiment.seeds[0])))
        network = (point.train.head, str(point.head_parameters), table.dimension, table.n_classes)
        if network not in forwards:
            forwards[network] = _forwards(head, table.dimension, table.n_classes)
        each = _PASSES * forwards[network] * _MORE.get(point.train.method, 1.0)
        seconds += each * rows * point.train.local_epochs * point.train.rounds * len(experiment.seeds)
    return seconds


def _forwards(head: Head, p: int, n_classes: int) -> float:
    """Seconds that a network takes for one picture of `p` bytes, in a small batch."""
    shapes = jax.eval_shape(lambda key: head.init(key, p, n_classes), jax.random.key(0))
    params = jax.tree.map(lambda a: np.full(a.shape, 0.01, a.dtype), shapes)  # drawn ones would be compiled first
    logits, x = jax.jit(head.logits), np.ones((_BATCH, p), np.float32)
    logits(params, x).block_until_ready()
    began, times = time.perf_counter(), 0
    while not times or (times < _TIMES and time.perf_counter() - began < _LONGEST):
        logits(params, x).block_until_ready()
        times += 1
    return (time.perf_counter() - began) / (times * _BATCH)


CLIP = "clip-vit-base-patch16"
_TEXT = {"zeroshot": None, "fedclip": "fedclip"}  # methods that need text embeddings, and by which prompts
SCRIPTED = ("scaffold", "moon", "feddyn", "fedopt", "fedproto", "fedntd")  # released beside FedAvg's


_NOT_TUNED = "protocol tuned does not cover rows on images; run them under another"
_ONLY_NAMED = "it takes long, and runs only when named, as in --rows '*(images)*'"


def prepare_table(
    table: Table,
    sources: Mapping[str, PartEmbeddings],
    *,
    rows: Sequence[TableRow] | None = None,
    seeds: int = 3,
    rounds: int | None = None,
    protocol: str = "paper",
    changes: Sequence[str] = (),
    pictures: Mapping[str, PartEmbeddings] | None = None,
    network: str | None = None,
) -> tuple[Experiment, Reproduction]:
    """The experiment of a `table` on its parts' embeddings, `sources`, and how to read its result.

    `rows` are those to run (default: all), with so many `seeds` and `rounds` (default: the paper's), under a
    `protocol`: as the paper is written, as its scripts were released, or ours; `tuning` has what comes before `tuned`.
    `changes` are of settings, for all rows, as "section.key=value".
    Rows on images run on the parts' `pictures`, where they are given, with another `network` than the table's if one is
    named.
    """
    if protocol not in PROTOCOLS:
        raise GgeurError(
            f"There is no protocol '{protocol}'; there are {', '.join(PROTOCOLS)}.", code="paper-protocol-unknown"
        )
    arms: list[dict[str, Any]] = []
    rows = table.rows if rows is None else rows
    order = [row.name for row in rows]
    given = override({"method": dict(table.method)}, changes)["method"]
    reading = Reproduction(table.name, table.title, table.measure, protocol, order=order)
    for part in table.parts:
        embedded = sources.get(part.name, PartEmbeddings(None, None, f"no embeddings of {part.name} were given"))
        no_images = _ONLY_NAMED if pictures is None else f"no image table of {part.name} was given"
        no_images = _NOT_TUNED if protocol == "tuned" else no_images
        imaged = (pictures or {}).get(part.name, PartEmbeddings(None, None, no_images))
        first = embedded if imaged.table is None else imaged
        if first.table is None:
            _note(reading.notes, f"{part.name} did not run: {first.why}.")
        reading.columns += _columns(table, part, first.table, reading.notes)
        if imaged.table is not None:
            reading.notes += image_notes(part, imaged, network)
        for row in rows:
            published = row.published or row.name
            source = imaged if row.images else embedded
            why = source.why if source.table is None else _why_not(row, protocol, source.table, given)
            if why:
                reading.absent.append(AbsentRow(row.name, part.name, why, published))
                continue
            name = row.name if len(table.parts) == 1 else f"{part.name}: {row.name}"
            overrides = _overrides(row, part, source, protocol, rounds, reading.notes)
            if row.images:
                overrides["train"]["head"] = network or part.images["head"]
            arms.append({"name": name, **overrides})
            reading.arms.append(Arm(row.name, part.name, name, published, row.control))
    if not arms:
        raise GgeurError(f"No row of {table.name} can run: {reading.absent[0].why}.", code="paper-rows-unavailable")
    if rounds is not None and any(rounds < part.train["rounds"] for part in table.parts):
        most = max(part.train["rounds"] for part in table.parts)
        reading.notes.append(f"Trained for {rounds} rounds; the paper's table has {most}.")
    for change in changes:
        reading.notes.append(f"Not as the table has it: {change}.")
        reading.changes.append(change)
    return Experiment.of(
        {
            "method": table.method,
            "run": {"seeds": list(range(seeds)), "protocol": protocol},
            "arm": [override(arm, changes) for arm in arms],
        }
    ), reading


def _why_not(row: TableRow, protocol: str, embeddings: EmbeddingTable, given: Mapping[str, Any]) -> str:
    """Why a row cannot run on these embeddings, or nothing; `given` are the parameters of methods."""
    task, own = task_of(embeddings), given.get(row.method or "", {})
    try:
        if row.method in _TEXT:
            task.text_of(own.get("prompts", _TEXT[row.method]), row.method)
        if row.method == "fedtpg":
            clip_folder(task, str(own.get("clip", "")))
    except Unavailable as error:
        return str(error).rstrip(".")
    if protocol == "released" and row.images:
        return "no script of it was released"
    if protocol == "released" and row.method in SCRIPTED:
        return "its released script does not do what the method does"
    if protocol == "released" and row.method not in ("fedavg", None):
        return "no script of it was released"
    return ""


def _overrides(
    row: TableRow, part: TablePart, source: PartEmbeddings, protocol: str, rounds: int | None, notes: list[str]
) -> dict[str, Any]:
    assert source.table is not None
    augment: dict[str, Any] = {"kind": row.augment} | ({"steps": row.steps} if row.steps else {})
    train = dict(part.train) | ({"method": row.method} if row.method else {})
    train |= ({"weights": row.weights} if row.weights else {}) | dict(row.train)
    if row.note:
        _note(notes, row.note)
    partition = dict(part.partition)
    if protocol == "released":
        # Controls train as GGEUR does, so that they differ from it in the samples alone.
        for extra in (part.released, part.released_ggeur if row.augment != "none" else {}):
            augment |= extra.get("augment", {})
            train |= extra.get("train", {})
    if rounds is not None:
        train["rounds"] = rounds
    if part.dataset == "digits" and "share" in partition and "share" not in source.table.meta:
        partition["share"] = 1.0  # ours say what share they took; from others we take all that is there
        _note(notes, f"{part.name}: the table does not say what share of each domain it is; all of it is used.")
    tree: dict[str, Any] = {
        "data": {"table": os.path.abspath(str(source.path))},
        "partition": partition,
        "augment": augment,
        "train": {key: value for key, value in train.items() if key in Train.model_fields},
    }
    if part.vary is not None:
        section, key = part.vary.split(".")
        values = list(part.values)
        if protocol == "released" and part.vary == "train.method":
            values = [value for value in values if value not in SCRIPTED]
            _note(notes, "Only FedAvg was run: the other released scripts do not do what their methods do.")
        tree[section] = tree[section] | {key: values}
    return tree


def _columns(table: Table, part: TablePart, embeddings: EmbeddingTable | None, notes: list[str]) -> list[Column]:
    """The paper's columns and where their numbers are; a domain that is not the paper's is noted."""
    pictures = isinstance(embeddings, ImageTable)
    if embeddings is not None and not pictures and CLIP not in str(embeddings.meta.get("encoder", "")):
        made = embeddings.meta.get("encoder")
        by = f"by {made}" if made else "by an encoder that the table does not name"
        _note(notes, f"{part.name} was embedded {by}; the paper used CLIP ViT-B/16, so levels differ from its own.")
    names = list(embeddings.domain_names) if embeddings is not None else list(part.domains.values())
    pairs, replaced = pair_domains(part.domains, names)
    for column, domain in replaced.items():
        _note(notes, f"{part.name}: {domain} stands in for {column}, so these figures and AVG do not compare.")
    if part.vary is not None:
        return [
            Column(label, part.name, "value", part.vary, value)
            for label, value in zip(part.columns, part.values, strict=True)
        ]
    labels = [
        Column(column, part.name, "domain", value=domain, replaced=column in replaced)
        for column, domain in pairs.items()
    ]
    return [*labels, Column("AVG", part.name, "avg"), Column("STD", part.name, "std")]


def pair_domains(wanted: Mapping[str, str], names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The table's domain behind each of the paper's columns, and those of them that are really another domain.

    >>> pair_domains({"MNIST": "mnist", "SYN": "syn"}, ["MNIST", "mnist_m"])
    ({'MNIST': 'MNIST', 'SYN': 'mnist_m'}, {'SYN': 'mnist_m'})
    """
    by_name = {plain_name(name): name for name in names}
    left = [name for name in names if plain_name(name) not in {plain_name(domain) for domain in wanted.values()}]
    replaced = dict(zip((c for c, d in wanted.items() if plain_name(d) not in by_name), left, strict=False))
    return {c: replaced.get(c) or by_name.get(plain_name(d), d) for c, d in wanted.items()}, replaced


def _note(notes: list[str], text: str) -> None:
    if text not in notes:
        notes.append(text)
