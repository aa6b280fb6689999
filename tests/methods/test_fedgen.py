"""FedGen: clients and generator for two rounds against NumPy, and a generator that learns what it should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ggeur.core.seeding import stream
from ggeur.engine.local import folded_key
from ggeur.methods import fedgen

NOISE, HIDDEN, STEPS, DRAWS, SERVER_RATE = 2, 4, 3, 5, 0.05
A, B = 1.5, 0.7
TINY = {
    "a": A,
    "b": B,
    "noise": NOISE,
    "hidden": HIDDEN,
    "server_steps": STEPS,
    "server_batch": DRAWS,
    "server_rate": SERVER_RATE,
}
SHAPES = {"W1": (HIDDEN, NOISE + 3), "b1": (HIDDEN,), "W2": (2, HIDDEN), "b2": (2,)}


def unpack(vector):
    parts = np.split(vector, np.cumsum([np.prod(s) for s in SHAPES.values()])[:-1])
    return {name: part.reshape(shape) for part, (name, shape) in zip(parts, SHAPES.items(), strict=True)}


def generate(g, y, eps):
    """G(y, eps): a hidden layer, normalised by the batch, and a linear one."""
    z = np.c_[eps, np.eye(g["W1"].shape[1] - eps.shape[1])[y]] @ g["W1"].T + g["b1"]
    centred = z - z.mean(axis=0)
    z = centred / np.sqrt((centred**2).mean(axis=0) + 1e-5)
    return np.where(z.real > 0, z, 0) @ g["W2"].T + g["b2"]


def apart(x):
    """Mean absolute difference of every two rows, for complex steps."""
    d = x[:, None] - x[None]
    return np.where(d.real > 0, d, -d).mean(axis=-1)


def objective(toy, g, y, eps, heads, share):
    """Of the generator: the ensemble weighted label by label, and the diversity of what is made."""
    made = generate(g, y, eps)
    right = [toy.log_softmax(toy.logits(w, made))[np.arange(len(y)), y] for w in heads]
    ensemble = -sum(share[k, y] * right[k] for k in range(len(heads))).mean()
    return ensemble + np.exp(-(apart(eps) * apart(made)).mean())


def server_draws(toy, number, share_of):
    key = folded_key(np.array([toy.seed, stream("aggregate"), number], np.uint32))
    for step in jax.random.split(key, STEPS):
        k_y, k_eps = jax.random.split(step)
        y = jax.random.categorical(k_y, np.log(share_of), shape=(DRAWS,))
        yield np.asarray(y), np.asarray(jax.random.uniform(k_eps, (DRAWS, NOISE)))


def test_two_rounds_of_clients_and_generator(build_toy):
    """Without short batches, since the generator normalises by the batch at hand."""
    toy = build_toy(sizes=(12, 9))
    w, vector = toy.random(3, 3), toy.random(sum(np.prod(s) for s in SHAPES.values()))
    labels, strength = np.array([2.0, 1.0, 3.0]), 0.6
    count = np.stack([np.bincount(y, minlength=3) for _, y in toy.clients]).astype(float)
    m = v = 0.0
    done = 0
    start = toy.head(w), {"G": unpack(vector), "labels": labels, "strength": np.array(strength)}
    for found in toy.play("fedgen", *start, before=5, method=TINY):
        number, g, ends = found.state.round, unpack(vector), []
        for k in (0, 1):
            keys = [jax.random.split(key, 3) for key in toy.keys(number, k)]

            def gradient(v, x, y, t, keys=keys, g=g, labels=labels, strength=strength):
                k_label, k_new, k_same = keys[t]
                y_new = np.asarray(jax.random.categorical(k_label, np.log(labels), shape=(3,)))
                new, alike = (
                    generate(g, of, np.asarray(jax.random.uniform(key, (3, NOISE))))
                    for of, key in ((y_new, k_new), (y, k_same))
                )
                teacher = np.exp(toy.log_softmax(toy.logits(v, alike)))  # stands still

                def kl(u):
                    return (teacher * (np.log(teacher) - toy.log_softmax(toy.logits(u, x)))).sum(axis=1).mean()

                extra = A * toy.gradient(v, new, y_new) + B * toy.slope(kl, v)
                return toy.gradient(v, x, y) + strength * extra

            ends.append(toy.descend(w, gradient, number, k))
        w, labels, strength = toy.mean(ends), count.sum(axis=0), 0.98 * strength
        for y, eps in server_draws(toy, number, labels):
            slope = toy.slope(lambda u: objective(toy, unpack(u), y, eps, ends, count / labels), vector)  # noqa: B023
            slope, done = slope + 1e-2 * vector, done + 1  # Adam with torch's decay
            m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
            vector = vector - SERVER_RATE * m / (1 - 0.9**done) / (np.sqrt(v / (1 - 0.999**done)) + 1e-8)
        server = found.state.servers[0]
        toy.same(toy.matrix(found.params[0]), w)
        for name, expected in unpack(vector).items():
            toy.same(server["G"][name], expected)
        toy.same(server["labels"], labels)
        toy.same(server["strength"], strength)


def test_the_generator_has_no_say_in_round_1_and_full_say_in_round_2(build_toy):
    """Then a and b decay by 0.98 a round."""
    toy = build_toy(sizes=(12, 9))
    rounds = toy.play("fedgen", toy.head(toy.random(3, 3)), rounds=3, method=TINY)
    assert [float(r.state.servers[0]["strength"]) for r in rounds] == pytest.approx([1, 0.98, 0.98**2])


def test_the_generator_learns_embeddings_that_the_ensemble_takes_for_their_labels(build_toy):
    toy = build_toy(sizes=(12, 9))
    for (x, y), s in zip(toy.clients, toy.run.sets, strict=True):
        x += 5 * np.array([[1, 0], [0, 1], [-1, -1]])[y]  # separable
        toy.run.table[s.row] = x
    simulation = toy.simulation("fedgen", toy.head(toy.random(3, 3)), rounds=60, method=TINY)
    first = simulation.start()
    *_, last = simulation.rounds(first)
    y, eps = np.repeat(np.arange(3), 100), toy.rng.uniform(size=(300, NOISE))
    w, g = toy.matrix(last.params[0]), last.state.servers[0]["G"]
    before, after = (objective(toy, made, y, eps, [w], np.ones((1, 3))) for made in (first.servers[0]["G"], g))
    assert after < before / 2
    made = generate(g, y, eps)
    assert (toy.logits(w, made).argmax(axis=1) == y).mean() > 0.98
    assert made[y == 0].std(axis=0).max() > 0.05, "of one label it makes many embeddings"


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_spread_is_the_mean_over_pairs_and_has_its_gradient(toy, offset):
    x, d = offset + toy.random(7, 4), apart(toy.random(7, 2))

    def pairs(x):
        return jnp.mean(d * jnp.mean(jnp.abs(x[:, None] - x[None]), axis=-1))

    toy.same(fedgen.spread(jnp.asarray(x), jnp.asarray(d)), pairs(jnp.asarray(x)))
    toy.same(jax.grad(fedgen.spread)(jnp.asarray(x), jnp.asarray(d)), jax.grad(pairs)(jnp.asarray(x)))
