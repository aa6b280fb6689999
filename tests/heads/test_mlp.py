"""The MLP head: torch's initialisation, logits by hand, and a hidden layer that MOON and FedProto can move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ggeur.heads import resolve
from ggeur.methods import resolve as resolve_method
from ggeur.methods.parts import Batch

P, HIDDEN, CLASSES = 3, 5, 4
HEAD = resolve("mlp", hidden=HIDDEN)


def first(p=P, classes=CLASSES, hidden=HIDDEN, seed=0):
    return jax.tree.map(np.asarray, resolve("mlp", hidden=hidden).init(jax.random.key(seed), p, classes))


def by_hand(params, x):
    """Logits and hidden layer, one number at a time."""
    hidden = np.array(
        [[max(sum(w * sample) + b, 0.0) for w, b in zip(params["W1"], params["b1"], strict=True)] for sample in x]
    )
    logits = np.array([[sum(w * h) + b for w, b in zip(params["W2"], params["b2"], strict=True)] for h in hidden])
    return logits, hidden


def test_shapes():
    params = first()
    assert {name: leaf.shape for name, leaf in params.items()} == {
        "W1": (HIDDEN, P),
        "b1": (HIDDEN,),
        "W2": (CLASSES, HIDDEN),
        "b2": (CLASSES,),
    }
    assert all(leaf.dtype == np.float32 for leaf in params.values())
    assert HEAD.shape(params) == (CLASSES, P)


def test_by_default_the_hidden_layer_has_256_units():
    shapes = jax.eval_shape(lambda key: resolve("mlp").init(key, P, CLASSES), jax.random.key(0))
    assert shapes["W1"].shape == (256, P) and shapes["W2"].shape == (CLASSES, 256)


def test_each_layer_is_initialised_like_torch_uniform_within_one_over_root_of_its_inputs():
    params = first(p=64, classes=50, hidden=100)
    for names, inputs in ((("W1", "b1"), 64), (("W2", "b2"), 100)):
        for name in names:
            scaled = params[name].ravel() * np.sqrt(inputs)  # uniform on -1..1: mean 0, variance 1/3
            assert 0.9 < np.abs(scaled).max() <= 1 + 1e-6
            assert abs(scaled.mean()) < 5 * np.sqrt(1 / 3 / scaled.size)
            assert abs(scaled.var() - 1 / 3) < 5 * np.sqrt((1 / 5 - 1 / 9) / scaled.size)
    assert np.isin(params["W1"] * 8, params["W2"] * 10).mean() < 0.01, "the layers' draws have keys of their own"


def test_logits_and_hidden_layer_by_hand():
    rng = np.random.default_rng(0)
    params, x = first(), rng.normal(size=(6, P)).astype(np.float32)
    logits, hidden = by_hand(params, x)
    assert (hidden == 0).any() and (hidden > 0).any()
    np.testing.assert_allclose(HEAD.logits(params, x), logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(HEAD.represent(params, x), hidden, rtol=1e-5, atol=1e-6)


def test_softmax_puts_probabilities_in_the_place_of_logits_and_leaves_the_hidden_layer():
    params, x = first(), np.random.default_rng(0).normal(size=(6, P)).astype(np.float32)
    z, hidden = by_hand(params, x)
    head = resolve("mlp", hidden=HIDDEN, softmax=True)
    np.testing.assert_allclose(head.logits(params, x), np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(head.represent(params, x), hidden, rtol=1e-5, atol=1e-6)


def test_the_same_size_gives_the_same_object_so_that_nothing_is_compiled_twice():
    assert resolve("mlp", hidden=HIDDEN) is HEAD
    assert resolve("mlp", hidden=HIDDEN + 1) is not HEAD


@pytest.mark.parametrize("name", ["moon", "fedproto"])
def test_a_penalty_on_the_representation_reaches_the_hidden_layer_and_stops_there(name):
    rng = np.random.default_rng(1)
    w, other, previous = (first(seed=seed) for seed in (0, 1, 2))
    batch = Batch(jnp.asarray(rng.normal(size=(6, P)), jnp.float32), jnp.arange(6) % CLASSES, jnp.ones(6))
    prototypes = {"P": jnp.asarray(rng.normal(size=(CLASSES, HIDDEN)), jnp.float32), "held": jnp.ones(CLASSES)}
    context = {"params": other, "client": {"previous": previous}, **prototypes}

    def slope(trained):
        return jax.jit(jax.grad(lambda w: trained.method.loss(w, batch, context, (), jax.random.key(0))[0]))(w)

    with_term, plain = slope(resolve_method(name, HEAD, {})), slope(resolve_method("fedavg", HEAD, {}))
    for leaf in ("W1", "b1"):
        assert np.abs(with_term[leaf] - plain[leaf]).max() > 1e-3
    for leaf in ("W2", "b2"):
        np.testing.assert_allclose(with_term[leaf], plain[leaf], atol=1e-7)
