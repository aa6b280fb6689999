"""Rows that are trained end to end on pictures: what differs from the benchmark, and how long they will take."""

import time

import jax
import numpy as np

from ggeur.data.image_table import ImageTable
from ggeur.experiments.grid import Experiment
from ggeur.experiments.partitions import partition_samples
from ggeur.experiments.trial_data import TrialData
from ggeur.heads import resolve
from ggeur.heads.head import Head
from ggeur.paper.paper_tables import PartEmbeddings, TablePart

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
