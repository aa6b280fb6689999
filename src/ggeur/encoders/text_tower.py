"""CLIP's text transformer in JAX, for gradients with respect to its inputs; its weights are never trained.

    x_0 = tokens + positions,    x <- x + W_o attention(LN x),    x <- x + W_2 act(W_1 LN x),    text = W_p LN(x at EOT)

The mask is causal, so nothing after a text's EOT counts, and what all texts begin with does not depend on how they go
on. Both are used, and neither changes the outcome: texts end at their EOT, and the states of a shared prefix are
computed once, whose keys and values every text then attends to. All states lie in one matrix, the prefix first, then
the texts by length; only attention looks at them text by text.
"""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Int, Tree


class Shape(NamedTuple):
    """The sizes and choices a program is compiled for."""

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


def run_tower(
    shape: Shape, tower: TextTower, samples: jax.Array, texts: Texts, shared: jax.Array | None = None
) -> jax.Array:
    """Return embeddings (C, p) of the `texts` with token embeddings `samples` (N, d), after `shared` (P, d)."""
    P = texts.prefix
    x = samples + tower.positions[texts.places]
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
    found = jax.jit(lambda tower, samples: run_tower(shape, tower, samples, texts))(
        tower._replace(tokens=()), tower.tokens[texts.ids]
    )
    unit: jax.Array = found / jnp.linalg.norm(found, axis=1, keepdims=True)
    return unit


def _attention(q: jax.Array, k: jax.Array, v: jax.Array, texts: Texts) -> jax.Array:
    """Return (tokens, heads, d): the prefix attends to itself, every text to the prefix and to itself."""
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
    """Return states about their mean and in units of their spread, times a weight, plus a bias."""
    x = x - x.mean(axis=-1, keepdims=True)
    found: jax.Array = x * jax.lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * w["weight"] + w["bias"]
    return found


def affine(x: jax.Array, w: Tree) -> jax.Array:
    """Return W x + b of every state."""
    found: jax.Array = x @ w["weight"].T + w["bias"]
    return found


_START, _END, _WORD = "<|startoftext|>", "<|endoftext|>", "</w>"
_SHORT = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")  # endings that are words of their own
# Every byte as a character that can be seen: itself, or one from beyond Latin-1.
_SEEN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_CHARACTER = {b: chr(b) for b in _SEEN} | {b: chr(256 + i) for i, b in enumerate(sorted({*range(256)} - {*_SEEN}))}


class BytePairs:
    """The tokenizer of a CLIP folder: tokenizer.json, or vocab.json and merges.txt."""

    def __init__(self, folder: str | Path) -> None:
        self._path = path = Path(folder)
        try:
            if (path / "tokenizer.json").exists():
                model = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))["model"]
                codes, merges = model["vocab"], model["merges"]
            else:
                codes = json.loads((path / "vocab.json").read_text(encoding="utf-8"))
                lines = (path / "merges.txt").read_text(encoding="utf-8").splitlines()
                merges = [line for line in lines if line and not line.startswith("#version")]
            self._code: dict[str, int] = dict(codes)
            pairs = [tuple(pair.split()) if isinstance(pair, str) else tuple(pair) for pair in merges]
            self._rank: dict[tuple[str, ...], int] = {pair: i for i, pair in enumerate(pairs)}
            self.start, self.end = self._code[_START], self._code[_END]
            if not all(type(code) is int and code >= 0 for code in self._code.values()):
                raise ValueError("its tokens must be numbered")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise GgeurError(
                f"{path} does not hold CLIP's tokens, tokenizer.json ({error!r}).", code="tokenizer-invalid"
            ) from error
        self._word = lru_cache(maxsize=4096)(self._merged)

    def __call__(self, text: str, most: int = 77) -> list[int]:
        """Start of text, the tokens of `text`, end of text: at `most` so many.

        The end is kept where the text is cut.
        """
        found = [code for word in _words(unicodedata.normalize("NFC", text).lower()) for code in self._word(word)]
        return [self.start, *found[: most - 2], self.end]

    def _merged(self, word: str) -> tuple[int, ...]:
        parts = [_CHARACTER[b] for b in word.encode()]
        parts[-1] += _WORD
        never = len(self._rank)
        while len(parts) > 1:
            ranks = [self._rank.get(pair, never) for pair in pairwise(parts)]
            if (best := min(ranks)) == never:
                break
            merged, i = [], 0
            while i < len(parts):
                here = i < len(ranks) and ranks[i] == best
                merged.append(parts[i] + parts[i + 1] if here else parts[i])
                i += 2 if here else 1
            parts = merged
        lacking = [part for part in parts if part not in self._code]
        if lacking:  # CLIP's vocabulary has every byte, so that nothing is unknown to it
            raise GgeurError(
                f"{self._path} does not hold CLIP's tokens: there is none for '{lacking[0]}' of '{word}'.",
                code="tokenizer-token-missing",
            )
        return tuple(self._code[part] for part in parts)


def _words(text: str) -> Iterator[str]:
    """Runs of letters, single digits, runs of anything else that is no space, and the short endings."""
    i = 0
    while i < len(text):
        short = next((ending for ending in _SHORT if text.startswith(ending, i)), None)
        kind, end = _kind(text[i]), i + 1
        if short is not None:
            end = i + len(short)
        elif kind != "N":
            while end < len(text) and _kind(text[end]) == kind:
                end += 1
        if kind != " ":
            yield text[i:end]
        i = end


def _kind(character: str) -> str:
    if character.isspace():
        return " "
    category = unicodedata.category(character)[0]
    return category if category in "LN" else "other"
