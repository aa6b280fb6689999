"""The linear head: torch's initialisation, plain logits, and the released scripts' softmax in their place."""

import jax
import numpy as np

from ggeur.heads import HEADS, resolve
from refusal import refused


def first(seed=0, p=64, classes=50):
    return jax.tree.map(np.asarray, resolve("linear").init(jax.random.key(seed), p, classes))


def test_initialised_like_torch_uniform_within_one_over_root_p():
    params = first()
    assert params["W"].shape == (50, 64) and params["b"].shape == (50,)
    for leaf in params.values():
        assert leaf.dtype == np.float32
        assert np.abs(leaf).max() <= 1 / 8
    w = params["W"].ravel() * 8  # uniform on -1..1: mean 0, variance 1/3
    assert abs(w.mean()) < 5 * np.sqrt(1 / 3 / w.size)
    assert abs(w.var() - 1 / 3) < 5 * np.sqrt((1 / 5 - 1 / 9) / w.size)
    assert np.abs(params["b"]).max() > 0.9 / 8, "the bias is drawn as well"


def test_the_first_head_is_its_keys_alone():
    np.testing.assert_array_equal(first(3)["W"], first(3)["W"])
    assert not np.isin(first(3)["W"], first(4)["W"]).any()


def test_logits_are_wx_plus_b():
    rng = np.random.default_rng(0)
    w, b, x = (rng.normal(size=shape).astype(np.float32) for shape in ((3, 4), 3, (5, 4)))
    expected = np.array([[sum(w[c] * sample) + b[c] for c in range(3)] for sample in x])
    np.testing.assert_allclose(resolve("linear").logits({"W": w, "b": b}, x), expected, rtol=1e-5, atol=1e-6)


def test_softmax_puts_probabilities_in_the_place_of_logits():
    rng = np.random.default_rng(0)
    params, x = {"W": rng.normal(size=(3, 4)), "b": rng.normal(size=3)}, rng.normal(size=(5, 4))
    z = np.exp(x @ params["W"].T + params["b"])
    found = resolve("linear", softmax=True).logits(params, x)
    np.testing.assert_allclose(found, z / z.sum(axis=1, keepdims=True), rtol=1e-5)


def test_represents_by_its_logits_since_it_has_no_hidden_layer():
    params, x = first(p=4, classes=3), np.ones((2, 4), np.float32)
    head = resolve("linear")
    np.testing.assert_array_equal(head.represent(params, x), head.logits(params, x))


def test_the_same_name_gives_the_same_object_so_that_nothing_is_compiled_twice():
    assert resolve("linear") is resolve("linear")
    assert resolve("linear") is not resolve("linear", softmax=True)


def test_an_unknown_head_is_told_which_there_are():
    with refused("component-unknown: head...conv...linear") as caught:
        resolve("conv")
    assert all(name in str(caught.value) for name in HEADS)
