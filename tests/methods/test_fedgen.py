"""FedGen: clients and generator for two rounds against NumPy, and a generator that learns what it should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ggeur.engine.local import folded_key
from ggeur.heads import resolve as resolve_head
from ggeur.methods import fedgen
from ggeur.methods.parts import Batch
from ggeur.stats.seeding import stream

NOISE, HIDDEN, STEPS, DRAWS, SERVER_RATE = 2, 4, 3, 5, 0.05
A, B = 1.5, 0.7
TINY = {
    "a": A,
    "b": B,
    "noise": NOISE,
    "hidden": HIDDEN,
    "server_steps": STEPS,
    "server_batch": DRAWS,
    "server_learning_rate": SERVER_RATE,
}
SHAPES = {"W1": (HIDDEN, NOISE + 3), "W2": (2, HIDDEN), "b2": (2,)}
LINEAR = resolve_head("linear")


def unpack(vector):
    parts = np.split(vector, np.cumsum([np.prod(s) for s in SHAPES.values()])[:-1])
    return {name: part.reshape(shape) for part, (name, shape) in zip(parts, SHAPES.items(), strict=True)}


def hidden(g, y, eps):
    return np.c_[eps, np.eye(g["W1"].shape[1] - eps.shape[1])[y]] @ g["W1"].T


def generate(g, y, eps, running=None):
    """G(y, eps): a hidden layer, normalised by running statistics or else by the batch, and a linear one."""
    z = hidden(g, y, eps)
    m = running["m"] if running else z.mean(axis=0)
    v = running["v"] if running else ((z - m) ** 2).mean(axis=0)
    z = (z - m) / np.sqrt(v + 1e-5)
    return np.where(z.real > 0, z, 0) @ g["W2"].T + g["b2"]


def client_loss(toy, w, x, y, key, sent, held):
    """Of real samples (x, y), with the teacher's head `held`; the engine draws for a whole batch of 3."""
    k_label, k_new, k_same = jax.random.split(key, 3)
    real = slice(len(y))
    y_new = np.asarray(jax.random.categorical(k_label, np.log(sent["labels"]), shape=(3,)))[real]
    new, alike = (
        generate(sent["G"], of, np.asarray(jax.random.uniform(k, (3, NOISE)))[real], sent["running"])
        for of, k in ((y_new, k_new), (y, k_same))
    )
    teacher = toy.log_softmax(toy.logits(held, alike))
    kl = (np.exp(teacher) * (teacher - toy.log_softmax(toy.logits(w, x)))).sum(axis=1).mean()
    generated = toy.cross_entropy(toy.logits(w, new), y_new)
    return toy.cross_entropy(toy.logits(w, x), y) + sent["strength"] * (A * generated + B * kl)


def apart(x):
    """Mean absolute difference of every two samples, for complex steps."""
    d = x[:, None] - x[None]
    return np.where(d.real > 0, d, -d).mean(axis=-1)


def objective(toy, g, y, eps, heads, share):
    """Of the generator: the ensemble weighted label by label, and the diversity of what is made."""
    made = generate(g, y, eps)
    right = [toy.log_softmax(toy.logits(w, made))[np.arange(len(y)), y] for w in heads]
    ensemble = -sum(share[k, y] * right[k] for k in range(len(heads))).mean()
    return ensemble + np.exp(-(apart(eps) * apart(made)).mean())


def server_draws(toy, number, share_of, steps=STEPS):
    key = folded_key(np.array([toy.seed, stream("aggregate"), number], np.uint32))
    for step in jax.random.split(key, steps):
        k_y, k_eps = jax.random.split(step)
        y = jax.random.categorical(k_y, np.log(share_of), shape=(DRAWS,))
        yield np.asarray(y), np.asarray(jax.random.uniform(k_eps, (DRAWS, NOISE)))


def test_two_rounds_of_clients_and_generator(toy):
    """With a short batch, whose filling has no say."""
    w, vector = toy.random(3, 3), toy.random(sum(np.prod(s) for s in SHAPES.values()))
    running = {"m": toy.random(HIDDEN), "v": toy.rng.uniform(0.5, 2, HIDDEN)}
    labels, strength = np.array([2.0, 1.0, 3.0]), 0.6
    count = np.stack([np.bincount(y, minlength=3) for _, y in toy.clients]).astype(float)
    m = v = 0.0
    done = 0
    start = {"G": unpack(vector), "running": running, "labels": labels, "strength": np.array(strength)}
    for found in toy.play("fedgen", toy.head(w), start, before=5, method=TINY):
        number, ends = found.state.round, []
        sent = {"G": unpack(vector), "running": running, "labels": labels, "strength": strength}
        for k in (0, 1):
            keys = toy.keys(number, k)

            def gradient(v, x, y, t, keys=keys, sent=sent):
                return toy.slope(lambda u: client_loss(toy, u, x, y, keys[t], sent, held=v), v)

            ends.append(toy.descend(w, gradient, number, k))
        w, labels, strength = toy.mean(ends), count.sum(axis=0), 0.98 * strength
        for y, eps in server_draws(toy, number, labels):
            z = hidden(unpack(vector), y, eps)
            running = {
                "m": 0.9 * running["m"] + 0.1 * z.mean(axis=0),
                "v": 0.9 * running["v"] + 0.1 * z.var(axis=0, ddof=1),
            }
            slope = toy.slope(lambda u: objective(toy, unpack(u), y, eps, ends, count / labels), vector)  # noqa: B023
            slope, done = slope + 1e-2 * vector, done + 1  # Adam with torch's decay
            m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
            vector = vector - SERVER_RATE * m / (1 - 0.9**done) / (np.sqrt(v / (1 - 0.999**done)) + 1e-8)
        server = found.state.servers[0]
        toy.same(toy.matrix(found.params[0]), w)
        for part, numbers in (("G", unpack(vector)), ("running", running)):
            assert set(server[part]) == set(numbers)
            for name, expected in numbers.items():
                toy.same(server[part][name], expected)
        toy.same(server["labels"], labels)
        toy.same(server["strength"], strength)


# ---------------------------------------------------------------- what clients do with it


@pytest.fixture
def trained(toy):
    """What the server sends after three rounds, as NumPy, and as the loss is given it."""
    *_, last = toy.play("fedgen", toy.head(toy.random(3, 3)), rounds=3, method=TINY)
    sent = fedgen.fedgen(LINEAR, **TINY).broadcast(last.state.servers[0])
    return jax.tree.map(np.asarray, sent), {**sent, "client": ()}


def loss_of(context, w, batch, key, head=LINEAR):
    loss, _ = fedgen.fedgen(head, **TINY).loss(w, batch, context, (), key)
    return float(loss)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_of_a_batch_of_one_class_the_loss_is_that_of_the_running_statistics(toy, trained, label):
    sent, context = trained
    w, x, y, key = toy.random(3, 3), toy.random(3, 2), np.full(3, label), jax.random.key(label)
    found = loss_of(context, toy.head(w), Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(3)), key)
    toy.same(found, client_loss(toy, w, x, y, key, sent, held=w))


def test_a_batch_of_one_class_keeps_its_label(toy, trained):
    """What is made for batches of each class, from the same noise, lies further apart than noise alone moves it."""
    _, context = trained
    seen = []

    def logits(w, x):
        seen.append(np.asarray(x))
        return LINEAR.logits(w, x)

    for label in range(3):
        batch = Batch(jnp.zeros((200, 2)), jnp.full(200, label), jnp.ones(200))
        loss_of(context, toy.head(toy.random(3, 3)), batch, jax.random.key(0), LINEAR._replace(logits=logits))
    made = seen[2::3]  # each loss sees the batch, what is made for labels that are drawn, and for the batch's own
    assert [len(samples) for samples in made] == [200] * 3
    for one, other in ((0, 1), (0, 2), (1, 2)):
        apart_by = np.linalg.norm(made[one].mean(axis=0) - made[other].mean(axis=0))
        assert apart_by > max(made[one].std(), made[other].std()), (one, other)


@pytest.mark.parametrize("real", [1, 2])
def test_rows_that_fill_up_a_short_batch_have_no_say(toy, trained, real):
    sent, context = trained
    w, key = toy.random(3, 3), jax.random.key(5)
    x, y = toy.random(real, 2), np.arange(real)
    expected = client_loss(toy, w, x, y, key, sent, held=w)
    for filling in (0, 1, 2):
        whole_x = np.concatenate([x, 100.0 * toy.random(3 - real, 2)])
        batch = Batch(
            jnp.asarray(whole_x),
            jnp.asarray(np.append(y, np.full(3 - real, filling))),
            jnp.asarray([1.0] * real + [0.0] * (3 - real)),
        )
        toy.same(loss_of(context, toy.head(w), batch, key), expected)


# ---------------------------------------------------------------- the server's statistics


def test_running_statistics_move_a_tenth_of_the_way_to_those_of_a_batch(toy):
    """By hand: means 2 and 4; variances 1 and 4, estimated without bias 2 and 8."""
    running = fedgen.updated({"m": jnp.zeros(2), "v": jnp.ones(2)}, jnp.array([[1.0, 2.0], [3.0, 6.0]]))
    toy.same(running["m"], [0.2, 0.4])
    toy.same(running["v"], [1.1, 1.7])


def test_after_one_step_of_the_server_they_are_those_of_its_first_batch(toy):
    first = toy.simulation("fedgen", toy.head(toy.random(3, 3)), method={**TINY, "server_steps": 1})
    g = jax.tree.map(np.asarray, first.start().servers[0]["G"])
    found = next(first.rounds()).state.servers[0]["running"]
    labels = np.bincount(np.concatenate([y for _, y in toy.clients]), minlength=3).astype(float)
    ((y, eps),) = server_draws(toy, 1, labels, steps=1)
    z = np.c_[eps, np.eye(3)[y]] @ g["W1"].T
    toy.same(found["m"], 0.1 * z.sum(axis=0) / DRAWS)
    toy.same(found["v"], 0.9 + 0.1 * ((z - z.mean(axis=0)) ** 2).sum(axis=0) / (DRAWS - 1))


def test_the_generator_has_no_say_in_round_1_and_full_say_in_round_2(build_toy):
    """Then a and b decay by 0.98 a round."""
    toy = build_toy(sizes=(12, 9))
    rounds = toy.play("fedgen", toy.head(toy.random(3, 3)), rounds=3, method=TINY)
    assert [float(r.state.servers[0]["strength"]) for r in rounds] == pytest.approx([1, 0.98, 0.98**2])


def test_the_generator_learns_embeddings_that_the_ensemble_takes_for_their_labels(build_toy):
    toy = build_toy(sizes=(12, 9))
    for (x, y), s in zip(toy.clients, toy.run.sets, strict=True):
        x += 5 * np.array([[1, 0], [0, 1], [-1, -1]])[y]  # separable
        toy.run.table[s.sample] = x
    simulation = toy.simulation("fedgen", toy.head(toy.random(3, 3)), rounds=60, method=TINY)
    first = simulation.start()
    *_, last = simulation.rounds(first)
    y, eps = np.repeat(np.arange(3), 100), toy.rng.uniform(size=(300, NOISE))
    server = last.state.servers[0]
    w, g = toy.matrix(last.params[0]), server["G"]
    before, after = (objective(toy, made, y, eps, [w], np.ones((1, 3))) for made in (first.servers[0]["G"], g))
    assert after < before / 2
    made = generate(g, y, eps, server["running"])
    assert (toy.logits(w, made).argmax(axis=1) == y).mean() > 0.98
    assert made[y == 0].std(axis=0).max() > 0.05, "of one label it makes many embeddings"


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_spread_is_the_mean_over_pairs_and_has_its_gradient(toy, offset):
    x, d = offset + toy.random(7, 4), apart(toy.random(7, 2))

    def pairs(x):
        return jnp.mean(d * jnp.mean(jnp.abs(x[:, None] - x[None]), axis=-1))

    toy.same(fedgen.spread(jnp.asarray(x), jnp.asarray(d)), pairs(jnp.asarray(x)))
    toy.same(jax.grad(fedgen.spread)(jnp.asarray(x), jnp.asarray(d)), jax.grad(pairs)(jnp.asarray(x)))
