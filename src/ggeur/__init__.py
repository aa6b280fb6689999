"""ggeur: one classifier over sites whose data may not move and does not look alike, aligned by geometry.

>>> import ggeur, numpy as np
>>> x, y = np.random.default_rng(0).normal(size=(60, 8)), np.repeat([0, 1, 2], 20)
>>> a, b = (ggeur.ClassStatistics.from_embeddings(x[i::2], y[i::2], 3) for i in (0, 1))
>>> g = ggeur.Geometry.from_statistics(a + b)
>>> x2, y2 = ggeur.augment(x[::2], y[::2], g, target=100)
>>> np.bincount(y2)
array([100, 100, 100])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ggeur.core.augment import DrawRule, Prototypes, augment
    from ggeur.core.errors import GgeurError, GgeurWarning
    from ggeur.core.geometry import Geometry, similarity
    from ggeur.core.message import Message
    from ggeur.core.statistics import ClassStatistics
    from ggeur.data import partition
    from ggeur.data.image_set import ImageSet
    from ggeur.data.image_table import ImageTable
    from ggeur.data.table import EmbeddingTable
    from ggeur.demo import digits
    from ggeur.encode.encoder import Encoder, load_encoder
    from ggeur.experiment.estimator import OneMessageClassifier
    from ggeur.experiment.fit import fit
    from ggeur.experiment.runner import run
    from ggeur.federation.augmentation import Augmentation
    from ggeur.heads.head import Head
    from ggeur.methods.algorithm import Solved
    from ggeur.methods.method import Method
    from ggeur.runs.compare import paired_difference
    from ggeur.runs.model import Model, load_model
    from ggeur.runs.result import Result
    from ggeur.settings.grid import Experiment

# Loaded on first use, so that `ggeur --help` starts without NumPy and the NumPy part of the library without JAX.
_HOME = {
    "DrawRule": "ggeur.core.augment",
    "digits": "ggeur.demo",
    "load_encoder": "ggeur.encode.encoder",
    "load_model": "ggeur.runs.model",
    "paired_difference": "ggeur.runs.compare",
    "Solved": "ggeur.methods.algorithm",
    "Method": "ggeur.methods.method",
    "Message": "ggeur.core.message",
    "ImageSet": "ggeur.data.image_set",
    "Head": "ggeur.heads.head",
    "Encoder": "ggeur.encode.encoder",
    "Augmentation": "ggeur.federation.augmentation",
    "ClassStatistics": "ggeur.core.statistics",
    "EmbeddingTable": "ggeur.data.table",
    "ImageTable": "ggeur.data.image_table",
    "Experiment": "ggeur.settings.grid",
    "Geometry": "ggeur.core.geometry",
    "GgeurError": "ggeur.core.errors",
    "GgeurWarning": "ggeur.core.errors",
    "Model": "ggeur.runs.model",
    "OneMessageClassifier": "ggeur.experiment.estimator",
    "Prototypes": "ggeur.core.augment",
    "Result": "ggeur.runs.result",
    "augment": "ggeur.core.augment",
    "fit": "ggeur.experiment.fit",
    "partition": "ggeur.data",
    "run": "ggeur.experiment.runner",
    "similarity": "ggeur.core.geometry",
}

__all__ = [
    "Augmentation",
    "ClassStatistics",
    "DrawRule",
    "EmbeddingTable",
    "Encoder",
    "Experiment",
    "Geometry",
    "GgeurError",
    "GgeurWarning",
    "Head",
    "ImageSet",
    "ImageTable",
    "Message",
    "Method",
    "Model",
    "OneMessageClassifier",
    "Prototypes",
    "Result",
    "Solved",
    "augment",
    "digits",
    "fit",
    "load_encoder",
    "load_model",
    "paired_difference",
    "partition",
    "run",
    "similarity",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ggeur")
    if name in _HOME:
        return getattr(__import__(_HOME[name], fromlist=[name]), name)  # what `from home import name` does
    raise AttributeError(f"module 'ggeur' has no attribute '{name}'")
