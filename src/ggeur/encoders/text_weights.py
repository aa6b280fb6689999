"""The text tower of a CLIP folder in Hugging Face's layout: config.json, model.safetensors and the tokenizer's files.

What does not fit together is said here, in a sentence, and not by whatever it would break later.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.encoders.text_tower import Shape, TextTower
from ggeur.stats.errors import GgeurError, how_to_install
from ggeur.stats.types import Tree

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_TOKENS = ("tokenizer.json", "vocab.json", "merges.txt")
_STEM = "text_model"
_LAYER = {  # ours, theirs, and their shape in widths: d of the states, f of the hidden layer
    "ln_1": ("layer_norm1", ("d",)),
    "q": ("self_attn.q_proj", ("d", "d")),
    "k": ("self_attn.k_proj", ("d", "d")),
    "v": ("self_attn.v_proj", ("d", "d")),
    "out": ("self_attn.out_proj", ("d", "d")),
    "ln_2": ("layer_norm2", ("d",)),
    "up": ("mlp.fc1", ("f", "d")),
    "down": ("mlp.fc2", ("d", "f")),
}

Stamps = tuple[tuple[str, int, int], ...]


def load_tower(folder: str | Path) -> tuple[Shape, TextTower]:
    """The text tower of the CLIP model in a local folder; the last is kept, while its files stay as they are."""
    return _load(Path(folder), stamps(folder))


def stamps(folder: str | Path) -> Stamps:
    """When the files that a tower is made of were written, and how long they are."""
    found = {name: Path(folder) / name for name in (_CONFIG, _WEIGHTS, *_TOKENS)}
    for path in (found[_CONFIG], found[_WEIGHTS]):
        if not path.is_file():
            raise GgeurError(
                f"{path} is not there: a text tower needs a CLIP folder with {_CONFIG} and {_WEIGHTS}, such as "
                "transformers' save_pretrained writes.",
                code="text-tower-missing",
            )
    there = {name: path.stat() for name, path in found.items() if path.is_file()}
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in there.items())


def tower_hash(folder: str | Path) -> str:
    """A hash of these files: another tower, or other tokens, give other texts."""
    return _hash(Path(folder), stamps(folder))


@lru_cache(maxsize=8)
def _hash(folder: Path, stamps: Stamps) -> str:
    digest = hashlib.sha256()
    for name, *_ in stamps:
        with (folder / name).open("rb") as file:
            digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


@lru_cache(maxsize=1)  # a quarter of a gigabyte
def _load(folder: Path, stamps: Stamps) -> tuple[Shape, TextTower]:
    about, weights = _config(folder / _CONFIG), _weights(folder / _WEIGHTS)
    tokens, positions, projection = (
        _array(folder, weights, name, (None, None))
        for name in (
            f"{_STEM}.embeddings.token_embedding.weight",
            f"{_STEM}.embeddings.position_embedding.weight",
            "text_projection.weight",
        )
    )
    width = tokens.shape[1]
    hidden = _array(folder, weights, f"{_STEM}.encoder.layers.0.mlp.fc1.weight", (None, width)).shape[0]
    sizes = {"d": width, "f": hidden}

    def pair(name: str, shape: tuple[str, ...]) -> Tree:
        wanted = {"weight": tuple(sizes[s] for s in shape), "bias": (sizes[shape[0]],)}
        return {part: _array(folder, weights, f"{_STEM}.{name}.{part}", size) for part, size in wanted.items()}

    layers, heads = (_count(folder, about, key) for key in ("num_hidden_layers", "num_attention_heads"))
    if width % heads:
        raise _wrong(folder / _CONFIG, f"its {heads} num_attention_heads do not divide the width of {width}")
    if any(name.startswith(f"{_STEM}.encoder.layers.{layers}.") for name in weights):
        raise _wrong(folder / _CONFIG, f"its num_hidden_layers is {layers}, and {_WEIGHTS} has more")
    each = [
        {ours: pair(f"encoder.layers.{i}.{theirs}", shape) for ours, (theirs, shape) in _LAYER.items()}
        for i in range(layers)
    ]
    for name, array in (("position_embedding", positions), ("text_projection", projection)):
        if array.shape[1] != width:
            raise _wrong(folder / _WEIGHTS, f"its {name} is {array.shape}, and its tokens are {width} wide")
    blocks = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
    tower = TextTower(tokens, positions, blocks, pair("final_layer_norm", ("d",)), projection)
    epsilon = about.get("layer_norm_eps", 1e-5)
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise _wrong(folder / _CONFIG, f"its layer_norm_eps is {epsilon!r}")
    return Shape(heads, float(epsilon), about.get("hidden_act", "quick_gelu") == "quick_gelu"), tower


def _wrong(path: Path, why: str) -> GgeurError:
    return GgeurError(f"{path} does not hold a text tower of CLIP's: {why}.", code="text-tower-invalid")


def _config(path: Path) -> Mapping[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        found = about.get("text_config") or about
        act = found.get("hidden_act", "quick_gelu")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise _wrong(path, f"it cannot be read ({error})") from error
    if act not in ("quick_gelu", "gelu"):
        raise _wrong(path, f"its hidden_act is {act!r}, and quick_gelu and gelu are known")
    return dict(found)


def _count(folder: Path, about: Mapping[str, Any], key: str) -> int:
    value = about.get(key, {"num_hidden_layers": 12, "num_attention_heads": 8}[key])
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _wrong(folder / _CONFIG, f"its {key} is {value!r}, and must be a whole number above zero")
    return value


def _weights(path: Path) -> dict[str, NDArray[Any]]:
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise GgeurError(f"A text tower needs an extra: {how_to_install('hf')}.", code="extra-missing") from error
    try:
        with safe_open(path, framework="numpy") as file:  # the image tower is not read
            return {name: file.get_tensor(name) for name in file.keys() if name.startswith("text_")}  # noqa: SIM118
    except Exception as error:  # safetensors' own, of a file that is cut short or is none, and types NumPy has not
        raise _wrong(path, f"it cannot be read, or is cut short ({error})") from error


def _array(
    folder: Path, weights: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...]
) -> NDArray[np.float32]:
    """The weights `name`, which have this `shape`, as far as it is known, and are finite."""
    path = folder / _WEIGHTS
    if name not in weights:
        raise _wrong(path, f"it has no {name}")
    array = weights[name]
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits or not array.size:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise _wrong(path, f"its {name} has the shape {array.shape}, and not ({wanted})")
    single: NDArray[np.float32] = array.astype(np.float32, copy=False)
    if not np.isfinite(single).all():
        raise _wrong(path, f"its {name} holds numbers that are NaN or infinite")
    return single
