"""FedCLIP against its equations: the loss, two rounds with its own Adam, and where it starts."""

import jax
import numpy as np
import pytest

from ggeur.engine.simulate import Simulation
from ggeur.engine.training import Training
from ggeur.experiments.settings import settings
from ggeur.heads import resolve as resolve_head
from ggeur.heads.adapter import random_adapter
from ggeur.methods import resolve
from ggeur.methods.algorithm import Task
from ggeur.methods.fedclip import contrast, fedclip
from refusal import refused

P = 2
SHAPES = {"W1": (P, P), "b1": (P,), "W2": (P, P), "b2": (P,)}
RATE, DECAY = 0.01, 0.2


def log_sum_exp(z, axis):
    return np.log(np.exp(z).sum(axis=axis))


def explicit(z, y):
    """CLIP's loss of a batch: its pictures against its texts, one text for every picture, and the other way round."""
    square, own = z[:, y], np.arange(len(y))
    samples = log_sum_exp(square, 1) - square[own, own]
    columns = log_sum_exp(square, 0) - square[own, own]
    return (samples.mean() + columns.mean()) / 2


@pytest.mark.parametrize("samples, classes", [(2, 5), (7, 2), (32, 40)])
def test_the_loss_is_the_contrast_of_the_batch(x64, samples, classes):
    rng = np.random.default_rng(classes)
    z, y = 5 * rng.normal(size=(samples + 3, classes)), rng.integers(classes, size=samples + 3)
    mask = np.arange(samples + 3) < samples
    found = float(jax.jit(contrast)(z, y, mask.astype(float)))
    assert found == pytest.approx(explicit(z[:samples], y[:samples]), abs=1e-6)


def parts(w):
    sizes = np.cumsum([np.prod(shape) for shape in SHAPES.values()])[:-1]
    return {name: a.reshape(s) for (name, s), a in zip(SHAPES.items(), np.split(w, sizes), strict=True)}


def logits(w, x, text):
    a = parts(w)
    s = np.tanh(x @ a["W1"].T + a["b1"]) @ a["W2"].T + a["b2"]
    h = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True) * x
    return 100 * (h / np.sqrt((h * h).sum(axis=1, keepdims=True))) @ (text / np.linalg.norm(text, axis=1)[:, None]).T


def cross_entropy(z, y):
    return (log_sum_exp(z, 1) - z[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize("loss, step", [("contrastive", 0.0), ("classes", -RATE)])
def test_a_batch_without_a_gradient_is_passed_over_by_the_contrast_alone(loss, step):
    """Under cross-entropy the weights decay as in torch, whose Adam takes a first step of the rate."""
    w = {"W1": np.ones((P, P), np.float32)}
    adam = fedclip(Task(P, tuple("abc")), loss=loss, learning_rate=RATE, weight_decay=DECAY).optimiser(0.0)
    change, _ = adam.update(jax.tree.map(np.zeros_like, w), adam.init(w), w)
    np.testing.assert_allclose(change["W1"], step, rtol=1e-4)


@pytest.mark.parametrize("loss", ["contrastive", "classes"])
def test_two_rounds(build_toy, loss):
    """Torch's Adam by hand, made anew every round; of ten samples in threes the last is alone, and has no contrast."""
    toy = build_toy(sizes=(10, 9))
    text, w = toy.random(3, P), 0.3 * toy.random(sum(int(np.prod(s)) for s in SHAPES.values()))
    of = explicit if loss == "contrastive" else cross_entropy
    task = Task(P, tuple("abc"), {"fedclip": text})
    given = {"loss": loss, "learning_rate": RATE, "weight_decay": DECAY}
    trained = resolve("fedclip", resolve_head("linear"), given, task=task)
    training = Training(rounds=2, batch_size=3, learning_rate=9.0, local_epochs=1)
    for found in Simulation([toy.run._replace(params=parts(w))], trained, training).rounds():
        ends = []
        for k in (0, 1):
            v, m, s, t = w, 0.0, 0.0, 0
            for x, y in toy.batches(found.state.round, k):
                if len(y) == 1 and loss == "contrastive":
                    continue
                g, t = toy.slope(lambda u, x=x, y=y: of(logits(u, x, text), y), v) + DECAY * v, t + 1
                m, s = 0.9 * m + 0.1 * g, 0.98 * s + 0.02 * g**2
                v = v - RATE * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.98**t)) + 1e-6)
            ends.append(v)
        w = np.mean(ends, axis=0)
        for name, wanted in parts(w).items():
            toy.same(found.params[0][name], wanted, 1e-7)
        toy.same(found.params[0]["text"], text)


def test_before_round_1_it_is_nearly_zero_shot():
    """At CLIP's width, and for samples about as long as its are, the attention is nearly constant."""
    rng, p, classes = np.random.default_rng(0), 512, 20
    text = rng.normal(size=(classes, p)).astype(np.float32)
    y = rng.integers(classes, size=4000)
    x = (text[y] + 10 * rng.normal(size=(len(y), p))).astype(np.float32)
    x *= 10 / np.linalg.norm(x, axis=1, keepdims=True)
    adapter, cosine = resolve_head("adapter"), resolve_head("cosine")
    first = {**random_adapter(jax.random.key(0), p), "text": text}
    found, zero_shot = (
        100 * float((np.asarray(head.logits(params, x)).argmax(axis=1) == y).mean())
        for head, params in ((adapter, first), (cosine, {"text": text}))
    )
    assert abs(found - zero_shot) < 2 and 50 < zero_shot < 95


@pytest.mark.parametrize(
    "more, words",
    [
        ({"train": {"method": "fedclip", "head": "mlp"}}, "settings-head-fixed"),
        ({"train": {"method": "fedclip", "softmax": True}}, "settings-softmax-fixed"),
        ({"train": {"method": "fedclip", "start": "lda"}}, "settings-start-fixed"),
        ({"train": {"method": "fedtpg"}, "augment": {"kind": "expected"}}, "augmentation-head-not-linear"),
        ({"train": {"method": "fedclip"}, "privacy": {"projection": 8}}, "privacy-projection-text"),
    ],
)
def test_what_is_not_for_it_is_one_sentence(more, words):
    with refused(words):
        settings({"data": {"table": "t.npz"}, **more})
