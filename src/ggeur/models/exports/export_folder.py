"""Write export folders: safetensors, a description and a torch module; with a card, for the hub."""

import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.federation.ledger import Ledger
from ggeur.heads import IMAGES
from ggeur.heads.images import colours, side
from ggeur.heads.parameter_tree import by_path
from ggeur.models.card import card, hub_card, model_card
from ggeur.models.model import Model
from ggeur.models.model_files import FORMAT
from ggeur.models.places import BASIS, CONFIG, WEIGHTS
from ggeur.models.site_files import ABOUT, CARD, HEAD, LEDGER, load_ledger, read_receipts
from ggeur.models.transaction import current, settled
from ggeur.privacy.bounded_norm import basis_of
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import cannot, write_bytes

EXPORTED = ("linear", "mlp", "mixture", "blend", "kernel", "cosine", "adapter", *IMAGES)


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


MODULE, README = "model.py", "README.md"


def write_torch(model: Model, folder: Path) -> None:
    """Write `model` to `folder`: its weights (safetensors), its description (JSON), and a torch module for both."""
    _write(model, folder, {})


def write_hub(model: Model, folder: Path) -> None:
    """Write `model` for the Hugging Face hub: as for torch, with a card (README.md) that begins with metadata."""
    _write(model, folder, {README: hub_card(model).encode()})


def _write(model: Model, folder: Path, more: dict[str, bytes]) -> None:
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in numbers(model).items()}
    if model.ball is not None and model.ball.projection is not None:
        arrays[BASIS] = np.ascontiguousarray(basis_of(model.takes, model.ball.projection))
    content = {
        WEIGHTS: save(arrays, {"format": "np"}),
        CONFIG: json.dumps(_config(model), indent=1, default=str).encode(),
        MODULE: (files("ggeur.models.exports") / "torch_module.py").read_bytes(),
        **more,
    }
    if folder.exists() and (not folder.is_dir() or {p.name for p in folder.iterdir()} - {*content, ".git"}):
        raise GgeurError(
            f"{folder} is a file, or holds other things than an exported model; name a new folder.", code="folder-taken"
        )
    with cannot(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, one in content.items():
        write_bytes(folder / name, one)


def _colours(model: Model) -> dict[str, Any]:
    if model.head not in IMAGES:
        return {}
    mean, deviation = colours_of(model)
    return {"colours": {"mean": mean.tolist(), "deviation": deviation.tolist()}}


def _config(model: Model) -> dict[str, Any]:
    names = model.class_names
    return {
        "model_type": "ggeur",
        "library_name": "ggeur",
        "format": FORMAT,
        "version": version("ggeur"),
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
        **_colours(model),
        **model.about(),
    }


def write_without_statistics(folder: Path, out: Path, *, custom: bool = False) -> None:
    """Write the model in `folder` to `out`, which must be new or empty: the classifier, model.json and card.md.

    These files are written from the loaded model, and nothing else is copied: no statistics of a site or of all, no
    ledger with their hashes, no receipts and no page. `custom` allows a custom head.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise GgeurError(f"{out} is a file or is not empty; name a new folder with --out.", code="folder-taken")

    def read() -> tuple[Model, Ledger | None, Sequence[Mapping[str, Any]]]:
        listed = current(folder, LEDGER).exists()
        ledger = load_ledger(folder, sealed_too=True) if listed else None
        return Model.load(folder, custom=custom), ledger, read_receipts(folder)

    model, ledger, receipts = settled(folder, (ABOUT, HEAD, LEDGER), read)  # all from before or all from after a change
    text = model_card(model) if ledger is None else card(model, ledger, receipts, statistics=False)
    with cannot(f"write {out}"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".ggeur-", dir=out.parent) as part:
            new = Path(part) / "model"
            model.save(new)
            write_bytes(new / CARD, text.encode())
            os.replace(new, out)  # there whole or not at all
