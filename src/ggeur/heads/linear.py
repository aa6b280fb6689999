"""The paper's "single-layer MLP": one linear layer on the embedding, initialised as torch's Linear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ggeur.heads.head import Head, Params

if TYPE_CHECKING:
    import jax


def torch_linear(key: jax.Array, inputs: int, outputs: int) -> tuple[jax.Array, jax.Array]:
    """Weights (outputs, inputs) and biases, uniform in +-1/sqrt(inputs)."""
    import jax

    bound = inputs**-0.5
    key_w, key_b = jax.random.split(key)
    return (
        jax.random.uniform(key_w, (outputs, inputs), minval=-bound, maxval=bound),
        jax.random.uniform(key_b, (outputs,), minval=-bound, maxval=bound),
    )


def linear(*, softmax: bool = False) -> Head:
    """logits = W x + b. With `softmax`, probabilities take the place of logits, as in the released scripts."""

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        w, b = torch_linear(key, p, n_classes)
        return {"W": w, "b": b}

    def logits(params: Params, x: jax.Array) -> jax.Array:
        z: jax.Array = (params["W"] @ x.T + params["b"][:, None]).T  # classes first inside: half again as fast compiled
        if softmax:
            import jax

            z = jax.nn.softmax(z)
        return z

    return Head(init, logits, logits, lambda params: params["W"].shape, linear=True)
