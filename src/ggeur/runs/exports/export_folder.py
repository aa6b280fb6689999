"""Write export folders: safetensors, a description and a torch module; with a card, for the hub."""

import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.data.files import cannot, write_bytes
from ggeur.heads import IMAGES
from ggeur.privacy.bounded_norm import basis_of
from ggeur.runs.card import hub_card
from ggeur.runs.exports.numbers import colours_of, numbers
from ggeur.runs.model import Model
from ggeur.runs.places import BASIS, CONFIG, WEIGHTS

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
        MODULE: (files("ggeur.runs.exports") / "torch_module.py").read_bytes(),
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
        "version": version("ggeur"),
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
        **_colours(model),
        **model.about(),
    }
