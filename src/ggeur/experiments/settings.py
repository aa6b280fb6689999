"""The experiment file, typed: every section and key of it, its defaults, and the presets called protocols."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ggeur.data.datasets import paper_partition
from ggeur.experiments.combinations import check_combinations
from ggeur.experiments.settings_privacy import Privacy
from ggeur.experiments.settings_types import (
    RANDOM,
    Above,
    AugmentationName,
    HeadName,
    Section,
    Share,
    Size,
    StartName,
    is_path,
    of_train,
)
from ggeur.federation.augmentation import AUGMENTATIONS, Augmentation, steps_of
from ggeur.federation.augmentation import build as build_augmentation
from ggeur.heads import IMAGES
from ggeur.methods import checked_parameters, factory
from ggeur.stats.augmented_sets import BANK_BYTES
from ggeur.stats.custom import is_custom
from ggeur.stats.errors import GgeurError, nearest
from ggeur.stats.geometry import Scale
from ggeur.stats.old_names import renamed
from ggeur.stats.site_statistics import Covariance

Seed = Annotated[int, Field(strict=True, ge=0, lt=2**32)]


def _a_list(value: object) -> object:
    if isinstance(value, int):  # three seeds or seed 3 is ambiguous
        raise ValueError(f"it is a list, such as [{value}] for that seed alone or [0, 1, 2] for three")
    return value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):  # Python takes these for 0 or 1
        raise ValueError("it is a number, 1 or 2")
    return value


# Choices on which the paper as written, its released scripts and ggeur differ; a file's values override these.
PROTOCOLS: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {"augment": {"scale": "eigenvalue"}},
    "released": {
        "augment": {"guided": 0.8, "empty_group": "first"},
        "train": {"optimiser": "adam", "weight_decay": 0.0, "weights": "equal", "broadcast": False, "softmax": True},
    },
    "sound": {},
    "tuned": {},  # sound, with hyperparameters tuned on a validation split
}


class Data(Section):
    """The source of the embeddings: a table, or a dataset and its encoder."""

    table: str | None = None
    dataset: str | None = None
    encoder: str | None = None
    standardise: bool = False  # standardise samples by the federation's mean and spread
    svhn: Literal["correct", "as-benchmark"] = "correct"  # how its pictures are read

    @model_validator(mode="after")
    def one_source(self) -> Self:
        if (self.table is None) == (self.dataset is None):
            raise ValueError("give either table (a file) or dataset (a name)")
        if self.table is not None and self.encoder is not None:
            raise ValueError("encoder goes with dataset; a table has been embedded already")
        if self.table is not None and self.svhn != "correct":
            raise ValueError("svhn goes with dataset; in a table its pictures have been read already")
        return self


class Partition(Section):
    kind: Literal["dirichlet", "domain", "label-and-domain"] = "dirichlet"
    clients: Size = 10
    beta: Above = 0.1
    min_per_class: Annotated[int, Field(strict=True, ge=0)] = 1
    share: Share = 1.0
    validation: bool = False  # score on a validation split of the training samples instead of the test samples


PARTITION_KEYS = {
    "dirichlet": {"kind", "clients", "beta", "min_per_class", "validation"},
    "domain": {"kind", "share", "validation"},
    "label-and-domain": {"kind", "beta", "validation"},
}


class Augment(Section):
    kind: AugmentationName = "ggeur"
    covariance: Covariance = "per-class"
    # Defaults of steps and target: 1 and 2000 with dirichlet, 2 and 500 with the domain kinds.
    steps: Annotated[Literal[1, 2], BeforeValidator(_no_bool)] | None = None
    target: Size | None = None
    per_sample: Size | None = None
    per_prototype: Size = 500
    scale: Scale = "sqrt-eigenvalue"
    guided: Share = 1.0
    empty_group: Literal["all", "first"] = "all"
    bank_mib: Size = BANK_BYTES // 2**20  # memory for noise vectors; beyond it clients share them
    pictures: Literal["auto", "none", "crop", "crop-flip", "photo"] = "auto"  # random augmentation of images in a step
    parameters: dict[str, Any] = Field({})  # of `expected`, or of a custom kind

    def build(self) -> Augmentation:
        """Return the augmentation that `kind` names."""
        shared = self.model_dump(exclude={"kind", "parameters", "pictures"})
        return build_augmentation(self.kind, shared, self.parameters)


class Train(Section):
    method: str = "fedavg"
    head: HeadName = "linear"
    hidden: Size | None = None  # as [head.mlp] hidden
    rounds: Size = 100
    local_epochs: Size = 10
    local_steps: Size | None = None
    batch_size: Size = 64
    learning_rate: Above = 0.01
    optimiser: Literal["sgd", "adam"] = "sgd"
    momentum: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(strict=True, ge=0)] = 1e-5
    weights: Literal["samples", "original", "equal"] = "samples"
    broadcast: bool = True
    softmax: bool = False
    clients_per_round: Size | None = None  # default: all
    storage: Literal["float32", "float16"] = "float32"  # of embeddings and noise; arithmetic is in float32
    start: StartName = RANDOM

    @property
    def solver(self) -> str | None:
        """Return the solver of the head that rounds start from; None where it is random or a model's."""
        return None if self.start == RANDOM or self.model else self.start

    @property
    def model(self) -> str | None:
        """Return the folder of the model that rounds start from, if any."""
        return self.start if is_path(self.start) else None

    @model_validator(mode="after")
    def start_is_sent(self) -> Self:
        if self.start != RANDOM and not self.broadcast:
            raise ValueError("start needs broadcast = true: clients that receive no head cannot start from one")
        return self


class Federate(Section):
    """Real machines: the number of sites, and how long and for how many of them to wait."""

    sites: Size | None = None
    min_sites: Size = 2  # with fewer the run stops, and can be resumed
    wait: Above = 300.0  # seconds for sites to connect
    timeout: Above = 600.0  # seconds for a site to answer
    test_table: str | None = None  # on the server, scored beside the sites' own test samples


class RunSection(Section):
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1), BeforeValidator(_a_list)] = (0,)
    protocol: Literal["paper", "released", "sound", "tuned"] = "sound"
    checkpoint_every: Size = 1  # rounds
    track: Literal["mlflow", "tensorboard", "wandb"] | None = None  # where `ggeur run` logs parameters and curves


class Settings(Section):
    """One point of the grid: every value settled."""

    data: Data
    partition: Partition = Partition()
    augment: Augment = Augment()
    train: Train = Train()
    method: dict[str, dict[str, Any]] = Field({})
    head: dict[str, dict[str, Any]] = Field({})
    privacy: Privacy = Privacy()
    federate: Federate = Federate()
    run: RunSection = RunSection()

    @model_validator(mode="after")
    def settle(self) -> Self:
        """Set defaults that depend on other values."""
        a = self.augment
        single = self.partition.kind == "dirichlet"
        allowed = steps_of(a.kind)
        steps = a.steps or (1 if single and 1 in allowed else max(allowed))
        if steps not in allowed:
            raise ValueError(f'augment.kind = "{a.kind}" is Step 2; with steps = 1 it is "resample"')
        target = a.target or (2000 if single else 500)
        object.__setattr__(self, "augment", a.model_copy(update={"steps": steps, "target": target}))
        if len(set(self.run.seeds)) < len(self.run.seeds):
            raise ValueError("run.seeds holds a seed twice")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names that may be custom: methods, heads, the augmentation, the privacy mechanism."""
        t = self.train
        return (t.method, t.start, t.head, self.augment.kind, self.privacy.mechanism_name, *self.method, *self.head)

    @property
    def head_parameters(self) -> dict[str, Any]:
        """Return the parameters given for [train] head."""
        return of_train(self.train.head, self.train) | self.head.get(self.train.head, {})


def settings(tree: Mapping[str, Any], *, custom: bool = True) -> Settings:
    """Check one point of the grid; the first thing wrong becomes one sentence.

    Without `custom`, custom code is not imported, and so not checked, as for an experiment that has been run.
    """
    merged: dict[str, Any] = {name: dict(part) if isinstance(part, dict) else part for name, part in tree.items()}
    run = merged.get("run")
    protocol = str(run.get("protocol")) if isinstance(run, dict) else ""
    for section, values in PROTOCOLS.get(protocol, {}).items():
        if isinstance(merged.setdefault(section, {}), dict):
            merged[section] = values | merged[section]
    data, given = merged.get("data"), merged.setdefault("partition", {})
    dataset = data.get("dataset") if isinstance(data, dict) else None
    if isinstance(dataset, str) and isinstance(given, dict) and "kind" not in given:
        merged["partition"] = paper_partition(dataset) | given  # the paper's partition
    train, augment = (merged.setdefault(section, {}) for section in ("train", "augment"))
    if isinstance(train, dict) and train.get("head") in IMAGES and isinstance(augment, dict):
        merged["augment"] = {"kind": "none"} | augment  # samples are no embeddings
    try:
        result = Settings.model_validate(merged)
    except ValidationError as error:
        sentences = dict.fromkeys([*map(_sentence, error.errors()), *_unknown_method(merged)])  # each mistake, once
        raise GgeurError(" ".join(sentences), code="settings-invalid") from error
    if not custom and any(map(is_custom, result.names)):
        return result
    if (
        result.augment.kind not in AUGMENTATIONS or result.augment.parameters
    ):  # built-in ones are checked by their keys' types
        result.augment.build()
    factory(result.train.method)  # raises for an unknown name
    for name, values in result.method.items():
        checked_parameters(name, values, result.augment.covariance)
    check_combinations(result)
    return result


def _unknown_method(tree: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the name of the method, which is looked up only where all else is right."""
    train = tree.get("train")
    name = train.get("method") if isinstance(train, dict) else None
    if not isinstance(name, str) or is_custom(name):
        return []
    try:
        factory(name)
    except GgeurError as error:
        return [str(error)]
    return []


def _sentence(first: Any) -> str:
    """Return what is wrong with one value of the file."""
    where = [str(part) for part in first["loc"]]
    place = f"[{where[0]}] {'.'.join(where[1:])}".strip() if where else "the experiment"
    if first["type"] == "extra_forbidden":
        if len(where) == 1:
            named = [f"[{name}.NAME]" if name in ("method", "head") else f"[{name}]" for name in Settings.model_fields]
            close = nearest(where[0], Settings.model_fields)
            return f"There is no section [{where[0]}].{close} There are {', '.join(named)} and [[arm]]."
        owner = Settings.model_fields[where[0]].annotation
        keys = tuple(owner.model_fields) if owner is not None else ()
        if new := renamed(where[0], where[-1]):
            return f"The key '{where[-1]}' of [{where[0]}] is called '{new}' now."
        close = nearest(where[-1], keys) or f" Its keys are {', '.join(keys)}."
        return f"[{where[0]}] has no key '{where[-1]}'.{close}"
    if first["type"] == "missing":
        return f"{place} is missing."
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{place}: {message}."
    close = nearest(str(first["input"]), re.findall(r"'([^']+)'", message)) if first["type"] == "literal_error" else ""
    return f"{place} = {first['input']!r} is not valid: {message[0].lower()}{message[1:]}.{close}"
