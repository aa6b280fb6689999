"""The paper's "single-layer MLP": one linear layer on the embedding, initialised as torch's Linear."""

import jax

from ggeur.heads.head import Head, Params


def linear(*, softmax: bool = False) -> Head:
    """logits = W x + b. With `softmax`, probabilities take the place of logits, as in the released scripts."""

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        bound = p**-0.5
        key_w, key_b = jax.random.split(key)
        return {
            "W": jax.random.uniform(key_w, (n_classes, p), minval=-bound, maxval=bound),
            "b": jax.random.uniform(key_b, (n_classes,), minval=-bound, maxval=bound),
        }

    def logits(params: Params, x: jax.Array) -> jax.Array:
        z = (params["W"] @ x.T + params["b"][:, None]).T  # classes first inside: half again as fast compiled
        return jax.nn.softmax(z) if softmax else z

    return Head(init, logits, logits)
