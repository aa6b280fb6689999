"""The simulation against a slow reference: plain loops over clients and steps, in float64, written from the design."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ggeur.engine import client_groups
from ggeur.engine.client_groups import Chunks
from ggeur.engine.simulate import Simulation
from ggeur.engine.training import LocalOptimiser, Training
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve as resolve_method
from ggeur.methods.algorithm import Iterative
from ggeur.methods.method import Method
from ggeur.stats.geometry import LowRank
from ggeur.stats.seeding import batch_order
from refusal import refused

BATCH = 8
TWO = (20, 0, 27)  # both compile to one program
OPTIMISER = LocalOptimiser(momentum=0.8, weight_decay=0.05)
FEDAVG = resolve_method("fedavg", resolve_head("linear"), {})
FEDAVG_SOFTMAX = resolve_method("fedavg", resolve_head("linear", softmax=True), {})


def training(**changes):
    values = {"rounds": 3, "batch_size": BATCH, "learning_rate": 0.1, "local_epochs": 2, "optimiser": OPTIMISER}
    return Training(**(values | changes))


def simulated(runs, train, method=FEDAVG):
    """Every round of a stack of runs."""
    return list(Simulation(runs, method, train).rounds())


def assert_same_head(found, expected, relative=1e-5):
    for name in ("W", "b"):
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=relative * scale, err_msg=name)


# ---------------------------------------------------------------- the reference


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def gradient(head, x, y, double_softmax):
    """Of the mean cross-entropy over the samples of a batch, and that mean."""
    z = x @ head["W"].T + head["b"]
    logits = softmax(z) if double_softmax else z
    p = softmax(logits)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    d = (p - np.eye(len(head["b"]))[y]) / len(y)
    if double_softmax:
        d = logits * (d - (logits * d).sum(axis=1, keepdims=True))
    return {"W": d.T @ x, "b": d.sum(axis=0)}, loss


def reference(run, train, *, double_softmax=False, participants=None):
    """The global head after every round, the mean loss of each, and the clients' own heads."""
    samples = np.concatenate([run.table, run.prototypes]).astype(np.float64)
    sets = [(samples[s.sample], s.y) for s in run.sets]
    if run.bank is not None:
        sets = [
            (x + np.sign(s.noise)[:, None] * run.bank[abs(s.noise)], s.y)
            for s, (x, _) in zip(run.sets, sets, strict=True)
        ]
    adam, momentum, decay = train.optimiser.name == "adam", train.optimiser.momentum, train.optimiser.weight_decay
    world = {k: v.astype(np.float64) for k, v in run.params.items()}
    own = (
        None
        if train.broadcast
        else [{k: v[i].astype(np.float64) for k, v in run.client_params.items()} for i in range(len(sets))]
    )
    heads, losses = [], []
    for number in range(1, train.rounds + 1):
        who = [k for k, (_, y) in enumerate(sets) if len(y)] if participants is None else participants[number - 1]
        ends, means = [], []
        for k in who:
            x, y = sets[k]
            head = dict(world if own is None else own[k])
            first, second = ({k: np.zeros_like(v) for k, v in head.items()} for _ in range(2))
            steps = train.local_steps or train.local_epochs * -(-len(y) // BATCH)
            order = batch_order(run.seed, number, k, len(y), steps, BATCH).reshape(steps, BATCH)
            total = 0.0
            for t, at in enumerate(order, 1):
                at = at[at >= 0]
                g, loss = gradient(head, x[at], y[at], double_softmax)
                total += loss
                for name in ("W", "b"):
                    g[name] = g[name] + decay * head[name]
                    if adam:
                        first[name] = 0.9 * first[name] + 0.1 * g[name]
                        second[name] = 0.999 * second[name] + 0.001 * g[name] ** 2
                        root = np.sqrt(second[name] / (1 - 0.999**t)) + 1e-8
                        head[name] = head[name] - train.learning_rate * first[name] / (1 - 0.9**t) / root
                    else:
                        first[name] = momentum * first[name] + g[name]
                        head[name] = head[name] - train.learning_rate * first[name]
            ends.append(head)
            means.append(total / steps)
            if own is not None:
                own[k] = head
        share = np.array([run.weights[k] for k in who])
        share = share / share.sum()
        world = {name: sum(w * end[name] for w, end in zip(share, ends, strict=True)) for name in world}
        heads.append(world)
        losses.append(float(np.sum(share * means)))
    return heads, losses, own


# ---------------------------------------------------------------- FedAvg, end to end


def assert_as_reference(run, train, method=FEDAVG, relative=1e-5, **options):
    rounds = simulated([run], train, method)
    heads, losses, own = reference(run, train, **options)
    assert [r.state.round for r in rounds] == list(range(1, train.rounds + 1))
    for found, head, loss in zip(rounds, heads, losses, strict=True):
        assert_same_head(found.params[0], head, relative)
        assert found.loss[0] == pytest.approx(loss, rel=relative)
    moved = np.abs(heads[-1]["W"] - run.params["W"]).max()
    assert moved > 0.05, "the test is too weak"
    return rounds, own


def test_fedavg_with_ragged_clients_is_the_reference(federation):
    rounds, _ = assert_as_reference(federation(), training())
    for r in rounds:
        np.testing.assert_array_equal(r.participants[0], [0, 1, 3, 4, 5])  # client 2 has no samples and sits out


def test_virtual_sets_train_as_the_sets_they_stand_for(federation):
    assert_as_reference(federation(noise=True), training())


def test_float16_storage_is_training_on_the_rounded_rows_in_float32(federation):
    run = federation(noise=True)
    rounded = run._replace(**{n: getattr(run, n).astype(np.float16) for n in ("table", "prototypes", "bank")})
    found = simulated([run], training(storage="float16"))
    expected, losses, _ = reference(rounded._replace(bank=rounded.bank.astype(np.float64)), training())
    for r, head, loss in zip(found, expected, losses, strict=True):
        assert_same_head(r.params[0], head)
        assert r.loss[0] == pytest.approx(loss, rel=1e-5)
    exact = simulated([run], training())[-1].params[0]["W"]
    assert 1e-6 < np.abs(found[-1].params[0]["W"] - exact).max() < 1e-2  # what storage costs, on values of about 1


def test_float16_storage_refuses_what_it_cannot_hold(federation):
    run = federation()
    with refused("embeddings-storage-overflow"):
        Simulation([run._replace(table=run.table * 1e5)], FEDAVG, training(storage="float16"))


def test_without_momentum_and_decay(federation):
    assert_as_reference(federation(sizes=TWO), training(optimiser=LocalOptimiser(momentum=0.0, weight_decay=0.0)))


def test_by_default_momentum_and_decay_are_the_papers():
    assert Training(rounds=1, batch_size=1, learning_rate=1.0).optimiser == ("sgd", 0.9, 1e-5)


def test_local_steps_replace_epochs(federation):
    assert_as_reference(federation(), training(local_steps=5))


@pytest.mark.parametrize("weights", [(1, 1, 1, 1, 1, 1), (3, 1, 0, 2, 0.5, 7)], ids=["equal", "given"])
def test_the_mean_is_weighted_as_the_run_says(federation, weights):
    assert_as_reference(federation(weights=weights), training())


def test_adam_with_decay_added_to_the_gradient(federation):
    train = training(optimiser=LocalOptimiser("adam", weight_decay=0.05), learning_rate=0.02)
    assert_as_reference(federation(sizes=TWO), train, relative=1e-4)  # in float32, 1 - 0.999^t is good to 6e-5


def test_softmax_before_cross_entropy(federation):
    assert_as_reference(federation(sizes=TWO), training(learning_rate=1.0), FEDAVG_SOFTMAX, double_softmax=True)


def test_without_broadcast_clients_train_on_from_their_own_heads(federation):
    run = federation(own=True, sizes=TWO)
    rounds, own = assert_as_reference(run, training(broadcast=False))
    assert rounds[-1].bytes_down == [0]
    for k, head in enumerate(own):
        assert_same_head({name: leaf[k] for name, leaf in rounds[-1].state.heads.items()}, head)
    np.testing.assert_array_equal(rounds[-1].state.heads["W"][1], run.client_params["W"][1])  # the empty client's


def test_clients_per_round_trains_that_many_and_another_choice_each_round(federation):
    train = training(clients_per_round=2, rounds=6, local_steps=4)
    rounds = simulated([federation()], train)
    chosen = [r.participants[0].tolist() for r in rounds]
    assert all(len(set(ids)) == 2 and 2 not in ids for ids in chosen)
    assert len({tuple(ids) for ids in chosen}) > 1
    heads, _, _ = reference(federation(), train, participants=chosen)
    assert_same_head(rounds[-1].params[0], heads[-1])
    assert chosen == [r.participants[0].tolist() for r in simulated([federation()], train)]


def test_filling_up_a_group_changes_nothing(federation, monkeypatch):
    train = training(clients_per_round=2, rounds=2, local_steps=4)
    expected = simulated([federation(sizes=TWO, weights=(1, 0, 2))], train)[-1]
    monkeypatch.setattr(client_groups, "few_sizes", lambda n: n + 2)
    found = simulated([federation(sizes=TWO, weights=(1, 0, 2))], train)[-1]
    assert_same_head(found.params[0], expected.params[0])
    assert found.loss == pytest.approx(expected.loss)


def test_clients_per_round_beyond_all_is_all(federation):
    rounds = simulated([federation()], training(clients_per_round=50, rounds=1))
    np.testing.assert_array_equal(rounds[0].participants[0], [0, 1, 3, 4, 5])


def test_bytes_are_those_of_one_head(federation):
    r = simulated([federation()], training(rounds=1))[0]
    assert r.bytes_up == r.bytes_down == [4 * (3 * 4 + 3)]
    some = simulated([federation()], training(rounds=1, clients_per_round=2))[0]
    assert some.bytes_up == [int(4 * (3 * 4 + 3) * 2 / 5)]  # two of the five that have samples


# ---------------------------------------------------------------- the same numbers again


def final(runs, train=None, **changes):
    return simulated(runs, train or training(**changes))[-1].params


def assert_identical(a, b):
    for name in ("W", "b"):
        np.testing.assert_array_equal(a[name], b[name])


def test_bit_for_bit_the_same_on_repetition(federation):
    runs = [federation(seed, noise=True) for seed in (0, 1)]
    for a, b in zip(final(runs), final(runs), strict=True):
        assert_identical(a, b)


def test_bit_for_bit_the_same_when_resumed_from_the_state_between_rounds(federation):
    run = federation(own=True, sizes=TWO)
    whole = simulated([run], training(broadcast=False))
    resumed = list(Simulation([run], FEDAVG, training(broadcast=False)).rounds(whole[0].state))
    assert [r.state.round for r in resumed] == [2, 3]
    assert_identical(resumed[-1].params[0], whole[-1].params[0])


def test_a_run_alone_is_the_run_in_a_stack(federation):
    runs = [federation(seed, noise=True) for seed in (0, 7)]
    stacked = final(runs)
    for together, run in zip(stacked, runs, strict=True):
        assert_same_head(together, final([run])[0])
    assert not np.allclose(stacked[0]["W"], stacked[1]["W"], atol=1e-3), "the test is too weak"


def test_other_bucketings_and_orders_of_clients_agree(federation, monkeypatch):
    run = federation(noise=True)
    expected = final([run])[0]
    with monkeypatch.context() as patch:
        patch.setattr(client_groups, "THREADS", 1)
        assert_same_head(final([run])[0], expected)
    with monkeypatch.context() as patch:
        patch.setattr(client_groups, "_ORDER_BYTES", 1)
        patch.setattr(client_groups, "_BATCH_BYTES", 1)
        assert_same_head(final([run])[0], expected)
    usual = Chunks.of
    with monkeypatch.context() as patch:
        patch.setattr(Chunks, "of", lambda *arguments: [c[::-1] for c in usual(*arguments)][::-1])
        assert_same_head(final([run])[0], expected)


# ---------------------------------------------------------------- runs that differ in numbers


def test_runs_of_other_rates_momenta_and_decays_share_a_stack(federation):
    run = federation(noise=True)
    trainings = [
        training(),
        training(learning_rate=0.03),
        training(optimiser=LocalOptimiser(momentum=0.3, weight_decay=0.05)),
        training(optimiser=LocalOptimiser(momentum=0.8, weight_decay=0.5)),
    ]
    stacked = list(Simulation([run] * 4, FEDAVG, trainings).rounds())[-1].params
    for found, train in zip(stacked, trainings, strict=True):
        expected, _, _ = reference(run, train)
        assert_same_head(found, expected[-1])
    for other in stacked[1:]:
        assert not np.allclose(stacked[0]["W"], other["W"], atol=1e-2), "the test is too weak"


def test_other_numbers_compile_nothing(federation, compiled):
    run, batch = federation(sizes=TWO), 5  # of no other test
    final([run], batch_size=batch, learning_rate=0.1)
    assert compiled, "or nothing is counted here"
    compiled.clear()
    final([run], batch_size=batch, learning_rate=0.2, optimiser=LocalOptimiser(momentum=0.5, weight_decay=0.0))
    assert not compiled
    final([run], batch_size=batch, optimiser=LocalOptimiser(momentum=0.0))  # no trace of gradients: another program
    assert compiled


@pytest.fixture
def compiled():
    """What JAX says as it compiles, so far."""
    said = []

    def listen(event, seconds, **more):
        if event.endswith("backend_compile_duration"):
            said.append((event, more))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield said
    jax.monitoring.unregister_event_duration_listener(listen)


def test_a_stack_refuses_runs_that_train_unalike(federation):
    run = federation()
    for other in (training(rounds=4), training(optimiser=LocalOptimiser("adam")), training(local_steps=3)):
        with refused("stack-training-differs"):
            Simulation([run, run], FEDAVG, [training(), other])
    with refused("stack-training-differs"):
        Simulation([run, run], [FEDAVG, resolve_method("fedprox", resolve_head("linear"), {})], training())


# ---------------------------------------------------------------- who cannot take part


def test_a_federation_without_samples_is_an_error(federation):
    with refused("training-samples-missing"):
        Simulation([federation(sizes=(0, 0))], FEDAVG, training())


def test_a_stack_refuses_runs_that_do_not_belong_together(federation):
    run = federation()
    with refused("stack-clients-differ"):
        Simulation([run, federation(1, sizes=(5, 5))], FEDAVG, training())
    with refused("stack-augmentation-differs"):
        shapes = LowRank(np.ones((1, 2, run.table.shape[1]), np.float32), np.zeros(1, np.float32))
        Simulation([run, run._replace(shapes=shapes)], FEDAVG, training())
    with refused("stack-tables-differ"):
        Simulation([run, run._replace(table=run.table.copy())], FEDAVG, training())


def test_a_client_without_samples_takes_no_steps():
    assert training().steps(0) == training(local_steps=5).steps(0) == 0
    assert training().steps(17) == 2 * 3


# ---------------------------------------------------------------- what a method may count on

COUNTING_METHOD = Method(
    loss=FEDAVG.method.loss,
    prepare=lambda data, key: {
        "x": data.fold(lambda total, b: total + jnp.sum(b.x * b.mask[:, None], axis=0), jnp.zeros(4)),
        "classes": data.class_count,
    },
    init=lambda params, prepared, n_clients: ({"params": params, "prepared": prepared}, jnp.zeros((), jnp.int32)),
    broadcast=lambda server: {"params": server["params"]},
    prepared_adds={"x": "every", "classes": "sum"},
    upload=lambda work: ({"params": work.end, "steps": work.steps}, work.context["client"] + 1),
    adds={"params": "weighted", "steps": "every"},
)
COUNTING = Iterative.of(COUNTING_METHOD)


def test_what_clients_prepare_reaches_the_server_summed_or_in_their_order_with_zeros_from_the_empty_one(federation):
    run = federation(noise=True)
    prepared = Simulation([run], COUNTING, training()).start().servers[0]["prepared"]
    base = np.concatenate([run.table, run.prototypes])
    for k, s in enumerate(run.sets):
        np.testing.assert_allclose(prepared["x"][k], s.materialise(base, run.bank).sum(axis=0), rtol=1e-4, atol=1e-4)
    labels = np.concatenate([s.y for s in run.sets])
    np.testing.assert_array_equal(prepared["classes"], np.bincount(labels, minlength=3))


def test_absent_clients_keep_their_state(federation):
    rounds = simulated([federation()], training(clients_per_round=2, rounds=4, local_steps=4), COUNTING)
    times = np.bincount(np.concatenate([r.participants[0] for r in rounds]), minlength=6)
    np.testing.assert_array_equal(rounds[-1].state.clients, times)
