"""CLIP's text transformer in JAX, for gradients with respect to its inputs; its weights are never trained.

    x_0 = tokens + positions,    x <- x + W_o attention(LN x),    x <- x + W_2 act(W_1 LN x),    text = W_p LN(x at EOT)

The mask is causal, so nothing after a text's EOT counts, and what all texts begin with does not depend on how they go
on. Both are used, and neither changes the outcome: texts end at their EOT, and the rows of a shared prefix are
computed once, whose keys and values every text then attends to. All rows lie in one matrix, the prefix first, then
the texts by length; only attention looks at them text by text.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.types import Int, Tree

_LAYER = {
    "ln_1": "layer_norm1",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "out": "self_attn.out_proj",
    "ln_2": "layer_norm2",
    "up": "mlp.fc1",
    "down": "mlp.fc2",
}


class Shape(NamedTuple):
    """What a program is made of."""

    heads: int
    epsilon: float = 1e-5  # of LayerNorm
    quick: bool = True  # QuickGELU, x sigmoid(1.702 x), as OpenAI's weights need it, or the exact GELU


class TextTower(NamedTuple):
    """Weights as trees of arrays; `blocks` are stacked over layers. Linear maps are (outputs, inputs), as torch's."""

    tokens: Any  # (V, d)
    positions: Any  # (77, d)
    blocks: Tree
    final: Tree
    projection: Any  # (p, d)


class Texts(NamedTuple):
    """Tokens of several texts, end to end, sorted by length; the first `prefix` of each, which all share, are left out.

    `ids` and `places` (N,) are tokens and their positions; `groups` are (how many texts, how long), in their order;
    `ends` (C,) says where each text's EOT is, in the order in which the texts were given.
    """

    ids: Int
    places: Int
    groups: tuple[tuple[int, int], ...]
    ends: Int
    prefix: int = 0


def lay_out(tokens: Sequence[Sequence[int]], prefix: int = 0) -> Texts:
    """The `tokens` of texts, each up to its EOT, of which the first `prefix` are the same for all."""
    lengths = np.array([len(text) - prefix for text in tokens])
    order = np.argsort(lengths, kind="stable")
    ends = np.empty(len(lengths), np.int64)
    ends[order] = np.cumsum(lengths[order]) - 1
    ids = np.concatenate([np.asarray(tokens[i][prefix:]) for i in order])
    places = np.concatenate([prefix + np.arange(lengths[i]) for i in order])
    counted = zip(*np.unique(lengths, return_counts=True), strict=True)
    return Texts(ids, places, tuple((int(n), int(length)) for length, n in counted), ends, prefix)


def run(shape: Shape, tower: TextTower, rows: jax.Array, texts: Texts, shared: jax.Array | None = None) -> jax.Array:
    """(C, p): embeddings of the `texts` whose token embeddings are `rows` (N, d), after the prefix `shared` (P, d)."""
    P = texts.prefix
    x = rows + tower.positions[texts.places]
    x = x if shared is None else jnp.concatenate([shared + tower.positions[:P], x])

    def block(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
        h = layer_norm(x, w["ln_1"], shape.epsilon)
        q, k, v = (affine(h, w[name]).reshape(len(x), shape.heads, -1) for name in "qkv")
        x = x + affine(_attention(q, k, v, texts).reshape(x.shape), w["out"])
        h = affine(layer_norm(x, w["ln_2"], shape.epsilon), w["up"])
        h = h * jax.nn.sigmoid(1.702 * h) if shape.quick else jax.nn.gelu(h, approximate=False)
        return x + affine(h, w["down"]), None

    x, _ = jax.lax.scan(block, x, tower.blocks)
    end: jax.Array = layer_norm(x[P + texts.ends], tower.final, shape.epsilon) @ tower.projection.T
    return end


def embed_tokens(shape: Shape, tower: TextTower, tokens: Sequence[Sequence[int]]) -> jax.Array:
    """(C, p): the embeddings of texts, given by their tokens up to EOT, of unit length."""
    texts = lay_out(tokens)
    found = jax.jit(lambda tower, rows: run(shape, tower, rows, texts))(
        tower._replace(tokens=()), tower.tokens[texts.ids]
    )
    unit: jax.Array = found / jnp.linalg.norm(found, axis=1, keepdims=True)
    return unit


def _attention(q: jax.Array, k: jax.Array, v: jax.Array, texts: Texts) -> jax.Array:
    """(rows, heads, d): the prefix attends to itself, every text to the prefix and to itself."""
    P, first = texts.prefix, texts.prefix
    done = [_attend(q[None, :P], k[None, :P], v[None, :P])[0]] if P else []
    for n, length in texts.groups:
        mine = slice(first, first := first + n * length)
        own = [a[mine].reshape(n, length, *a.shape[1:]) for a in (q, k, v)]
        keys, values = (
            jnp.concatenate([jnp.broadcast_to(a[:P], (n, P, *a.shape[1:])), b], axis=1)
            for a, b in ((k, own[1]), (v, own[2]))
        )
        done.append(_attend(own[0], keys, values).reshape(n * length, *q.shape[1:]))
    return jnp.concatenate(done)


def _attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention of the last queries (n, r, heads, d) to all keys (n, P + r, heads, d)."""
    scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) * q.shape[-1] ** -0.5
    seen = np.tri(q.shape[1], k.shape[1], k.shape[1] - q.shape[1], dtype=bool)
    return jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)), v)


def layer_norm(x: jax.Array, w: Tree, epsilon: float = 1e-5) -> jax.Array:
    """Rows about their mean and in units of their spread, times a weight, plus a bias."""
    x = x - x.mean(axis=-1, keepdims=True)
    found: jax.Array = x * jax.lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * w["weight"] + w["bias"]
    return found


def affine(x: jax.Array, w: Tree) -> jax.Array:
    """W x + b of every row."""
    found: jax.Array = x @ w["weight"].T + w["bias"]
    return found


def load_tower(folder: str | Path) -> tuple[Shape, TextTower]:
    """The text tower of a CLIP model in a local folder of Hugging Face's layout: config.json and model.safetensors."""
    path = Path(folder)
    return _load(path, tuple(_stamp(path / name) for name in ("config.json", "model.safetensors")))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise GgeurError(
            f"{path} is not there: a text tower needs a CLIP folder with config.json and model.safetensors, such as "
            "transformers' save_pretrained writes."
        ) from error
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=1)  # a quarter of a gigabyte
def _load(folder: Path, stamps: Any) -> tuple[Shape, TextTower]:
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise GgeurError("A text tower needs an extra: pip install 'ggeur[hf]'.") from error
    try:
        about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        about = about.get("text_config") or about
        with safe_open(folder / "model.safetensors", framework="numpy") as file:  # the image tower is not read
            weights = {name: _single(file.get_tensor(name)) for name in file.keys() if name.startswith("text_")}  # noqa: SIM118
        act = about.get("hidden_act", "quick_gelu")
        if act not in ("quick_gelu", "gelu"):
            raise ValueError(f"its activation is {act}")
        layers, stem = range(about.get("num_hidden_layers", 12)), "text_model"

        def pair(name: str) -> Tree:
            return {part: weights[f"{stem}.{name}.{part}"] for part in ("weight", "bias")}

        each = [{ours: pair(f"encoder.layers.{i}.{name}") for ours, name in _LAYER.items()} for i in layers]
        tower = TextTower(
            weights[f"{stem}.embeddings.token_embedding.weight"],
            weights[f"{stem}.embeddings.position_embedding.weight"],
            jax.tree.map(lambda *leaves: np.stack(leaves), *each),
            pair("final_layer_norm"),
            weights["text_projection.weight"],
        )
        shape = Shape(int(about.get("num_attention_heads", 8)), about.get("layer_norm_eps", 1e-5), act == "quick_gelu")
    except Exception as error:  # JSON's, safetensors' own, and names or shapes that are not CLIP's
        raise GgeurError(f"{folder} does not hold a text tower of CLIP's ({error}).") from error
    return shape, tower


def _single(array: NDArray[Any]) -> NDArray[np.float32]:
    return array.astype(np.float32, copy=False)
