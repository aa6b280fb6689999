"""Heads by name: their parameters, the same object for the same arguments, and one's own."""

import datetime
import sys
from textwrap import dedent

import jax
import numpy as np
import pytest

from ggeur.heads import HEADS, arguments, described, factory, resolve
from ggeur.stats.errors import GgeurError
from ggeur.stats.hyperparameters import declared_parameters
from refusal import Sentence

OWN = """
    import jax.numpy as jnp

    from ggeur.heads.head import Head

    def scaled(*, factor: float = 2.0, widths: list[int] = [3], **rest) -> Head:
        def logits(params, x):
            return factor * x @ params["W"]

        return Head(lambda key, p, classes: {"W": jnp.ones((p, classes))}, logits, logits, lambda w: w["W"].T.shape)

    def sharp(*, softmax: bool) -> Head:
        return scaled(factor=1.0 if softmax else 3.0)

    def broken(*, factor: float = 1.0) -> Head:
        raise ValueError("no such factor")

    def failing() -> Head:
        return scaled()._replace(init=lambda *given: 1 / 0, logits=lambda w, x: x if x.sum() > 0 else -x)

    def nothing():
        return 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The module own_heads in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_heads.py").write_text(dedent(OWN))
    yield
    sys.modules.pop("own_heads", None)


def told(call, *arguments, **keywords):
    """The one sentence of the error."""
    with pytest.raises(GgeurError) as caught:
        call(*arguments, **keywords)
    text = Sentence.of(caught.value)
    assert text.endswith(".") and "\n" not in text
    return text


@pytest.mark.parametrize("name", HEADS)
def test_every_parameter_has_a_type_and_a_default(name):
    for parameter in declared_parameters(factory(name)).values():
        assert parameter.annotation is not parameter.empty and parameter.default is not parameter.empty


def test_parameters_are_checked_as_a_methods_are():
    assert arguments("mlp", {"hidden": 64}) == {"hidden": 64, "softmax": False}
    assert told(arguments, "mlp", {"width": 3}).says("hyperparameter-unknown: head.mlp...width...hidden")
    assert told(arguments, "linear", {"hidden": 3}).says("hyperparameter-unknown: none")
    assert told(arguments, "mlp", {"softmax": True}).says("hyperparameter-unknown: softmax"), "it is a key of [train]"
    for wrong in (0, 2.5, "wide", 10**9):
        assert told(arguments, "mlp", {"hidden": wrong}).says(f"hyperparameter-invalid: [head.mlp] hidden = {wrong!r}")


def test_a_default_that_is_given_changes_nothing():
    assert resolve("mlp") is resolve("mlp", hidden=256) is resolve("mlp", softmax=False)
    assert resolve("mlp") is not resolve("mlp", softmax=True)


def test_ones_own_head_takes_parameters_and_is_built_once(own):
    name = "own_heads:scaled"
    head = resolve(name, factor=2, widths=[1, 2])
    assert head is resolve(name, widths=[1, 2]) and head is not resolve(name, widths=[2, 1])
    params, x = head.init(jax.random.key(0), 4, 3), np.ones((5, 4), np.float32)
    np.testing.assert_array_equal(head.logits(params, x), np.full((5, 3), 8.0))
    assert head.shape(params) == (3, 4)
    assert told(resolve, name, factor="x").says("hyperparameter-invalid: [head.own_heads:scaled] factor = 'x'")
    assert told(resolve, name, colour=1).says("hyperparameter-unknown: factor, widths")


def test_softmax_reaches_ones_own_head_where_it_is_asked_for(own):
    params, x = {"W": np.ones((4, 3), np.float32)}, np.ones((1, 4), np.float32)
    given = [float(resolve("own_heads:sharp", softmax=s).logits(params, x)[0, 0]) for s in (True, False)]
    assert given == [4.0, 12.0]
    assert told(resolve, "own_heads:scaled", softmax=True).says("head-softmax-unsupported")


def test_what_is_wrong_with_ones_own_head_is_a_sentence_that_names_it(own):
    for name in ("nowhere:head", "own_heads:missing", "own_heads:OWN", ":head"):
        assert told(factory, name).says(f"custom-load-failed: head '{name}'")
    assert told(resolve, "own_heads:broken").says("custom-code-failed: own_heads:broken...ValueError: no such factor")
    assert told(resolve, "own_heads:nothing").says("custom-head-type: own_heads:nothing")
    failing = resolve("own_heads:failing")
    assert told(failing.init, None, 1, 1).says("custom-code-failed: head...own_heads:failing...ZeroDivisionError")
    assert told(jax.jit(failing.logits), {}, np.ones(2)).says("custom-code-failed: TracerBoolConversionError")


def test_a_saved_model_says_what_was_given_and_plain_defaults(own):
    assert described("mlp", {}) == {"hidden": 256} and described("linear", {}) == {}
    when = datetime.date(2026, 1, 2)
    assert described("own_heads:scaled", {"widths": [1], "when": when}) == {"factor": 2.0, "widths": [1], "when": when}
