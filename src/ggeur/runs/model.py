"""A trained head with what is needed to use it: its classes and the encoder that made its embeddings."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy.special import softmax

from ggeur.core.errors import GgeurError
from ggeur.core.names import build_own, is_own, one_line
from ggeur.core.types import Tree
from ggeur.core.units import Units
from ggeur.core.validate import check_path
from ggeur.data.files import read_arrays, write_atomically
from ggeur.data.table import EmbeddingTable
from ggeur.heads import resolve as resolve_head
from ggeur.heads import sizes
from ggeur.heads.head import Params, double_logits, in_blocks
from ggeur.privacy.ball import Ball
from ggeur.runs.change import current, settled
from ggeur.runs.places import CONFIG, WEIGHTS, is_export, model_folder, read_config, read_weights
from ggeur.runs.sealed import sealed, unsealed

if TYPE_CHECKING:
    from ggeur.encode.encoder import Encoder
    from ggeur.encode.job import OnBatch
    from ggeur.runs.prediction import Answers

_MORE = ("algorithm", "settings", "metrics", "privacy", "calibration")  # which older models do not say
_KEYS = {"head", "parameters", "dimension", "class_names", "encoder", "units", "ball", *_MORE}


@dataclass(frozen=True, eq=False)
class Model:
    """`params` are those of the head `head`, built with `parameters`; `encoder` is what a table's meta says of it.

    `units` are those of the rows that it takes, where they are not the encoder's; rows are brought to them here.
    `algorithm` is the head's method, with its augmentation or constants and the seed, `settings` what was asked for,
    and `metrics` what its test rows say. `privacy` is what was promised of its rows, and `ball` what rows are brought
    into first. `calibration` has the temperature that logits are divided by, where one was fitted, and by which rows.

    >>> params = {"W": np.eye(2, dtype=np.float32), "b": np.zeros(2, np.float32)}
    >>> model = Model(params, "linear", 2, ("left", "right"), {})
    >>> model.probabilities(EmbeddingTable(x=np.array([[5.0, 0.0]]), y=np.array([0]))).round(2)
    array([[0.99, 0.01]], dtype=float32)
    """

    params: Params
    head: str
    dimension: int
    class_names: tuple[str, ...]
    encoder: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    units: Units | None = None
    algorithm: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    privacy: Mapping[str, Any] = field(default_factory=dict)
    ball: Ball | None = None
    calibration: Mapping[str, Any] = field(default_factory=dict)

    @property
    def temperature(self) -> float:
        """What logits are divided by."""
        return float(self.calibration.get("temperature", 1.0))

    @property
    def takes(self) -> int:
        """How many dimensions the encoder's rows have; the head may see fewer, of a public projection."""
        projected = self.ball is not None and self.ball.projection is not None
        return int(self.encoder.get("dimension", self.dimension)) if projected else self.dimension

    def probabilities(self, table: EmbeddingTable) -> NDArray[np.float32]:
        """(N, C) class probabilities of the rows of `table`, as they come from the model's encoder."""
        self.check_encoder("The table", table.dimension, table.meta)
        return self.probabilities_of(table.x)

    def probabilities_of(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """(N, C) class probabilities of the rows `x` (N, p) that the model's encoder gave."""
        return np.asarray(softmax(self.logits_of(x) / self.temperature, axis=1), np.float32)

    def logits_of(self, x: NDArray[Any]) -> NDArray[Any]:
        """(N, C): what the head says of the rows `x` (N, p), before the temperature."""
        head = resolve_head(self.head, **self.parameters)
        x = x if self.ball is None else self.ball.apply(x)
        x = x if self.units is None else self.units.apply(x)
        logits: Any = double_logits(head, self.params, x)
        if logits is None:
            logits = in_blocks(head, lambda rows: head.logits(self.params, jnp.asarray(rows, jnp.float32)), x)
        return np.asarray(logits)

    def check_encoder(self, what: str, dimension: int, meta: Mapping[str, Any]) -> None:
        """GgeurError unless `what`, whose rows have this `dimension` and `meta`, is of the model's encoder."""
        if dimension != self.takes:
            raise GgeurError(f"{what} has {dimension} dimensions and the model {self.takes}: use one encoder for both.")
        ours, theirs = self.encoder.get("weights"), meta.get("weights")
        if ours and theirs and ours != theirs:
            raise GgeurError(
                f"{what} was embedded by '{meta.get('encoder')}', the model was trained on "
                f"'{self.encoder.get('encoder')}' with other weights: use one encoder for both."
            )
        ours, theirs = self.encoder.get("preprocessing"), meta.get("preprocessing")
        if ours and theirs and ours != theirs:
            raise GgeurError(
                f"{what} was embedded by '{meta.get('encoder')}' with the preprocessing {theirs}, the model was "
                f"trained with {ours}: use one encoder for both."
            )

    def predict(
        self,
        given: Any,
        *,
        encoder: str | Encoder | None = None,
        reject: float = 0.0,
        skip_unreadable: bool = False,
        on_batch: OnBatch | None = None,
    ) -> Answers:
        """What is in pictures, or of which class rows are, with probabilities.

        Parameters
        ----------
        given : a picture (path, bytes, or uint8 pixels), several, a folder of them; or embeddings (N, p), an
            EmbeddingTable, or the path of one (.npz).
        encoder : what embeds pictures, default the model's own: builtin, onnx:PATH, a Hugging Face model, an Encoder.
        reject : the least probability of an answer; below it the answer is None, "I do not know".
        skip_unreadable : leave pictures out that cannot be read, and list them.
        on_batch : called with how many pictures are done, and how many of them were embedded just now.

        >>> params = {"W": np.eye(2, dtype=np.float32), "b": np.zeros(2, np.float32)}
        >>> model = Model(params, "linear", 2, ("cat", "dog"), {})
        >>> model.predict([[3.0, 0.0], [0.0, 0.2]], reject=0.9).labels
        ['cat', None]
        """
        from ggeur.runs.prediction import answers

        return answers(self, given, encoder, reject, skip_unreadable, on_batch)

    def to_sklearn(self) -> Any:
        """The head as an object of scikit-learn, which takes embeddings: `predict` and `predict_proba`.

        A linear head is a LogisticRegression, in a Pipeline where rows are changed first; it needs no ggeur.
        """
        from ggeur.runs.exports.scikit import to_sklearn

        return to_sklearn(self)

    def save(self, folder: Path) -> None:
        """Write `head.npz` and `model.json` to `folder`, which is made where it is not there."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GgeurError(f"Cannot write {folder}: {error.strerror or error}.") from error
        # As np.savez, which would take an array called "file" for an argument of its own.
        with write_atomically(folder / "head.npz") as file, zipfile.ZipFile(file, "w") as archive:
            for name, leaf in by_path(self.params).items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    npy.write_array(member, np.asarray(leaf), allow_pickle=False)
        with write_atomically(folder / "model.json") as file:
            file.write(sealed(self.about()))  # a date as text, which a date is read from

    def about(self) -> dict[str, Any]:
        """All but the numbers of the head, as model.json has it."""
        about: dict[str, Any] = {
            "head": self.head,
            "parameters": dict(self.parameters),
            "dimension": self.dimension,
            "class_names": list(self.class_names),
            "encoder": dict(self.encoder),
            **{key: dict(getattr(self, key)) for key in _MORE if getattr(self, key)},
        }
        if self.units is not None:
            about["units"] = {"shift": self.units.shift.tolist(), "scale": self.units.scale}
        if self.ball is not None:
            about["ball"] = self.ball._asdict()
        return about

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, cell: int | str = "last", own: bool = False, numbers: bool = True
    ) -> Self:
        """Read the model in the folder `path`, an exported one, or one of a run folder's: that of its `cell`.

        A cell is a number, the name of an arm (its last seed's), or "last": a rule that looks at no test row, since a
        head that is chosen by its test accuracy has none to report. `own` allows a head that model.json names as
        package.module:name. Its module is then imported, which runs code: say so only of a model that you trust.
        Without its `numbers` it is of no use but to say what it is, and is read even where they are damaged.
        """
        folder = model_folder(path, cell).folder
        # Both from before a change of the folder, or both from after it.
        return settled(folder, ("model.json", "head.npz"), lambda: cls._read(folder, own, numbers))

    @classmethod
    def _read(cls, folder: Path, own: bool, numbers: bool) -> Self:
        exported = is_export(folder)
        try:
            about = read_config(folder) if exported else unsealed(current(folder, "model.json").read_bytes(), _KEYS)
            names, dimension = tuple(map(str, about["class_names"])), int(about["dimension"])
            head, encoder = str(about["head"]), dict(about["encoder"])
            parameters = dict(about.get("parameters", {}))
            if dimension < 1:
                raise ValueError("its dimension is not positive")
            units = _units(about["units"], dimension) if "units" in about else None
            more: dict[str, Any] = {key: dict(about.get(key, {})) for key in _MORE}
            more["ball"] = _ball(about["ball"], dimension) if "ball" in about else None
            if not 0 < float(more["calibration"].get("temperature", 1.0)) < np.inf:
                raise ValueError("its temperature is not positive")
        except FileNotFoundError as error:
            raise GgeurError(f"There is no trained model at {folder}.") from error
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            place = folder / (CONFIG if exported else "model.json")
            raise GgeurError(f"{place} is damaged: {one_line(error)}.") from error
        if is_own(head) and not own:
            raise GgeurError(
                f"The model at {folder} has the head '{head}', and to load it is to import that module; "
                "if you trust it, use Model.load(path, own=True)."
            )
        if not numbers:
            return cls(None, head, dimension, names, encoder, parameters, units, **more)
        arrays = read_weights(folder) if exported else read_arrays(current(folder, "head.npz"))
        if not parameters:  # older models do not say
            with suppress(KeyError):  # of an array that is not there, which is seen below
                parameters = sizes(head, arrays)
        built = resolve_head(head, **parameters)
        key = jax.random.key(0)
        expected = build_own(
            head, "head", lambda: jax.eval_shape(lambda key: built.init(key, dimension, len(names)), key)
        )
        shapes = {name: leaf.shape for name, leaf in by_path(expected).items()}
        if {name: a.shape for name, a in arrays.items()} != shapes or not all(
            a.dtype.kind == "f" and np.isfinite(a).all() for a in arrays.values()
        ):
            where = folder / (WEIGHTS if exported else "head.npz")
            raise GgeurError(f"{where} does not hold the head that {CONFIG if exported else 'model.json'} describes.")
        params = jax.tree.unflatten(jax.tree.structure(expected), [arrays[name] for name in shapes])
        return cls(params, head, dimension, names, encoder, parameters, units, **more)


def load_model(path: str | os.PathLike[str], *, cell: int | str = "last", own: bool = False) -> Model:
    """The model at `path`, to be asked with `predict`: a model folder, one exported for the hub or torch, or a run's.

    Of a run folder it is that of the `cell`: a number, the name of an arm, or "last", which looks at no test row. `own`
    allows a head that is a user's own, whose module is imported: say so only of a model that you trust.

    >>> import tempfile
    >>> params = {"W": np.eye(2, dtype=np.float32), "b": np.zeros(2, np.float32)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Model(params, "linear", 2, ("cat", "dog"), {}).save(Path(folder))
    ...     load_model(folder).predict([[3.0, 0.0]]).top(1)
    [[('cat', 0.95)]]
    """
    return Model.load(check_path("path", path), cell=cell, own=own)


def _units(about: Mapping[str, Any], dimension: int) -> Units:
    """As model.json has them."""
    units = Units(np.array(about["shift"], np.float64), float(about["scale"]))
    if units.shift.shape != (dimension,) or not np.isfinite(units.shift).all() or not 0 < units.scale < np.inf:
        raise ValueError("its units are not a shift and a scale")
    return units


def _ball(about: Mapping[str, Any], dimension: int) -> Ball:
    """As model.json has it."""
    radius, projection = about["radius"], about["projection"]
    if not (radius is None or 0 < float(radius) < np.inf) or projection not in (None, dimension):
        raise ValueError("its ball is not a radius and a projection")
    return Ball(None if radius is None else float(radius), projection)


def by_path(tree: Tree) -> dict[str, Any]:
    """The leaves by where they are: those of {"W": w, "deep": [{"b": b}]} are "W" and "deep/0/b"."""

    def name(step: Any) -> str:
        return keystr((step,), simple=True).replace("~", "~0").replace("/", "~1")  # as in a JSON pointer: no two alike

    return {"/".join(map(name, path)): leaf for path, leaf in tree_flatten_with_path(tree)[0]}
