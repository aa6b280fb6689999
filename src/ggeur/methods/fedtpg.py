"""FedTPG (Qiu et al., ICLR 2024): a generator writes the prompt, of the names of the classes that it is for.

    A = attention(queries LN(Q), keys and values LN(E)),    context = A + FF(A),    FF(A) = W2 (u gelu(g)) + b2
    t_c = text tower of [start, context, name of c, "."],    z_ic = 100 cos(x_i, t_c),    (u, g) = W1 LN(A) + b1

Q (m, d) are learnt, and E (C, d) the embeddings of bare class names: a client's own in training, all of the task's at
test. A client's loss is the cross-entropy over its own classes; its SGD keeps its momentum from round to round, and
its rate falls as a cosine with the rounds it has taken part in. The server's mean is not weighted. Only the generator
is trained and sent. The text tower (`encoders/text_tower`) computes start and context once a step for all classes, and
a model of it is the texts t_c, for which no tower is needed.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ggeur.encoders.text_tower import BytePairs, Shape, Texts, affine, embed_tokens, lay_out, layer_norm, run_tower
from ggeur.encoders.text_weights import Stamps, load_tower, stamps, tower_hash
from ggeur.heads.cosine import cosines, unit
from ggeur.heads.head import Params
from ggeur.heads.linear import torch_linear
from ggeur.methods.algorithm import Task
from ggeur.methods.clip_folder import clip_folder
from ggeur.methods.method import Method, MethodHead, cross_entropy
from ggeur.methods.parts import Batch, LocalWork, Parts, Released
from ggeur.stats.errors import GgeurError, Unavailable
from ggeur.stats.hyperparameters import AtLeastZero, Count, Fraction, Positive, Traced
from ggeur.stats.types import Tree

_HEADS = 4  # of the generator's attention
_NEVER = -1e9  # the logit of a class that is not the client's


def fedtpg(
    task: Task,
    *,
    clip: str = "",
    contexts: Count = 4,
    learning_rate: Traced[Positive] = 0.003,
    momentum: Traced[Fraction] = 0.9,
    weight_decay: Traced[AtLeastZero] = 1e-5,
    rounds: Count = 100,
) -> Method:
    """`clip`: the folder of the CLIP model; by default where the hub's files of the table's encoder are kept.

    `contexts`: m. `learning_rate`, `momentum` and `weight_decay` are its own SGD's, in place of [train]'s. `rounds` are
    [train]'s, over which the rate falls.
    """
    folder = clip_folder(task, clip)
    words = _words(folder, task.class_names, contexts)
    if words.frozen["E"].shape[1] != task.dimension:
        size = words.frozen["E"].shape[1]
        raise Unavailable(
            f"fedtpg's text tower gives {size} dimensions and the embeddings have {task.dimension}.",
            code="text-tower-dimension-mismatch",
        )

    def texts(w: Params, frozen: Tree, own: jax.Array) -> jax.Array:
        shared = jnp.concatenate([frozen["start"], generate(w, frozen["E"], own)])
        return run_tower(words.shape, frozen["tower"], frozen["samples"], words.names, shared)

    def loss(w: Params, batch: Batch, context: Released, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        own = context["data"].class_count > 0
        z = cosines(batch.x, texts(w, context["frozen"], own))
        return cross_entropy(jnp.where(own, z, _NEVER), batch.y, batch.mask), carry

    def shown(sent: Released, frozen: Tree) -> Params:
        return {"text": unit(texts(sent["params"], frozen, jnp.ones(len(task.class_names), bool)))}

    def sgd(_: jax.Array) -> optax.GradientTransformation:
        def update(g: Tree, memory: Tree, w: Tree = None) -> tuple[Tree, Tree]:
            v = jax.tree.map(lambda v, g, w: momentum * v + g + weight_decay * w, memory["v"], g, w)
            return jax.tree.map(lambda v: -learning_rate * memory["share"] * v, v), {**memory, "v": v}

        return optax.GradientTransformation(lambda w: {"v": jax.tree.map(jnp.zeros_like, w), "share": 1.0}, update)

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        zero = jax.tree.map(jnp.zeros_like, params)
        return {"params": params}, {"v": zero, "taken": jnp.zeros((), params["Q"].dtype)}

    def recall(memory: Tree, context: Released) -> Tree:
        client = context["client"]
        return {"v": client["v"], "share": (1 + jnp.cos(jnp.pi * client["taken"] / rounds)) / 2}

    def upload(work: LocalWork) -> tuple[Parts, Tree]:
        return {"params": work.end}, {"v": work.memory["v"], "taken": work.context["client"]["taken"] + 1}

    return Method(
        loss=loss,
        init=init,
        upload=upload,
        adds={"params": "equal"},
        optimiser=sgd,
        recall=recall,
        head=MethodHead(
            "cosine",
            lambda key: random_generator(key, task.dimension, contexts),
            shown,
            lambda: words.frozen,
            weights=lambda: tower_hash(folder),
            heavy=True,
        ),
    )


def random_generator(key: jax.Array, d: int, m: int) -> Params:
    """The generator at first: attention as Xavier has it, on q, k and v as one map, and torch's Linear elsewhere."""
    key_q, key_in, key_out, key_up, key_down = jax.random.split(key, 5)
    bound = (6 / (4 * d)) ** 0.5
    plain = {"weight": jnp.ones(d), "bias": jnp.zeros(d)}
    pair = dict(zip(("weight", "bias"), torch_linear(key_up, d, 8 * d), strict=True))
    down = dict(zip(("weight", "bias"), torch_linear(key_down, 4 * d, d), strict=True))
    return {
        "Q": 0.02 * jax.random.normal(key_q, (m, d)),
        "ln_q": plain,
        "ln_e": plain,
        "qkv": {
            "weight": jax.random.uniform(key_in, (3 * d, d), minval=-bound, maxval=bound),
            "bias": jnp.zeros(3 * d),
        },
        "out": {"weight": torch_linear(key_out, d, d)[0], "bias": jnp.zeros(d)},
        "ln_f": plain,
        "up": pair,
        "down": down,
    }


def generate(w: Params, E: jax.Array, own: jax.Array) -> jax.Array:
    """(m, d): the context for the classes that `own` (C,) marks, whose names are embedded as `E` (C, d)."""
    d = E.shape[1]
    weight, bias = w["qkv"]["weight"], w["qkv"]["bias"]
    samples = (layer_norm(w["Q"], w["ln_q"]), *[layer_norm(E, w["ln_e"])] * 2)
    q, k, v = (
        (x @ weight[i * d : (i + 1) * d].T + bias[i * d : (i + 1) * d]).reshape(len(x), _HEADS, -1)
        for i, x in enumerate(samples)
    )
    scores = jnp.where(own, jnp.einsum("mhd,chd->hmc", q, k) * q.shape[-1] ** -0.5, -jnp.inf)
    A = jnp.einsum("hmc,chd->mhd", jax.nn.softmax(scores), v).reshape(len(w["Q"]), d)
    A = affine(A, w["out"])
    u, g = jnp.split(affine(layer_norm(A, w["ln_f"]), w["up"]), 2, axis=1)
    return A + affine(u * jax.nn.gelu(g, approximate=False), w["down"])


class _Words(NamedTuple):
    """The input of a tower, and the tower: how prompts lie, and the arrays that are neither trained nor sent."""

    shape: Shape
    names: Texts
    frozen: Tree


def _words(folder: str, class_names: tuple[str, ...], m: int) -> _Words:
    try:
        return _words_of(folder, stamps(folder), class_names, m)
    except GgeurError as error:
        raise Unavailable(f"fedtpg: {error}", code=error.code) from error


@lru_cache(maxsize=2)
def _words_of(folder: str, stamps: Stamps, class_names: tuple[str, ...], m: int) -> _Words:
    (shape, tower), tokens = load_tower(folder), BytePairs(folder)
    plain, (most, width) = [name.replace("_", " ") for name in class_names], tower.positions.shape
    if len(tower.projection) != width or width % _HEADS:
        raise GgeurError(
            f"the text tower in {folder} is {width} wide and gives {len(tower.projection)} dimensions; it must give as "
            f"many, and a multiple of {_HEADS}.",
            code="text-tower-shape",
        )
    bare, after = ([tokens(text, most + 1) for text in texts] for texts in (plain, [f"{name}." for name in plain]))
    longest = max(range(len(plain)), key=lambda c: len(after[c]))
    if (length := m + len(after[longest])) > most:
        raise GgeurError(
            f"the prompt of '{plain[longest]}' has {length} tokens with {m} contexts, and the text tower in {folder} "
            f"takes {most}: set fewer [method.fedtpg] contexts, or shorten the name.",
            code="prompts-too-long",
        )
    if (largest := max(max(text) for text in [*bare, *after])) >= len(tower.tokens):
        raise GgeurError(
            f"the tokenizer in {folder} gives the token {largest}, and model.safetensors has an embedding of the first "
            f"{len(tower.tokens)} alone: they are not of one model.",
            code="tokenizer-vocabulary-mismatch",
        )
    names = lay_out([[tokens.start] * (1 + m) + text[1:] for text in after], 1 + m)
    E = np.asarray(embed_tokens(shape, tower, bare))
    if not np.isfinite(E).all():
        raise GgeurError(
            f"the text tower in {folder} gives embeddings of class names that are NaN or infinite.",
            code="text-tower-not-finite",
        )
    frozen = {
        "tower": tower._replace(tokens=()),
        "samples": tower.tokens[names.ids],
        "start": tower.tokens[np.array([tokens.start])],
        "E": E,
    }
    return _Words(shape, names, frozen)
