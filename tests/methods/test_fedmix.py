"""FedMix: the means that clients send, and two rounds with them against NumPy."""

from itertools import combinations

import jax
import numpy as np

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
    """Which `size` rows have this mean."""
    hits = [s for s in combinations(range(len(x)), size) if np.allclose(x[list(s)].mean(axis=0), target, atol=1e-9)]
    (only,) = hits
    return only


def sent_means(toy, **method):
    return toy.simulation("fedmix", toy.head(toy.random(3, 3)), method=method).start().servers[0]["means"]


def test_each_client_sends_means_of_m_rows_every_row_in_one_of_them(toy):
    means = sent_means(toy, groups=4)
    assert np.shape(means["x"]) == (8, 2)
    np.testing.assert_array_equal(means["held"], [1, 1, 1, 0, 1, 1, 0, 0])  # 5 + 5 + 1 rows, and 5 + 4
    for k, sizes in ((0, (5, 5, 1)), (1, (5, 4))):
        x, y = toy.clients[k]
        groups = [subset(x, means["x"][4 * k + j], size) for j, size in enumerate(sizes)]
        members = [row for group in groups for row in group]
        assert sorted(members) == list(range(len(x)))
        assert members != list(range(len(x))), "the rows are not shuffled"
        for j, group in enumerate(groups):
            toy.same(means["y"][4 * k + j], np.eye(3)[y[list(group)]].mean(axis=0))


def test_a_client_sends_no_more_than_so_many_means(toy):
    means = sent_means(toy, group=2, groups=3)
    assert np.shape(means["y"]) == (6, 3) and np.asarray(means["held"]).all()
    for row in means["x"][:3]:
        subset(toy.clients[0][0], row, 2)
