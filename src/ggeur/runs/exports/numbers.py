"""Common parts of all exports: the weights of the head by name, and which heads can be exported."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.heads import IMAGES
from ggeur.heads.images import colours, side
from ggeur.runs.model import Model
from ggeur.runs.model_files import by_path

EXPORTED = ("linear", "mlp", "mixture", "blend", "cosine", "adapter", *IMAGES)


def numbers(model: Model) -> dict[str, NDArray[Any]]:
    """Return the weights of a `model`; raise GgeurError where its head cannot be exported."""
    if model.head not in EXPORTED:
        raise GgeurError(
            f"The head '{model.head}' cannot be exported; {', '.join(EXPORTED)} can.", code="export-head-unsupported"
        )
    return {name: np.asarray(leaf) for name, leaf in by_path(model.params).items()}


def picture_shape(model: Model) -> tuple[int, int, int]:
    """Return the shape of a network's input images."""
    s = side(model.dimension)
    return s, s, 3


def input_of(model: Model) -> str:
    """Return the input of an exported head, in words."""
    if model.head in IMAGES:
        return f"pictures (B, {', '.join(map(str, picture_shape(model)))}), bytes,"
    return f"embeddings (B, {model.takes})"


def colours_of(model: Model) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the mean and the standard deviation by which a network standardises images."""
    return colours(model.parameters.get("normalise", "imagenet"))


def is_double(model: Model, arrays: dict[str, NDArray[Any]]) -> bool:
    """Return whether the head is applied in float64: it has float64 weights, or samples are transformed first."""
    return model.ball is not None or model.units is not None or any(a.dtype == np.float64 for a in arrays.values())
