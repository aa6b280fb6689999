"""A table dealt out: who holds which samples, what they train on, and from where; all of it made once for a run."""

import hashlib
import warnings
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import jax
import numpy as np

from ggeur.data.image_table import ImageTable
from ggeur.data.table import EmbeddingTable
from ggeur.engine.image_augmentation import ImageAugmentation, views_of
from ggeur.engine.stack import Run
from ggeur.experiments.partitions import (
    client_samples,
    clients_of,
    load_table,
    partition_samples,
    scored_by_group,
    validation_of,
)
from ggeur.experiments.settings import Data, Partition, Settings
from ggeur.experiments.setup import Setup
from ggeur.federation.evaluation import TestSet
from ggeur.federation.folds import ValidationSplit
from ggeur.federation.local_federation import LocalFederation, TrainingSets
from ggeur.federation.one_shot import OneShot, one_shot
from ggeur.federation.selection import Selected
from ggeur.federation.start import client_weights, random_head, to_train
from ggeur.heads import arguments
from ggeur.heads.head import Head, Params
from ggeur.methods.algorithm import ClosedForm, Selection, Task
from ggeur.methods.auto import public_rule
from ggeur.models.model import Model
from ggeur.privacy.bounded_norm import BoundedNorm
from ggeur.stats.custom import blaming
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.units import SampleMoments, Units

_TABLES = 2  # held at once; groups of one table mostly come together
_KEPT, _KEPT_BYTES = 10, 2**27  # augmented clients kept for the next method: how many, and how large each may be


def task_of(table: EmbeddingTable) -> Task:
    """Return what is to be learnt from this table."""
    return Task(table.dimension, table.class_names, table.text, encoder=str(table.meta.get("encoder", "")))


def in_units(table: EmbeddingTable, units: Units) -> EmbeddingTable:
    """The table with samples in these units; text embeddings, which are no samples of anybody's, stay as they are."""
    return replace(table, x=units.apply(table.x))


def in_ball(table: EmbeddingTable, ball: BoundedNorm) -> EmbeddingTable:
    """The table with samples, and text embeddings if it has any, in a ball; its meta says what dimensions they had."""
    text = {name: ball.apply(array) for name, array in table.text.items()}
    was = {} if ball.projection is None else {"dimension": table.dimension}
    return replace(table, x=ball.apply(table.x), text=text, meta={**table.meta, **was})


def chosen_by_rule(setup: Setup, classes: int, clients: int) -> Selected:
    """Return what `auto` takes under noise, of what is public: how many `classes` and `clients` there are, and
    samples.
    """
    privacy = setup.settings.privacy
    assert privacy.samples is not None
    noise = setup.release.total_noise("pooled", [clients])
    taken, why = public_rule(privacy.samples, classes, noise.sum / setup.release.radius)
    return Selected(taken, taken, (), why=why)


def pictures_of(table: EmbeddingTable, setup: Setup) -> ImageAugmentation | None:
    """Return what the samples of a table are, where they are pictures, and how steps change them."""
    if not isinstance(table, ImageTable):
        return None
    views = setup.settings.augment.pictures
    return ImageAugmentation(
        table.pixels, views_of(table.pixels, table.meta.get("dataset")) if views == "auto" else views
    )


class TrialData:
    """The tables of a run and what is dealt out of them; groups that share any of it get the same."""

    def __init__(self) -> None:
        self._tables: dict[Data, EmbeddingTable] = {}
        self._tasks: WeakKeyDictionary[EmbeddingTable, Task] = WeakKeyDictionary()
        self._splits: dict[tuple[Data, int], EmbeddingTable] = {}
        self._samples: tuple[Hashable, EmbeddingTable, Units | None] | None = None  # of a seed: those of one are kept
        self._looked_at: set[Data] = set()
        self._augmented: dict[Hashable, TrainingSets] = {}
        self._clients: tuple[EmbeddingTable, Partition, int, int, LocalFederation] | None = None
        self._balls: dict[tuple[Data, BoundedNorm], EmbeddingTable] = {}
        self._tests: WeakValueDictionary[Hashable, TestSet] = WeakValueDictionary()  # of groups in flight

    def table(self, data: Data) -> EmbeddingTable:
        """The table of `[data]`, as it lies there."""
        data = data.model_copy(update={"standardise": False})
        if data not in self._tables:
            while len(self._tables) >= _TABLES:
                self._forget(next(iter(self._tables)))
            self._tables[data] = load_table(data)
        return self._tables[data]

    def task(self, data: Data) -> Task:
        """Return what is to be learnt from the table of `[data]`, as it lies there; the same object for the same
        table.
        """
        table = self.table(data)
        return self._tasks.setdefault(table, task_of(table))

    def _forget(self, data: Data) -> None:
        del self._tables[data]
        for seed in [seed for other, seed in self._splits if other == data]:
            del self._splits[data, seed]

    def same_data(self, setup: Setup) -> bool:
        """Whether every seed deals out the same samples: the table's own test mask, and a client per whole domain."""
        table, p = self.table(setup.settings.data), setup.settings.partition
        if table.test is None or p.kind != "domain":
            return False
        return sum(map(len, partition_samples(table, p, 0))) == int((~table.test).sum())

    def split(self, data: Data, seed: int) -> EmbeddingTable:
        """The same with the seed's test mask."""
        if (data, seed) not in self._splits:
            self._splits[data, seed] = self.table(data).split(seed)
        return self._splits[data, seed]

    def _in_ball(self, data: Data, ball: BoundedNorm, seed: int) -> EmbeddingTable:
        """The same with all samples in a ball, which are brought there once."""
        whole, split = self.table(data), self.split(data, seed)
        if (data, ball) not in self._balls:
            while len(self._balls) >= _TABLES:
                self._balls.pop(next(iter(self._balls)))
            self._balls[data, ball] = in_ball(whole, ball)
        return replace(self._balls[data, ball], test=split.test)

    def samples(self, setup: Setup, seed: int) -> tuple[EmbeddingTable, Units | None]:
        """The split table as the setup takes it, and the units that its samples are then in, if not as they lie
        there.
        """
        s, ball = setup.settings, setup.settings.privacy.ball
        setup.check_samples(self.table(s.data))
        if ball is None and not setup.standardise:
            return self.split(s.data, seed), None
        key = (setup.samples(seed), seed)
        if self._samples is None or self._samples[0] != key:
            table, units = self.split(s.data, seed) if ball is None else self._in_ball(s.data, ball, seed), None
            if setup.standardise:
                units = clients_of(table, s.partition, seed, setup.release.least_group).units()
                table = in_units(table, units)
            self._samples = key, table, units
        return self._samples[1:]

    def clients(self, setup: Setup, seed: int) -> LocalFederation:
        """Who holds which of these samples; the last are kept, for training sets and first head alike."""
        (table, _), p, least = self.samples(setup, seed), setup.settings.partition, setup.release.least_group
        if self._clients is None or self._clients[0] is not table or self._clients[1:4] != (p, seed, least):
            self._clients = table, p, seed, least, clients_of(table, p, seed, least)
        return self._clients[4]

    def _look_at_units(self, setup: Setup, seed: int) -> None:
        """Once for each table that is trained on as it lies there: whether its units suit that."""
        data = setup.settings.data
        if setup.standardise or setup.head.images or data in self._looked_at:
            return
        self._looked_at.add(data)
        clients = self.clients(setup, seed)
        units = SampleMoments.of(clients.x[np.concatenate(clients.parts)]).units
        if note := units.note(str(data.table or data.dataset)):
            warnings.warn(note, GgeurWarning, stacklevel=2)

    def test_set(self, setup: Setup, seed: int, head: Head | None = None) -> TestSet:
        """The test samples, ready to score the setup's heads on, or such as `head` is."""
        head, p = head or setup.head, setup.settings.partition
        key = (setup.samples(seed), seed, head, p if p.validation else None)
        if (found := self._tests.get(key)) is None:
            table = self.samples(setup, seed)[0]
            found = TestSet(
                scored_by_group(table, self.validation(setup, seed).samples) if p.validation else table, head
            )
        self._tests[key] = found
        return found

    def validation(self, setup: Setup, seed: int) -> ValidationSplit:
        """Return what [partition] validation takes from the clients."""
        table, _ = self.samples(setup, seed)
        return validation_of(table, client_samples(table, setup.settings.partition, seed), seed)

    def augmented(self, setup: Setup, seed: int) -> TrainingSets:
        """Return what the clients train on; kept for the next method of the grid where the noise is small."""
        s = setup.settings
        key = (setup.dealt, seed)
        if key not in self._augmented:
            clients, needs = self.clients(setup, seed), setup.augmentation.needs
            if needs is not None:
                clients = replace(clients, release=setup.release.simulated(seed), sends=needs)
            with blaming(s.augment.kind, "augmentation"):
                made = clients.prepare(setup.augmentation, seed)
            if not 0 < sum(leaf.nbytes for leaf in jax.tree.leaves((made.bank, made.shapes))) <= _KEPT_BYTES:
                return made
            while len(self._augmented) >= _KEPT:
                self._augmented.pop(next(iter(self._augmented)))
            self._augmented[key] = made
        return self._augmented[key]

    def one_shot(self, algorithm: ClosedForm | Selection, name: str, setup: Setup, seed: int) -> OneShot:
        """Return the classifier that `algorithm` makes of what the clients send, by a public rule under noise."""
        (table, _), clients, selected = self.samples(setup, seed), self.clients(setup, seed), None
        needs = algorithm.needs
        if isinstance(algorithm, Selection) and not setup.release.exact:
            selected = chosen_by_rule(setup, table.n_classes, len(clients.parts))
            needs = algorithm.candidates[selected.taken].solved.needs
        federation = replace(clients, release=setup.release.simulated(seed), sends=needs)
        return one_shot(federation, algorithm, name, task_of(table), seed, selected)

    def run(self, setup: Setup, seed: int, augmented: TrainingSets) -> Run:
        """Everything one seed of one setting trains on."""
        self._look_at_units(setup, seed)
        train, (table, _) = setup.settings.train, self.samples(setup, seed)
        sets, task = augmented.sets, task_of(table)
        own: Any = ()
        if not train.broadcast:
            heads = [random_head(setup.head, task, seed, k, setup.trained) for k in range(len(sets))]
            own = jax.tree.map(lambda *a: np.stack(a), *heads)
        start = setup.start
        if train.model is not None:
            first = model_start(train.model, setup, task)
        elif start is not None:
            first = to_train(self.one_shot(start, train.start, setup, seed).params)
        else:
            first = random_head(setup.head, task, seed, trained=setup.trained)
        return Run(
            seed,
            table.x,
            augmented.prototypes,
            augmented.bank,
            sets,
            client_weights([len(s.y) for s in sets], [s.originals for s in sets], train.weights),
            first,
            table.n_classes,
            own,
            shapes=augmented.shapes,
            pictures=pictures_of(table, setup),
        )


def model_start(path: str, setup: Setup, task: Task) -> Params:
    """The head of the model at `path`, which must be laid out as the one that is trained."""
    train, given = setup.settings.train, setup.settings.head_parameters
    model = Model.load(path)
    wrong = ""
    if (model.head, arguments(model.head, model.parameters)) != (train.head, arguments(train.head, given)):
        told = f" with {dict(model.parameters)}" if model.parameters else ""
        wrong = f"its head is '{model.head}'{told}, and [train] head is '{train.head}' with {given or 'its defaults'}"
    elif model.dimension != task.dimension:
        wrong = f"it takes samples of {model.dimension} numbers, and the table has {task.dimension}"
    elif model.class_names != task.class_names:
        wrong = "its classes are not the table's, in its order"
    elif model.units is not None or model.ball is not None:
        wrong = "it takes samples in units of its own"
    if wrong:
        raise GgeurError(f"Training cannot start from {path}: {wrong}.", code="model-start-mismatch")
    return to_train(model.params)


def start_fingerprint(point: Settings) -> dict[str, str]:
    """By its path, a hash of the model that rounds start from; a run that goes on must find the same."""
    if point.train.model is None:
        return {}
    head = Path(point.train.model) / "head.npz"
    if not head.is_file():
        raise GgeurError(
            f"There is no trained model at {point.train.model}, where [train] start says it is.", code="model-missing"
        )
    return {point.train.model: hashlib.sha256(head.read_bytes()).hexdigest()}
