"""A model: a head with its classes and the encoder of its embeddings."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ggeur.data.table import EmbeddingTable
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Params, double_logits, in_blocks
from ggeur.heads.parameter_tree import by_path
from ggeur.models.model_files import MORE, built, read_model, write_model
from ggeur.models.places import model_folder
from ggeur.models.transaction import settled
from ggeur.privacy.bounded_norm import BoundedNorm
from ggeur.stats.errors import GgeurError
from ggeur.stats.units import Units
from ggeur.stats.validate import check_is, check_path, check_whole

if TYPE_CHECKING:
    from ggeur.encoders.encoder import Encoder
    from ggeur.encoders.job import OnBatch
    from ggeur.models.prediction import Answers


@dataclass(frozen=True, eq=False)
class Model:
    """A head of type `head` with `params`, built with `parameters`; `encoder` is the meta of a table.

    `units` are those of the head's samples, where they are not the encoder's; samples are converted here. `algorithm`
    is the head's method, with its augmentation or hyperparameters and the seed, `settings` are the experiment's, and
    `metrics` are scores on test samples. `privacy` is the guarantee for its samples, and `ball` clips and projects
    samples first. `calibration` has the temperature that divides logits, where one was fitted, and its samples.

    Parameters
    ----------
    params : the head's numbers, a tree of arrays.
    head : the kind of head, such as "linear".
    dimension : number of dimensions p of what the head takes.
    class_names : name of each class.
    encoder : what a table's `meta` says of the encoder.
    parameters : hyperparameters of the head.
    units : the units of the head's samples, where they are not the encoder's.
    algorithm : the method, its augmentation or hyperparameters, and the seed.
    settings : those of the experiment.
    metrics : scores on test samples.
    privacy : the guarantee for its training samples.
    ball : a clip and a projection that samples go through first.
    calibration : the temperature that divides logits, and what it was fitted on.

    Attributes
    ----------
    temperature : the number that divides logits; 1 without a calibration.
    takes : number of dimensions of an embedding that it takes.

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
    ball: BoundedNorm | None = None
    calibration: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_is("head", self.head, str, "the name of a head")
        check_whole("dimension", self.dimension)
        check_is("class_names", self.class_names, Sequence, "a list of names")
        for key in ("encoder", "parameters", *MORE):
            for name in check_is(key, getattr(self, key), Mapping, "a mapping of names to values"):
                check_is(f"A name in {key}", name, str, "text")
        t = self.calibration.get("temperature", 1.0)
        if not isinstance(t, Real) or not 0 < float(t) < np.inf:
            raise GgeurError(
                f"The temperature is {reprlib.repr(t)}; it must be a positive number.", code="argument-not-positive"
            )

    @cached_property
    def _sizes(self) -> dict[str, Any]:
        """Return the parameters of the head, given or read off its weights, and check that the weights fit."""
        numbers = {name: np.asarray(leaf) for name, leaf in by_path(self.params).items()}
        found = built(self.head, self.parameters, numbers, self.dimension, len(self.class_names))
        if found.params is None:
            raise GgeurError(
                f"The model's params are not those of the head '{self.head}' of {len(self.class_names)} classes in "
                f"{self.dimension} dimensions.",
                code="model-params-mismatch",
            )
        return found.parameters

    @property
    def temperature(self) -> float:
        """Return the temperature that divides logits."""
        return float(self.calibration.get("temperature", 1.0))

    @property
    def takes(self) -> int:
        """Return the dimension of the encoder's samples; the head may see fewer, after a public projection."""
        projected = self.ball is not None and self.ball.projection is not None
        return int(self.encoder.get("dimension", self.dimension)) if projected else self.dimension

    def probabilities(self, table: EmbeddingTable) -> NDArray[np.float32]:
        """Return (N, C): class probabilities of the samples of `table`, embedded by the model's encoder."""
        check_is("table", table, EmbeddingTable, "an EmbeddingTable")
        self.check_encoder("The table", table.dimension, table.meta)
        return self.probabilities_of(table.x)

    def probabilities_of(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Return (N, C): class probabilities of the samples `x` (N, p), embedded by the model's encoder."""
        return np.asarray(softmax(self.logits_of(x) / self.temperature, axis=1), np.float32)

    def logits_of(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return (N, C): logits of the samples `x` (N, p), before the temperature."""
        head = resolve_head(self.head, **self._sizes)
        x = x if self.ball is None else self.ball.apply(x)
        x = x if self.units is None else self.units.apply(x)
        logits: Any = double_logits(head, self.params, x)
        if logits is None:
            import jax
            import jax.numpy as jnp

            compute = jax.jit(head.logits) if head.images else head.logits  # a network is hundreds of small programs
            logits = in_blocks(head, lambda samples: compute(self.params, jnp.asarray(samples, jnp.float32)), x)
        return np.asarray(logits)

    def check_encoder(self, what: str, dimension: int, meta: Mapping[str, Any]) -> None:
        """Raise GgeurError unless `what`, with samples of this `dimension` and `meta`, is of the model's encoder."""
        mine, other = self.encoder.get("encoder"), meta.get("encoder")
        if dimension != self.takes and mine and other and mine != other:
            raise GgeurError(
                f"This model needs the encoder {mine} ({self.takes} dimensions); {other} was given ({dimension}).",
                code="embeddings-dimension-mismatch",
            )
        if dimension != self.takes:
            raise GgeurError(
                f"{what} has {dimension} dimensions and the model {self.takes}: use one encoder for both.",
                code="embeddings-dimension-mismatch",
            )
        ours, theirs = self.encoder.get("weights"), meta.get("weights")
        if ours and theirs and ours != theirs:
            raise GgeurError(
                f"{what} was embedded by '{meta.get('encoder')}', the model was trained on "
                f"'{self.encoder.get('encoder')}' with other weights: use one encoder for both.",
                code="encoder-mismatch",
            )
        ours, theirs = self.encoder.get("preprocessing"), meta.get("preprocessing")
        if ours and theirs and ours != theirs:
            raise GgeurError(
                f"{what} was embedded by '{meta.get('encoder')}' with the preprocessing {theirs}, the model was "
                f"trained with {ours}: use one encoder for both.",
                code="encoder-preprocessing-mismatch",
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
        """Return the classes of pictures or samples, with probabilities.

        Parameters
        ----------
        given : a picture (path, bytes, or uint8 pixels), several, a folder of them; or embeddings (N, p), as an array
            or what gives one (a frame of pandas, a tensor of torch), an EmbeddingTable, TableFiles, or a table's path.
        encoder : what embeds pictures, default the model's own: builtin, onnx:PATH, a Hugging Face model, an Encoder.
        reject : the least probability of an answer; below it the answer is None, "I do not know". The model must be
            calibrated.
        skip_unreadable : leave pictures out that cannot be read, and list them.
        on_batch : called with how many pictures are done, and how many of them were embedded just now.

        >>> params = {"W": np.eye(2, dtype=np.float32), "b": np.zeros(2, np.float32)}
        >>> model = Model(params, "linear", 2, ("cat", "dog"), {}, calibration={"temperature": 1.0})
        >>> model.predict([[3.0, 0.0], [0.0, 0.2]], reject=0.9).labels
        ['cat', None]
        """
        from ggeur.models.prediction import answers

        return answers(self, given, reject, encoder=encoder, skip_unreadable=skip_unreadable, on_batch=on_batch)

    def to_sklearn(self) -> Any:
        """Return the head as a scikit-learn classifier of embeddings: `predict` and `predict_proba`.

        A linear head is a LogisticRegression, in a Pipeline where samples are transformed first; it needs no ggeur.
        """
        from ggeur.models.exports.scikit import to_sklearn

        return to_sklearn(self)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `head.npz` and `model.json` to `folder`, which is made if it is missing."""
        write_model(check_path("folder", folder), self.params, self.about())

    def about(self) -> dict[str, Any]:
        """Return all fields but the weights, as in model.json."""
        about: dict[str, Any] = {
            "head": self.head,
            "parameters": dict(self.parameters),
            "dimension": self.dimension,
            "class_names": list(self.class_names),
            "encoder": dict(self.encoder),
            **{key: dict(getattr(self, key)) for key in MORE if getattr(self, key)},
        }
        if self.units is not None:
            about["units"] = {"shift": self.units.shift.tolist(), "scale": self.units.scale}
        if self.ball is not None:
            about["ball"] = self.ball._asdict()
        return about

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, trial: int | str = "last", custom: bool = False, numbers: bool = True
    ) -> Self:
        """Read the model in the folder `path`, an exported one, or one of a run folder's: that of its `trial`.

        A trial is a number, the name of an arm (its last seed's), or "last": a rule that looks at no test sample, since
        a head that is chosen by its test accuracy has none to report. `custom` allows a custom head, which model.json
        names as package.module:name. Its module is then imported, which runs code: set it only for a model that you
        trust. Without its `numbers` the model only describes itself, and is read even where they are damaged.
        """
        folder = model_folder(check_path("path", path), trial).folder
        # Both from before or both from after a change of the folder.
        return cls(**settled(folder, ("model.json", "head.npz"), lambda: read_model(folder, custom, numbers)))


def load_model(path: str | os.PathLike[str], *, trial: int | str = "last", custom: bool = False) -> Model:
    """Load the model at `path` for `predict`: a model folder, an export for the hub or torch, or a run folder.

    In a run folder `trial` selects it: a number, the name of an arm, or "last", which looks at no test sample.
    `custom` allows a custom head, whose module is imported: set it only for a model that you trust.

    Parameters
    ----------
    path : a model folder, an export for the hub or torch, or a run folder.
    trial : of a run folder: a number, the name of an arm, or "last".
    custom : allow the import of a custom head; only for a model that you trust.

    Returns
    -------
    A `Model`.

    >>> import tempfile
    >>> params = {"W": np.eye(2, dtype=np.float32), "b": np.zeros(2, np.float32)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Model(params, "linear", 2, ("cat", "dog"), {}).save(folder)
    ...     load_model(folder).predict([[3.0, 0.0]]).top(1)
    [[('cat', 0.95)]]
    """
    return Model.load(path, trial=trial, custom=custom)
