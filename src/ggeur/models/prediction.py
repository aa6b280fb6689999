"""Predict: load the model's encoder, embed the input, and name classes with probabilities."""

import json
import os
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.data.image_set import Item
from ggeur.data.readers import unlabelled
from ggeur.data.samples import Samples
from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.files import TableFiles
from ggeur.data.tables.pairing import is_table
from ggeur.encoders.cache import EmbeddingCache
from ggeur.encoders.encoder import Encoder, about, check_findable, load_encoder
from ggeur.encoders.job import BATCH, OnBatch, Unkept, encode_items
from ggeur.encoders.pictures import rgb
from ggeur.heads import IMAGES
from ggeur.models.model import Model
from ggeur.models.sites import check_has_samples
from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError
from ggeur.stats.validate import as_array, check_whole

_RIGHT, _REFUSED = 0.8, 0.05  # shares of answers that should be right, and of samples that may be refused
_SUREST = 0.95  # the largest default threshold
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
        check_findable(name, "The model")
    tower = _loaded(name, said)
    if given is not None and tower.dimension != model.takes and model.encoder.get("encoder"):
        raise GgeurError(
            f"This model needs the encoder {model.encoder['encoder']}, and {given} was given.", code="encoder-mismatch"
        )
    model.check_encoder("The picture", tower.dimension, about(tower))
    return tower


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


@dataclass(frozen=True, eq=False)
class Answers:
    """Predictions for N pictures or samples: `names` if any, `probabilities` (N, C), and unreadable pictures.

    An answer below `reject` is None. `truth` are the labels of the samples, to compare with.

    >>> answers = Answers(("a.jpg",), ("cat", "dog"), np.array([[0.25, 0.75]]))
    >>> answers.labels, answers.top(2)
    (['dog'], [[('dog', 0.75), ('cat', 0.25)]])
    """

    names: tuple[str, ...]
    class_names: tuple[str, ...]
    probabilities: NDArray[Any]
    reject: float = 0.0
    unreadable: tuple[str, ...] = ()
    truth: tuple[str, ...] = ()
    from_folders: bool = False  # the truth is the names of the folders that pictures lie in

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def best(self) -> NDArray[np.int64]:
        """Return (N,): the index of the likeliest class."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def confidence(self) -> NDArray[Any]:
        """Return (N,): the probability of the likeliest class."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def labels(self) -> list[str | None]:
        """Return the likeliest class of each, or None where its probability is below `reject`."""
        pairs = zip(self.best.tolist(), (self.confidence >= self.reject).tolist(), strict=True)
        return [self.class_names[c] if sure else None for c, sure in pairs]

    def top(self, k: int) -> list[list[tuple[str, float]]]:
        """Return the `k` likeliest classes of each with their probabilities, the likeliest first."""
        check_whole("k", k)
        order = np.argsort(-self.probabilities, axis=1, kind="stable")[:, :k]
        sure = np.take_along_axis(self.probabilities, order, axis=1)
        return [
            [(self.class_names[c], float(p)) for c, p in zip(own, ps, strict=True)]
            for own, ps in zip(order.tolist(), sure.tolist(), strict=True)
        ]


def answers(model: Model, given: Any, reject: float, **embedding: Any) -> Answers:
    """Return the answers of `model`; see `Model.predict` for the parameters."""
    if not isinstance(reject, Real) or not 0 <= float(reject) <= 1:
        raise GgeurError(
            f"The least probability of an answer is {reject}; it must be between 0 and 1.",
            code="argument-not-probability",
        )
    check_calibrated(model, float(reject))
    samples, unreadable = _rows(model, given, **embedding)
    model.check_encoder("The table", samples.x.shape[1], samples.meta)
    sure = model.probabilities_of(samples.x)
    from_folders = (
        bool(samples.labels) and not isinstance(given, EmbeddingTable | Samples | TableFiles) and not _is_table(given)
    )
    return Answers(samples.names, model.class_names, sure, reject, tuple(unreadable), samples.labels, from_folders)


def answers_in_pieces(model: Model, files: TableFiles, reject: float) -> Iterator[Answers]:
    """Yield the answers to a table in files, some samples at a time."""
    check_calibrated(model, reject)
    model.check_encoder("The table", files.dimension, files.meta)
    names = np.array([*files.class_names, ""], np.object_)
    for piece in files.pieces():
        truth = tuple(names[piece.y].tolist()) if (piece.y >= 0).all() else ()
        yield Answers(piece.id, model.class_names, model.probabilities_of(piece.x), reject, truth=truth)


def check_calibrated(model: Model, reject: float) -> None:
    """Raise GgeurError where answers are to be refused by probabilities that are not calibrated."""
    if reject > 0 and "temperature" not in model.calibration:
        why = str(model.calibration.get("why") or "nothing fitted a temperature")
        raise GgeurError(
            f"This model's probabilities are uncalibrated ({why}), so a least probability says nothing: calibrate it "
            "with `ggeur fit`, or ask for no least probability.",
            code="model-uncalibrated",
        )


def default_reject(model: Model) -> float:
    """Return the least probability below which a page says "not sure": 0 for an uncalibrated model.

    By the test samples it is the larger of two thresholds: the lowest from which `_RIGHT` of the answers are right, and
    the highest that refuses few samples like those, as anything else in a photograph rarely reaches it. Without test
    samples it is `_RIGHT` itself, which is what a calibrated probability means.
    """
    if "temperature" not in model.calibration:
        return 0.0
    tested = model.calibration.get("test", {}).get("coverage", [])
    if not tested:
        return _RIGHT
    right = [threshold for threshold, _, share in tested if share >= 100 * _RIGHT]
    answered = [threshold for threshold, share, _ in tested if share >= 100 * (1 - _REFUSED)]
    return float(min(max(right[0] if right else _SUREST, *answered, 0.0), _SUREST))


def _is_table(given: Any) -> bool:
    return isinstance(given, str | os.PathLike) and is_table(given)


def _rows(
    model: Model, given: Any, encoder: str | Encoder | None, skip_unreadable: bool, on_batch: OnBatch | None
) -> tuple[Samples, list[str]]:
    check_has_samples(given)
    if isinstance(given, TableFiles) or (_is_table(given) and Path(given).suffix != ".npz"):
        return _of_files(given if isinstance(given, TableFiles) else TableFiles(given, labelled=False)), []
    if _is_table(given):
        return Samples.load(given), []
    if isinstance(given, EmbeddingTable):
        return Samples.of(given), []
    if isinstance(given, Samples):
        return given, []
    given = [_plain(one) for one in given] if isinstance(given, list | tuple) else _plain(given)
    items, kept = _pictures(given) if not _are_rows(model, given) else (None, False)
    if items is None:
        return Samples(np.atleast_2d(as_array("embeddings", given))), []
    if encoder is not None and not isinstance(encoder, str) and not hasattr(encoder, "forward"):
        raise GgeurError(
            f"encoder is {reprlib.repr(encoder)}; it must be an encoder or the name of one.", code="argument-type"
        )
    tower = encoder if encoder is not None and not isinstance(encoder, str) else encoder_of(model, encoder)
    model.check_encoder("The picture", tower.dimension, about(tower))  # before any picture is read
    # Embeddings of a folder are cached, so that it can be resumed; those of a few pictures are not.
    store = EmbeddingCache(tower) if kept and len(items) > BATCH else Unkept()
    found = encode_items(items, tower, store, skip_unreadable=skip_unreadable, on_batch=on_batch)
    names = tuple(items[i].where for i in found.samples.tolist())
    return Samples(found.x, names, _folders(names, model.class_names), about(tower)), found.unreadable


def _of_files(files: TableFiles) -> Samples:
    """Return all samples of a table in files."""
    parts = list(files.pieces())
    y = np.concatenate([piece.y for piece in parts])
    labels = tuple(files.class_names[c] for c in y) if (y >= 0).all() else ()
    ids = tuple(one for piece in parts for one in piece.id)
    return Samples(np.concatenate([piece.x for piece in parts]), ids, labels, files.meta)


def _are_rows(model: Model, given: Any) -> bool:
    """Return whether bytes are flattened samples of an image table, for a network on images."""
    flat = isinstance(given, np.ndarray) and given.ndim == 2 and given.shape[1] == model.takes
    return flat and model.head in IMAGES


def _folders(names: Sequence[str], classes: Sequence[str]) -> tuple[str, ...]:
    """Return the folders of the pictures, if each has the name of a class."""
    folders = tuple(Path(name).parent.name for name in names)
    return folders if set(folders) <= set(classes) else ()


def _plain(given: Any) -> Any:
    """Return `given` as a NumPy array where it converts to one (a frame of pandas, a tensor of torch), or as names."""
    if isinstance(given, np.ndarray) or hasattr(given, "convert") or not hasattr(given, "__array__"):
        return given
    try:
        array = np.asarray(given)
    except Exception as error:  # each library has its own: a tensor on a device, or one that a gradient is asked of
        raise GgeurError(
            f"The input cannot be converted to a NumPy array: {one_line(error)}.", code="prediction-input-type"
        ) from error
    return array.tolist() if array.dtype.kind in "OU" else array


def _pictures(given: Any) -> tuple[list[Item] | None, bool]:
    """Return the pictures `given`, and whether they are files; None where `given` are embeddings."""
    if isinstance(given, str | os.PathLike):
        return unlabelled(Path(given)), True
    if isinstance(given, bytes) or hasattr(given, "convert"):  # a file's content, or Pillow's image
        given = [given]
    if isinstance(given, np.ndarray):
        if given.dtype != np.uint8:
            return None, False
        _check_pixels(given, several=True)
        given = list(given) if given.ndim == 4 else [given]
    if not isinstance(given, Sequence) or not given:
        raise GgeurError(
            "There is nothing to predict: give a picture, a folder, a table or embeddings (N, p).",
            code="prediction-input-empty",
        )
    if all(isinstance(one, str | os.PathLike) for one in given):
        return [item for one in given for item in unlabelled(Path(one))], True
    if not all(_is_picture(one) for one in given):
        return None, False
    return [Item(f"picture {i}", lambda one=one: _content(one)) for i, one in enumerate(given)], False  # type: ignore[misc]


def _is_picture(one: Any) -> bool:
    return isinstance(one, bytes) or hasattr(one, "convert") or getattr(one, "dtype", None) == np.uint8


def _content(one: Any) -> Any:
    """Return the content of a picture: bytes, or pixels."""
    if hasattr(one, "convert"):
        return rgb(one)
    if not isinstance(one, bytes):
        _check_pixels(one)
    return one


def _check_pixels(array: NDArray[np.uint8], *, several: bool = False) -> None:
    """Refuse an array that may be one picture or several, or has other than three colours."""
    form, coloured = array.shape, array.ndim == 3 or (several and array.ndim == 4)
    if not (array.ndim == 2 or (coloured and form[-1] == 3)):
        raise GgeurError(
            f"Pixels of the shape {form}: a picture is (H, W, 3) or grey (H, W), several are a list, or (N, H, W, 3).",
            code="image-array-shape",
        )
    if not array.size:
        raise GgeurError(f"Pixels of the shape {form}: there are none.", code="image-pixels-empty")
