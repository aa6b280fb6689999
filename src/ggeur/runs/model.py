"""A trained head with what is needed to use it: its classes and the encoder that made its embeddings."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.data.files import read_arrays, write_atomically
from ggeur.data.table import EmbeddingTable
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Params
from ggeur.runs.result import Result


@dataclass(frozen=True, eq=False)
class Model:
    params: Params
    head: str
    dimension: int
    class_names: tuple[str, ...]
    encoder: Mapping[str, Any]

    def probabilities(self, table: EmbeddingTable) -> NDArray[np.float32]:
        """(N, C) class probabilities of the table's rows; the table must come from the model's encoder."""
        if table.dimension != self.dimension:
            raise GgeurError(
                f"The table has {table.dimension} dimensions and the model {self.dimension}: use one encoder for both."
            )
        ours, theirs = self.encoder.get("weights"), table.meta.get("weights")
        if ours and theirs and ours != theirs:
            raise GgeurError(
                f"The table was embedded by '{table.meta.get('encoder')}', the model was trained on "
                f"'{self.encoder.get('encoder')}' with other weights: use one encoder for both."
            )
        logits = resolve_head(self.head).logits(self.params, jnp.asarray(table.x, jnp.float32))
        return np.asarray(jax.nn.softmax(logits))

    def save(self, folder: Path) -> None:
        """Write `head.npz` and `model.json`."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GgeurError(f"Cannot write {folder}: {error.strerror or error}.") from error
        with write_atomically(folder / "head.npz") as file:
            np.savez(file, allow_pickle=False, **{k: np.asarray(v) for k, v in self.params.items()})
        about = {
            "head": self.head,
            "dimension": self.dimension,
            "class_names": list(self.class_names),
            "encoder": dict(self.encoder),
        }
        with write_atomically(folder / "model.json") as file:
            file.write(json.dumps(about, indent=1).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read one model, or the best of a run folder's."""
        folder = Path(path)
        if (folder / "result.json").exists():
            cells = enumerate(Result.load(folder).cells)
            models = [(c.avg, folder / "model" / f"cell-{i:03d}") for i, c in cells if c.avg is not None]
            saved = [(avg, model) for avg, model in models if model.is_dir()]  # a bound has none
            folder = max(saved, key=lambda one: one[0])[1] if saved else folder / "model"
        try:
            about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            names, dimension = tuple(map(str, about["class_names"])), int(about["dimension"])
            head, encoder = str(about["head"]), dict(about["encoder"])
            if dimension < 1:
                raise ValueError("its dimension is not positive")
        except FileNotFoundError as error:
            raise GgeurError(f"There is no trained model at {folder}.") from error
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise GgeurError(f"{folder / 'model.json'} is damaged: {error!r}.") from error
        params = read_arrays(folder / "head.npz")
        built = resolve_head(head, hidden=max(params["b1"].size, 1)) if "b1" in params else resolve_head(head)
        expected = jax.eval_shape(lambda key: built.init(key, dimension, len(names)), jax.random.key(0))
        shapes = {name: leaf.shape for name, leaf in expected.items()}
        if {name: a.shape for name, a in params.items()} != shapes or not all(
            a.dtype.kind == "f" and np.isfinite(a).all() for a in params.values()
        ):
            raise GgeurError(f"{folder / 'head.npz'} does not hold the head that model.json describes.")
        return cls(params, head, dimension, names, encoder)
