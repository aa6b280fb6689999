"""FedMix: the means that clients send, and two rounds with them against NumPy."""

from itertools import combinations

import jax
import numpy as np

from ggeur.methods import checked_parameters
from refusal import refused

LAM = 0.3


def test_two_rounds_with_the_means_that_are_drawn(toy):
    w, x_g, y_g, held = toy.random(3, 3), toy.random(4, 2), toy.rng.dirichlet(np.ones(3), 4), np.array([1.0, 0, 1, 1])
    drawn = set()
    start = toy.head(w), {"means": {"x": x_g, "y": y_g, "held": held}}
    for found in toy.play("fedmix", *start, before=5, method={"lam": LAM}):
        ends = []
        for k in (0, 1):
            keys = toy.keys(found.state.round, k)
            chosen = [int(jax.random.categorical(key, np.log(np.maximum(held, 1e-300)))) for key in keys]
            drawn |= set(chosen)

            def gradient(v, x, y, t, chosen=chosen):
                xg, yg, onehot = x_g[chosen[t]], y_g[chosen[t]], np.eye(3)[y]
                u = (1 - LAM) * x

                def loss(v):
                    log_p = toy.log_softmax(toy.logits(v, u))
                    slope = (np.exp(log_p) - onehot) @ v[:, :2]  # of CE in u: W'(p - y)
                    each = -(1 - LAM) * (onehot * log_p).sum(axis=1) - LAM * log_p @ yg + LAM * slope @ xg
                    return each.mean()

                return toy.slope(loss, v)

            ends.append(toy.descend(w, gradient, found.state.round, k))
        w = toy.mean(ends)
        toy.same(toy.matrix(found.params[0]), w)
    assert drawn == {0, 2, 3}, "the test is too weak"


def subset(x, target, size):
    """Which `size` samples have this mean."""
    hits = [s for s in combinations(range(len(x)), size) if np.allclose(x[list(s)].mean(axis=0), target, atol=1e-9)]
    (only,) = hits
    return only


def sent_means(toy, **method):
    return toy.simulation("fedmix", toy.head(toy.random(3, 3)), method=method).start().servers[0]["means"]


def test_each_client_sends_means_of_m_rows_no_row_in_two_of_them(toy):
    means = sent_means(toy, groups=4)
    assert np.shape(means["x"]) == (8, 2)
    np.testing.assert_array_equal(means["held"], [1, 1, 0, 0, 1, 0, 0, 0])  # 5 + 5 of 11 samples, and 5 of 9
    for k, n_groups in ((0, 2), (1, 1)):
        x, y = toy.clients[k]
        groups = [subset(x, means["x"][4 * k + j], 5) for j in range(n_groups)]
        members = [sample for group in groups for sample in group]
        assert len(set(members)) == 5 * n_groups
        assert members != list(range(5 * n_groups)), "the samples are not shuffled"
        for j, group in enumerate(groups):
            toy.same(means["y"][4 * k + j], np.eye(3)[y[list(group)]].mean(axis=0))


SIZES = (3, 4, 5, 2, 1, 6, 7)  # M, M + 1, 2M - 1, fewer than M, one, 2M and 2M + 1, for M = 3


def test_rows_that_fill_no_group_stay_at_home(build_toy):
    """Samples are 1, 2, 4, ... here, so that each sum is of some samples and no others; sample i has label i mod 3."""
    toy = build_toy(sizes=SIZES)
    for k, s in enumerate(toy.run.sets):
        toy.run.table[s.sample] = 2.0 ** np.arange(SIZES[k])[:, None]
        toy.run.sets[k] = s._replace(y=np.arange(SIZES[k], dtype=np.int32) % 3)
    means = sent_means(toy, group=3, groups=3)
    x, y, held = (np.asarray(means[part]).reshape(len(SIZES), 3, -1) for part in ("x", "y", "held"))
    held = held[..., 0]
    assert held.sum(axis=1).tolist() == [1, 1, 1, 1, 0, 2, 2]
    assert (held == np.sort(held, axis=1)[:, ::-1]).all(), "the first places are taken"
    assert not x[held == 0].any() and not y[held == 0].any(), "of the rest nothing is sent"

    toy.same(x[0, 0], [7 / 3, 7 / 3])  # (1 + 2 + 4) / 3
    toy.same(y[0, 0], [1 / 3, 1 / 3, 1 / 3])
    toy.same(x[3, 0], [1.5, 1.5])  # (1 + 2) / 2, of the two samples that there are
    toy.same(y[3, 0], [0.5, 0.5, 0])
    toy.same(x[5, :2].sum(axis=0), [21, 21])  # (1 + ... + 32) / 3: all six samples
    for k, groups in ((1, 1), (2, 1), (6, 2)):
        members = []
        for j in range(groups):
            bits = format(round(3 * x[k, j, 0]), "b")[::-1]
            samples = [i for i, bit in enumerate(bits) if bit == "1"]
            assert len(samples) == 3
            toy.same(y[k, j], np.bincount(np.array(samples) % 3, minlength=3) / 3)
            members += samples
        assert len(set(members)) == 3 * groups < SIZES[k]


def test_no_mean_is_anybodys_row(build_toy):
    toy = build_toy(sizes=SIZES)
    means = sent_means(toy, group=3, groups=3)
    sent = np.asarray(means["x"])[np.asarray(means["held"]) == 1]
    samples = np.concatenate([x for x, _ in toy.clients])
    assert len(sent) == 8
    assert np.abs(sent[:, None] - samples[None]).max(axis=-1).min() > 1e-3


def test_where_nobody_may_send_a_mean_it_is_fedavg(build_toy):
    toy = build_toy(sizes=(1, 1))
    start = toy.head(toy.random(3, 3))
    mixed, plain = (toy.play(name, start)[-1].params[0] for name in ("fedmix", "fedavg"))
    toy.same(toy.matrix(mixed), toy.matrix(plain))


def test_groups_of_one_row_are_refused():
    with refused("hyperparameter-invalid: [method.fedmix] group = 1...2"):
        checked_parameters("fedmix", {"group": 1})


def test_a_client_sends_no_more_than_so_many_means(toy):
    means = sent_means(toy, group=2, groups=3)
    assert np.shape(means["y"]) == (6, 3) and np.asarray(means["held"]).all()
    for sample in means["x"][:3]:
        subset(toy.clients[0][0], sample, 2)
