"""The protocol of encoders, and the encoder that a name stands for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.custom import build_custom, is_custom, load_custom
from ggeur.stats.errors import GgeurError, nearest
from ggeur.stats.types import FloatArray
from ggeur.stats.validate import check_is

Image = NDArray[np.uint8]  # (H, W, 3), RGB

DEFAULT = "openai/clip-vit-base-patch16"  # the paper's


class Encoder(Protocol):
    """A frozen map from images to vectors, in two halves so that one can run ahead of the other.

    `prepare` is per image, cheap, and called from several threads; `forward` takes a stack of prepared images.
    `weights_hash` and `preprocessing` together say which map it is: the cache and a table's meta rely on them, so two
    encoders that differ in what they compute differ in one of these.

    >>> class Brightness:
    ...     name, dimension, preprocessing, weights_hash = "brightness", 1, "none", "v1"
    ...     prepare = staticmethod(lambda image: image / 255)
    ...     forward = staticmethod(lambda prepared: prepared.mean(axis=(1, 2, 3))[:, None])
    ...     encode = Encoder.encode
    >>> Brightness().encode(np.full((2, 4, 4, 3), 51, np.uint8)).tolist()
    [[0.2], [0.2]]
    """

    name: str
    dimension: int
    preprocessing: str
    weights_hash: str

    def prepare(self, image: Image) -> FloatArray:
        """Return what `forward` takes of one RGB `image`."""
        ...

    def forward(self, prepared: FloatArray) -> FloatArray:
        """Return embeddings (N, dimension) of N `prepared` images."""
        ...

    def encode(self, images: Sequence[Image] | NDArray[np.uint8]) -> FloatArray:
        """Return embeddings (N, dimension) of `images`, each of its own size."""
        return self.forward(np.stack([self.prepare(image) for image in images]))


def about(encoder: Encoder) -> dict[str, str]:
    """Return what a table says of the `encoder` that made it."""
    return {"encoder": encoder.name, "weights": encoder.weights_hash, "preprocessing": encoder.preprocessing}


@runtime_checkable
class TextEncoder(Protocol):
    """An encoder that may have a text tower in the same space."""

    has_text: bool

    def encode_text(self, class_names: Sequence[str], templates: Sequence[str]) -> FloatArray:
        """Return (C, dimension), the mean over templates of each class's prompt, of unit length."""
        ...


def is_custom_encoder(name: str) -> bool:
    """Return whether `name` is a custom encoder, package.module:name, and not onnx:PATH, pixels:SIZE or a folder."""
    ours = name.startswith(("onnx:", "pixels:"))
    return is_custom(name) and not ours and not os.path.dirname(name) and not Path(name).is_dir()


def check_findable(name: str, who: str) -> None:
    """Raise GgeurError where the user must name the encoder, which a model or a plan, `who`, says by its `name`."""
    if name.startswith("onnx:") and not Path(name.removeprefix("onnx:")).is_file():
        file = name.removeprefix("onnx:")
        raise GgeurError(
            f"{who} embeds images by the ONNX file {file}: say where it is (--encoder onnx:PATH).",
            code="model-encoder-file-missing",
        )
    if is_custom_encoder(name):  # loading it would import a module named by whoever wrote that
        raise GgeurError(
            f"{who} has the custom encoder '{name}': if you trust it, name it (--encoder {name}).",
            code="model-custom-untrusted",
        )


def _own(name: str) -> Encoder:
    found: Encoder = build_custom(name, "encoder", load_custom(name, "encoder", ()))
    for part in ("name", "preprocessing", "weights_hash"):  # a cache goes by the last two, so they are not left empty
        text = getattr(found, part, None)
        if not isinstance(text, str) or not text:
            raise GgeurError(
                f"'{name}' is not an encoder: its {part} must be a text that is not empty.", code="custom-encoder-type"
            )
    dimension = getattr(found, "dimension", None)
    if not isinstance(dimension, int | np.integer) or dimension < 1:
        raise GgeurError(
            f"'{name}' is not an encoder: its dimension must be a positive whole number.", code="custom-encoder-type"
        )
    for part in ("prepare", "forward"):
        if not callable(getattr(found, part, None)):
            raise GgeurError(f"'{name}' is not an encoder: its {part} must be a function.", code="custom-encoder-type")
    return found


def load_encoder(name: str = DEFAULT, *, normalize: bool = False, **preprocessing: Any) -> Encoder:
    """Return the encoder `name` stands for: builtin, onnx:PATH, a Hugging Face name or folder, or a custom function.

    `pixels:SIZE` keeps the pictures themselves. The function is package.module:name, () -> Encoder. `normalize` scales
    embeddings to unit length. `preprocessing` (size, resize, interpolation, mean, std) is for ONNX files, which do not
    bring their own; the side file PATH.json may hold the same.

    Parameters
    ----------
    name : builtin, onnx:PATH, pixels:SIZE, a Hugging Face name or folder, or package.module:name.
    normalize : scale embeddings to unit length.
    preprocessing : size, resize, interpolation, mean and std of an ONNX file.

    Returns
    -------
    An `Encoder`: `encode(images)` gives embeddings, (N, p).

    >>> load_encoder("builtin").dimension
    488
    """
    kind, _, path = check_is("name", name, str, "an encoder's name").partition(":")
    given = {key: value for key, value in preprocessing.items() if value is not None}
    if given and kind != "onnx":
        raise GgeurError(
            f"The encoder {name} brings its own preprocessing; --{next(iter(given))} is for onnx:PATH.",
            code="encoder-preprocessing-fixed",
        )
    if kind == "onnx":
        if not path:
            raise GgeurError("Name an ONNX file: onnx:PATH.", code="encoder-file-not-named")
        from ggeur.encoders.onnx import OnnxEncoder
        from ggeur.encoders.pictures import read_side_file

        return OnnxEncoder(Path(path), normalize=normalize, **(read_side_file(Path(path)) | given))
    if kind == "pixels":
        from ggeur.encoders.builtin import Pixels

        if normalize:
            raise GgeurError(
                "The encoder pixels has no normalize; a network on images does that itself.",
                code="encoder-normalize-unsupported",
            )
        return Pixels(path)
    if name == "builtin":
        from ggeur.encoders.builtin import BuiltinEncoder

        if normalize:
            raise GgeurError(
                "The builtin encoder has no normalize; its embeddings are used as they are.",
                code="encoder-normalize-unsupported",
            )
        return BuiltinEncoder()
    if is_custom_encoder(name):
        if normalize:
            raise GgeurError(
                f"The encoder {name} has no normalize; its embeddings are used as they are.",
                code="encoder-normalize-unsupported",
            )
        return _own(name)
    if name.endswith(".onnx") and Path(name).is_file():
        raise GgeurError(f"{name} is a file here: write --encoder onnx:{name}.", code="encoder-onnx-prefix")
    if "/" not in name and not Path(name).exists() and (close := nearest(name, ("builtin",))):
        raise GgeurError(f"There is no encoder '{name}'.{close}", code="encoder-unknown")
    from ggeur.encoders.huggingface import HuggingFaceEncoder

    return HuggingFaceEncoder(name, normalize=normalize)


def unit_rows(x: FloatArray) -> FloatArray:
    """Return each embedding scaled to length 1."""
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12), np.float32)


EXTRAS = {"hf": ("torch", "transformers", "PIL"), "onnx": ("onnxruntime", "PIL")}


def installed(*modules: str) -> bool:
    """Return whether all these modules are installed."""
    return all(find_spec(module) for module in modules)


def missing_extra(encoder: str) -> str:
    """Return the extra to install for an encoder of this name; "" if it can be used as it is."""
    if encoder == "builtin" or encoder.startswith("pixels:"):
        return ""
    extra = "onnx" if encoder.startswith("onnx:") else "hf"
    return "" if installed(*EXTRAS[extra]) else extra
