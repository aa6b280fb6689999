"""What a point of the grid stands for: head, algorithm, training and augmentation, built once and handed on."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property

from ggeur.data.image_table import ImageTable
from ggeur.data.table import EmbeddingTable
from ggeur.engine.training import LocalOptimiser, Training
from ggeur.experiments.settings import Settings
from ggeur.federation.augmentation import Augmentation
from ggeur.heads import IMAGES
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Head
from ggeur.methods import has_own_head, resolve, resolve_closed_form
from ggeur.methods.algorithm import Algorithm, ClosedForm, Iterative, Reference, Selection, Task, ZeroShot
from ggeur.methods.auto import in_public
from ggeur.privacy.release import Release
from ggeur.stats.errors import GgeurError
from ggeur.stats.hyperparameters import positional
from ggeur.stats.site_statistics import Covariance, largest


@dataclass(frozen=True, eq=False)
class Setup:
    """The settings of a point, and what they name."""

    settings: Settings
    head: Head
    algorithm: Algorithm
    augmentation: Augmentation
    training: Training

    @classmethod
    def of(cls, settings: Settings) -> "Setup":
        t = settings.train
        head = resolve_head(t.head, softmax=t.softmax, **settings.head_parameters)
        algorithm = _algorithm(settings, head)
        if isinstance(algorithm, Selection) and not settings.privacy.release.exact:
            algorithm = in_public()
        made = cls(settings, head, algorithm, settings.augment.build(), training_of(settings))
        if settings.privacy.secure_aggregation:
            made._check_totals()
        return made

    def _check_totals(self) -> None:
        """Raise where what is sent does not add up, so that [privacy] secure_aggregation cannot be had."""
        name = self.settings.train.method
        for solved in (self.algorithm, self.start):
            if isinstance(solved, ClosedForm) and solved.apart is not None and solved.apart.of == "client":
                raise GgeurError(
                    f"'{name}' needs the means of every client, which [privacy] secure_aggregation hides.",
                    code="secure-aggregation-means-hidden",
                )
        method = None if self.trained is None else self.trained.method
        if method is not None and "every" in (*method.adds.values(), *method.prepared_adds.values()):
            raise GgeurError(
                f"'{name}' needs every client's own message, which [privacy] secure_aggregation hides; take a method "
                f"whose "
                "messages add up, such as fedavg.",
                code="secure-aggregation-message-hidden",
            )

    def of_task(self, task: Task) -> "Setup":
        """The same for this `task`; a method that asks for it cannot be built before.

        `Unavailable` where the task, or this machine, lacks what it takes.
        """
        if self.trained is None or "task" not in positional(self.trained.recipe.build):
            return self
        found = _algorithm(self.settings, self.head, task)
        assert isinstance(found, Iterative)
        own = found.method.head
        return replace(self, algorithm=found, head=self.head if own is None else resolve_head(own.name))

    @property
    def method_head(self) -> str | None:
        """The name of the head that a method has of its own, which is scored and saved in place of [train]'s."""
        found = None if self.trained is None else self.trained.method.head
        return None if found is None else found.name

    @cached_property
    def dealt(self) -> Hashable:
        """Equal for setups whose clients hold and draw the same, whatever they then do."""
        s = self.settings
        return s.data, s.partition, s.augment.key, s.privacy.key

    @property
    def standardise(self) -> bool:
        """Whether samples are taken in the federation's own units; what is compared with text is taken as it is."""
        by_text = isinstance(self.algorithm, ZeroShot) or has_own_head(self.settings.train.method)
        return self.settings.data.standardise and not by_text

    def samples(self, seed: int) -> Hashable:
        """Equal for trials of the same samples in the same units, whatever their test mask."""
        s = self.settings
        lies = s.data, s.privacy.ball
        return (*lies, s.partition, s.privacy.release.least_group, seed) if self.standardise else lies

    @property
    def release(self) -> Release:
        """Return how clients protect what they send."""
        return self.settings.privacy.release

    def check_samples(self, table: EmbeddingTable) -> None:
        """Raise where the head takes other samples than the table has."""
        pictures, head = isinstance(table, ImageTable), self.settings.train.head
        if pictures and not self.head.images:
            raise GgeurError(
                f"The table holds pictures, and [train] head = '{head}' takes embeddings: "
                f"use a network on images ({', '.join(IMAGES)}), or embed them with an encoder.",
                code="table-not-embeddings",
            )
        if self.head.images and not pictures:
            raise GgeurError(
                f"[train] head = '{head}' takes pictures, and the table holds embeddings: "
                "make an image table with `ggeur embed --encoder pixels:32`.",
                code="table-not-images",
            )

    @property
    def trained(self) -> Iterative | None:
        """Return what is trained, if anything is; of a bound FedAvg."""
        found = self.algorithm.trained if isinstance(self.algorithm, Reference) else self.algorithm
        return found if isinstance(found, Iterative) else None

    @cached_property
    def needs(self) -> Covariance | None:
        """Return what clients must send before training, for augmentation and first head."""
        start, own = self.start, self.augmentation.needs
        return own if start is None else largest([own, start.needs])

    @property
    def start(self) -> ClosedForm | None:
        """Return what solves the head that training starts from, where it is not a random one."""
        name, s = self.settings.train.solver, self.settings
        return None if name is None else resolve_closed_form(name, s.method.get(name, {}), s.augment.covariance)


def _algorithm(settings: Settings, head: Head, task: Task | None = None) -> Algorithm:
    t, statistics = settings.train, settings.augment.covariance
    return resolve(t.method, head, settings.method.get(t.method, {}), statistics, task=task, rounds=t.rounds)


def training_of(settings: Settings) -> Training:
    """[train] as the engine takes it."""
    t = settings.train
    alike = (
        "rounds",
        "batch_size",
        "learning_rate",
        "local_epochs",
        "local_steps",
        "clients_per_round",
        "broadcast",
        "storage",
    )
    optimiser = LocalOptimiser(t.optimiser, t.momentum, t.weight_decay)
    return Training(optimiser=optimiser, **{name: getattr(t, name) for name in alike})
