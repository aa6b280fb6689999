"""Messages add up part by part as their method says, and a method that does not say it is told so in one sentence."""

import jax.numpy as jnp
import numpy as np
import pytest

from ggeur.engine import single_client
from ggeur.engine.aggregation import add_prepared
from ggeur.engine.simulate import Simulation
from ggeur.engine.training import Training
from ggeur.heads import resolve as resolve_head
from ggeur.methods.algorithm import Iterative
from ggeur.methods.method import Method, cross_entropy_loss
from ggeur.stats.errors import GgeurError
from refusal import Sentence, refused

FEDAVG = Method(loss=cross_entropy_loss(resolve_head("linear")))
COVARIANCES = ("weighted", "equal", "sum", "every")


def rounds(run, method, **train):
    return list(
        Simulation([run], Iterative.of(method), Training(rounds=2, batch_size=8, learning_rate=0.1, **train)).rounds()
    )


def told(run, method):
    with pytest.raises(GgeurError) as caught:
        rounds(run, method)
    text = Sentence.of(caught.value)
    assert text.startswith("The m") and text.endswith(".") and "\n" not in text
    return text


def test_each_kind_of_sum(federation):
    """Of the clients' local steps, which differ; what they sent is seen in the server's state."""
    run = federation()
    method = FEDAVG._replace(
        upload=lambda work: ({"params": work.end, **{kind: {"n": work.steps * 1.0} for kind in COVARIANCES}}, ()),
        adds={"params": "weighted", **{kind: kind for kind in COVARIANCES}},
        init=lambda params, prepared, n_clients: ({"params": params}, ()),
        broadcast=lambda server: {"params": server["params"]},
        aggregate=lambda server, total, facts: {"facts": facts._replace(key=()), **total},
    )
    for found in rounds(run, method, local_epochs=2, clients_per_round=3):
        server, ids = found.state.servers[0], found.participants[0]
        steps = np.array([2 * -(-len(run.sets[k].y) // 8) for k in ids], float)
        weights = run.weights[ids] / run.weights[ids].sum()
        expected = {"weighted": weights @ steps, "equal": steps.mean(), "sum": steps.sum(), "every": steps}
        for kind in COVARIANCES:
            np.testing.assert_allclose(server[kind]["n"], expected[kind], rtol=1e-6)
        assert len(set(steps)) > 1, "the test is too weak"
        facts = server["facts"]
        assert facts.participants == 3 and np.asarray(facts.ids).tolist() == ids.tolist()
        np.testing.assert_allclose(facts.weights, weights, rtol=1e-6)


def test_what_is_prepared_is_summed_or_stacked():
    messages = {"a": np.arange(6.0).reshape(3, 2), "b": {"c": np.arange(3)}}
    method = FEDAVG._replace(prepare=lambda data, key: {}, prepared_adds={"a": "sum", "b": "every"})
    total = add_prepared(method, messages)
    np.testing.assert_array_equal(total["a"], [6, 9])
    np.testing.assert_array_equal(total["b"]["c"], [0, 1, 2])
    assert add_prepared(FEDAVG, ()) == {}, "a method that prepares nothing"


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (
            {"upload": lambda work: ({"params": work.end, "more": work.steps}, ())},
            "method-declaration-mismatch: upload...'params', 'more'",
        ),
        ({"adds": {"params": "weighted", "more": "sum"}}, "method-declaration-mismatch: adds...'params', 'more'"),
        (
            {"adds": {"params": "mean"}},
            "method-declaration-unknown: adds...mean...params...weighted, equal, sum, every",
        ),
        ({"upload": lambda work: (work.steps, ())}, "method-message-type: upload"),
        (
            {"prepare": lambda data, key: {"n": data.n}},
            "method-declaration-mismatch: prepare...'n'...prepared_adds...nothing",
        ),
        (
            {"prepare": lambda data, key: {"n": data.n}, "prepared_adds": {"n": "equal"}},
            "method-declaration-unknown: prepared_adds...sum, every",
        ),
        ({"prepare": lambda data, key: data.n}, "method-message-type: prepare"),
    ],
)
def test_a_part_without_a_word_on_how_it_adds_up(federation, parts, says):
    assert told(federation(sizes=(5, 6)), FEDAVG._replace(**parts)).says(says)


def test_a_server_of_real_machines_hears_of_it_before_the_first_round():
    method = FEDAVG._replace(adds={"weights": "weighted"})
    head = {"W": jnp.zeros((3, 4)), "b": jnp.zeros(3)}
    with refused("method-declaration-mismatch: adds...weights"):
        single_client.message_like(Iterative.of(method), Training(1, 8, 0.1), 4, 3, {"params": head}, head, ())
