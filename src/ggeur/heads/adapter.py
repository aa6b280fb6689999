"""FedCLIP's head: a sample, each feature weighted by attention, compared with a text of every class."""

import jax
import jax.numpy as jnp

from ggeur.heads.cosine import cosines
from ggeur.heads.head import Head, Params
from ggeur.heads.linear import torch_linear


def attend(params: Params, x: jax.Array) -> jax.Array:
    """(n, p): a(x) x with a(x) = softmax over features of W2 tanh(W1 x + b1) + b2."""
    hidden = jnp.tanh(params["W1"] @ x.T + params["b1"][:, None])
    weight = jax.nn.softmax(params["W2"] @ hidden + params["b2"][:, None], axis=0)
    return weight.T * x


def random_adapter(key: jax.Array, p: int) -> Params:
    """Its four arrays, as torch's Linear has them at first: a(x) is then nearly constant."""
    key_1, key_2 = jax.random.split(key)
    (w1, b1), (w2, b2) = torch_linear(key_1, p, p), torch_linear(key_2, p, p)
    return {"W1": w1, "b1": b1, "W2": w2, "b2": b2}


def adapter() -> Head:
    """logit_c = 100 cos(a(x) x, t_c); FedCLIP trains a, and the text t (C, p) stays."""

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        return {**random_adapter(key, p), "text": jnp.zeros((n_classes, p))}

    def logits(params: Params, x: jax.Array) -> jax.Array:
        return cosines(attend(params, x), params["text"])

    return Head(init, logits, logits, lambda params: params["text"].shape)
