"""FedGen (Zhu, Hong and Zhou, ICML 2021): the server learns to generate embeddings from labels, for clients to use.

Server, after each round, with the clients' heads h_k and label counts n_k^c:

    min_G  E_{y, eps}  sum_k (n_k^y / n^y) CE(h_k(G(y, eps)), y) + exp(-mean_{i,j} |eps_i - eps_j| |G_i - G_j|)

Client, from round 2 on, with a and b decaying by 0.98 a round:

    loss = CE(h(x), y) + a CE(h(G(y')), y') + b KL(sg h(G(y)) || h(x)),    y' drawn by the federation's label counts

The generator has one hidden layer z, normalised:

    G(y, eps) = W2 relu((z - m) / sqrt(v + 1e-5)) + b2,    z = W1 [eps, onehot(y)]

The server trains it with m and v of the batch at hand, of B samples, and keeps running ones, from m' = 0 and v' = 1 on:

    m' <- 0.9 m' + 0.1 m,    v' <- 0.9 v' + 0.1 v B / (B - 1)

Clients use m' and v', which travel with G: with the m of its own batch, a batch of one class would lose its label. So
does the authors' batch normalisation, in training and in use; its learned scale and shift are left out.

The whole head is what the authors call the predictor, so the latent that G makes is the embedding itself.
"""

import jax
import jax.numpy as jnp
import optax

from ggeur.heads.head import Head, Params
from ggeur.methods.expected import widened
from ggeur.methods.method import Method, cross_entropy, row_mean, weighted_mean
from ggeur.methods.parts import Batch, LocalWork, Parts, Released, RoundFacts
from ggeur.stats.hyperparameters import AtLeastZero, Count, Positive, Traced
from ggeur.stats.types import Tree

DECAY = 0.98
MOMENTUM = 0.1  # of the running statistics, as torch has it


def fedgen(
    head: Head,
    *,
    a: Traced[AtLeastZero] = 10.0,
    b: Traced[AtLeastZero] = 10.0,
    noise: Count = 32,
    hidden: Count = 256,
    server_steps: Count = 50,
    server_batch: Count = 128,
    server_learning_rate: Traced[Positive] = 3e-4,
) -> Method:
    """`a`, `b`: weights of the generated samples and of the distillation; the others are the generator's."""
    adam = optax.chain(optax.add_decayed_weights(1e-2), optax.adam(server_learning_rate))

    def hidden_layer(g: Params, y: jax.Array, eps: jax.Array) -> jax.Array:
        n_classes = g["W1"].shape[1] - noise
        z: jax.Array = jnp.concatenate([eps, jax.nn.one_hot(y, n_classes, dtype=eps.dtype)], axis=-1) @ g["W1"].T
        return z

    def output(g: Params, z: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        made: jax.Array = jax.nn.relu((z - m) / jnp.sqrt(v + 1e-5)) @ g["W2"].T + g["b2"]
        return made

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        n_classes, p = head.shape(params)
        k1, k2 = jax.random.split(jax.random.key(0))
        g = {
            "W1": jax.random.normal(k1, (hidden, noise + n_classes)) * (noise + n_classes) ** -0.5,
            "W2": jax.random.normal(k2, (p, hidden)) * hidden**-0.5,
            "b2": jnp.zeros(p),
        }
        return {
            "params": params,
            "G": g,
            "running": {"m": jnp.zeros(hidden), "v": jnp.ones(hidden)},
            "memory": adam.init(g),
            "labels": jnp.ones(n_classes),
            "strength": jnp.zeros(()),  # the generator has no say until it has been trained once
        }, ()

    def loss(w: Params, batch: Batch, context: Released, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        logits = head.logits(w, batch.x)
        plain = cross_entropy(widened(logits, w, batch), batch.y, batch.mask)
        k_label, k_new, k_same = jax.random.split(key, 3)
        n = len(batch.y)

        def generate(y: jax.Array, key: jax.Array) -> jax.Array:
            z = hidden_layer(context["G"], y, jax.random.uniform(key, (n, noise)))
            return output(context["G"], z, **context["running"])

        y_new = jax.random.categorical(
            k_label, jnp.log(context["labels"]), shape=(n,)
        )  # one for each sample of the batch
        generated = cross_entropy(head.logits(w, generate(y_new, k_new)), y_new, batch.mask)
        alike = generate(batch.y, k_same)
        teacher = jax.lax.stop_gradient(jax.nn.log_softmax(head.logits(w, alike)))
        kl = jnp.sum(jnp.exp(teacher) * (teacher - jax.nn.log_softmax(logits)), axis=-1)
        return plain + context["strength"] * (a * generated + b * row_mean(kl, batch.mask)), carry

    def upload(work: LocalWork) -> tuple[Parts, Tree]:
        n = work.data.class_count.astype(work.context["labels"].dtype)
        return {"params": work.end, "n": n}, work.context["client"]

    def aggregate(server: Tree, every: Parts, facts: RoundFacts) -> Tree:
        h, n = every["params"], every["n"]  # (|S|, ...), (|S|, C)
        share = n / jnp.maximum(n.sum(axis=0), 1)
        labels = n.sum(axis=0)

        def objective(g: Params, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            k_y, k_eps = jax.random.split(key)
            y = jax.random.categorical(k_y, jnp.log(labels), shape=(server_batch,))
            eps = jax.random.uniform(k_eps, (server_batch, noise))
            z = hidden_layer(g, y, eps)
            made = output(g, z, z.mean(axis=0), z.var(axis=0))
            log_p = jax.nn.log_softmax(jax.vmap(head.logits, in_axes=(0, None))(h, made))
            right = jnp.take_along_axis(log_p, y[None, :, None], axis=2)[..., 0]  # (|S|, batch)
            ensemble = -jnp.mean(jnp.sum(share[:, y] * right, axis=0))
            return ensemble + jnp.exp(-spread(made, distances(eps))), z

        def step(state: Tree, key: jax.Array) -> tuple[Tree, None]:
            g, running, memory = state
            slope, z = jax.grad(objective, has_aux=True)(g, key)
            update, memory = adam.update(slope, memory, g)
            return (optax.apply_updates(g, update), updated(running, z), memory), None

        keys = jax.random.split(facts.key, server_steps)
        (g, running, memory), _ = jax.lax.scan(step, (server["G"], server["running"], server["memory"]), keys)
        first = server["strength"] == 0
        return {
            "params": weighted_mean(h, facts.weights),
            "G": g,
            "running": running,
            "memory": memory,
            "labels": labels,
            "strength": jnp.where(first, 1.0, DECAY * server["strength"]),
        }

    return Method(
        loss=loss,
        init=init,
        broadcast=lambda server: {k: server[k] for k in ("params", "G", "running", "labels", "strength")},
        upload=upload,
        adds={"params": "every", "n": "every"},  # the generator is taught by each client's head
        aggregate=aggregate,
    )


def updated(running: dict[str, jax.Array], z: jax.Array) -> dict[str, jax.Array]:
    """The `running` m' and v' after a batch `z` (B, hidden), whose variance counts as the unbiased estimate."""
    new = {"m": z.mean(axis=0), "v": z.var(axis=0) * len(z) / max(len(z) - 1, 1)}
    return {name: (1 - MOMENTUM) * running[name] + MOMENTUM * new[name] for name in new}


def distances(x: jax.Array) -> jax.Array:
    """Mean absolute difference between every two samples."""
    return jnp.mean(jnp.abs(x[:, None] - x[None]), axis=-1)


def spread(x: jax.Array, d: jax.Array) -> jax.Array:
    """mean_{i,j} d_ij |x_i - x_j|, for symmetric d, without the array of all differences.

    The sum is 2 sum_i <x_i, s_i> with s_i = sum_j d_ij sign(x_i - x_j). As signs have no slope, this has the value and
    the gradient of the double sum.
    """
    x = x - jax.lax.stop_gradient(jnp.mean(x, axis=0))  # differences stay, and cancellation is less
    held = jax.lax.stop_gradient(x)

    def add(j: jax.Array, s: jax.Array) -> jax.Array:
        return s + d[:, j, None] * jnp.sign(held - held[j])

    s = jax.lax.fori_loop(0, len(x), add, jnp.zeros_like(held))
    return 2 * jnp.sum(x * s) / (len(x) ** 2 * x.shape[1])
