"""Rounds that start from a model of one's own: `train.start = "path/to/model"`."""

import hashlib
from pathlib import Path

from ggeur.experiments.settings import Settings
from ggeur.experiments.setup import Setup
from ggeur.federation.start import to_train
from ggeur.heads import arguments
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Task
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError


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
