"""Load the encoder that a model was made with, from the model's description of it."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from ggeur.core.errors import GgeurError
from ggeur.encode.encoder import Encoder, about, is_custom_encoder, load_encoder
from ggeur.runs.model import Model

_UNIT = ", embeddings of unit length"  # the end of the preprocessing of an encoder that scales embeddings


def encoder_of(model: Model, given: str | None = None) -> Encoder:
    """Return the encoder of `model`, or the one `given` by name, whose weights and preprocessing must be the same."""
    name, said = given or str(model.encoder.get("encoder", "")), str(model.encoder.get("preprocessing", ""))
    if not name:
        raise GgeurError(
            "The model does not say what embeds its pictures: name the encoder (--encoder).",
            code="model-encoder-unknown",
        )
    if given is None:
        _check_findable(name)
    tower = _loaded(name, said)
    if given is not None and tower.dimension != model.takes and model.encoder.get("encoder"):
        raise GgeurError(
            f"This model needs the encoder {model.encoder['encoder']}, and {given} was given.", code="encoder-mismatch"
        )
    model.check_encoder("The picture", tower.dimension, about(tower))
    return tower


def _check_findable(name: str) -> None:
    """Raise GgeurError where the user must name the encoder."""
    if name.startswith("onnx:") and not Path(name.removeprefix("onnx:")).is_file():
        file = name.removeprefix("onnx:")
        raise GgeurError(
            f"The model's pictures are embedded by the ONNX file {file}: say where it is (--encoder onnx:PATH).",
            code="model-encoder-file-missing",
        )
    if is_custom_encoder(name):  # loading it would import a module named by whoever wrote the model
        raise GgeurError(
            f"The model has the custom encoder '{name}': if you trust it, name it (--encoder {name}).",
            code="model-custom-untrusted",
        )


@lru_cache(maxsize=1)  # for predictions one by one
def _loaded(name: str, said: str) -> Encoder:
    unit = said.endswith(_UNIT)
    shape: dict[str, Any] = {}
    if name.startswith("onnx:") and said.startswith("{"):  # a file does not bring its own
        try:
            shape = dict(json.loads(said.removesuffix(_UNIT)))
        except ValueError as error:
            raise GgeurError(
                f"The model's preprocessing cannot be read: {said!r}.", code="model-preprocessing-unreadable"
            ) from error
    try:
        return load_encoder(name, normalize=unit, **shape)
    except TypeError as error:  # of a key that is none of ours
        raise GgeurError(
            f"The model's preprocessing cannot be read: {said!r}.", code="model-preprocessing-unreadable"
        ) from error
