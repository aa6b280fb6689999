"""Two rounds of each method from a state that is not zero, against NumPy written from the method's equations.

Here are the methods that act on the weights; the others have files of their own.
"""

import numpy as np
import pytest

BEFORE = 5


def test_fedavg(toy):
    w = toy.random(3, 3)
    for found in toy.play("fedavg", toy.head(w), before=BEFORE):
        ends = [toy.descend(w, toy.gradient, found.state.round, k) for k in (0, 1)]
        w = (11 * ends[0] + 9 * ends[1]) / 20
        toy.same(toy.matrix(found.params[0]), w)


def test_fedprox_adds_mu_times_the_way_from_the_global_model(toy):
    w, mu = toy.random(3, 3), 0.7
    for found in toy.play("fedprox", toy.head(w), before=BEFORE, method={"mu": mu}):

        def gradient(v, x, y, t, w=w):
            return toy.gradient(v, x, y) + mu * (v - w)

        w = toy.mean([toy.descend(w, gradient, found.state.round, k) for k in (0, 1)])
        toy.same(toy.matrix(found.params[0]), w)


@pytest.mark.parametrize("present", [2, 1])
def test_scaffold(toy, present):
    """Algorithm 1, option II; the clients take K = 4 and 3 plain steps, and the means are not weighted."""
    x, c, c_i, eta_g, eta = toy.random(3, 3), toy.random(3, 3), toy.random(2, 3, 3), 0.6, 0.2
    start = toy.head(x), {"c": toy.head(c)}, {"c_i": toy.head(c_i)}
    options = {"before": BEFORE, "rounds": 3, "method": {"server_learning_rate": eta_g}, "clients_per_round": present}
    seen = set()
    for found in toy.play("scaffold", *start, **options):
        number, chosen = found.state.round, found.participants[0].tolist()
        seen |= set(chosen)
        dy, dc = [], []
        for i in chosen:
            y = x
            for samples in toy.batches(number, i):
                y = y - eta * (toy.gradient(y, *samples) - c_i[i] + c)
            c_plus = c_i[i] - c + (x - y) / (len(toy.batches(number, i)) * eta)
            dy.append(y - x)
            dc.append(c_plus - c_i[i])
            c_i[i] = c_plus
        x, c = x + eta_g * np.mean(dy, axis=0), c + present / 2 * np.mean(dc, axis=0)
        toy.same(toy.matrix(found.params[0]), x)
        toy.same(toy.matrix(found.state.servers[0]["c"]), c)
        toy.same(toy.matrix(found.state.clients["c_i"]), c_i)
    assert seen == {0, 1}, "the test is too weak"


@pytest.mark.parametrize("present", [2, 1])
def test_feddyn(toy, present):
    """Algorithm 1; an absent client keeps its g_k, and h counts all N clients."""
    w, h, g, alpha = toy.random(3, 3), 0.1 * toy.random(3, 3), toy.random(2, 3, 3), 0.4
    start = toy.head(w), {"h": toy.head(h)}, {"g": toy.head(g)}
    options = {"before": BEFORE, "rounds": 3, "method": {"alpha": alpha}, "clients_per_round": present}
    seen = set()
    for found in toy.play("feddyn", *start, **options):
        chosen, ends = found.participants[0].tolist(), []
        seen |= set(chosen)
        for k in chosen:

            def gradient(v, x, y, t, w=w, k=k):
                return toy.gradient(v, x, y) - g[k] + alpha * (v - w)

            ends.append(toy.descend(w, gradient, found.state.round, k))
            g[k] = g[k] - alpha * (ends[-1] - w)
        h = h - alpha / 2 * sum(end - w for end in ends)
        w = np.mean(ends, axis=0) - h / alpha
        toy.same(toy.matrix(found.params[0]), w)
        toy.same(toy.matrix(found.state.servers[0]["h"]), h)
        toy.same(toy.matrix(found.state.clients["g"]), g)
    assert seen == {0, 1}, "the test is too weak"


def fedopt_rounds(toy, step, **method):
    """Three rounds from a fresh memory, which from round 2 on is not zero; `step(delta)` is the server's."""
    w = toy.random(3, 3)
    for found in toy.play("fedopt", toy.head(w), rounds=3, method=method):
        delta = toy.mean([toy.descend(w, toy.gradient, found.state.round, k) - w for k in (0, 1)])
        w = w + step(delta)
        toy.same(toy.matrix(found.params[0]), w)


def test_fedopt_by_default_is_sgd_with_rate_a_half_and_momentum(toy):
    velocity = 0.0

    def step(delta):
        nonlocal velocity
        velocity = 0.9 * velocity + delta
        return 0.5 * velocity

    fedopt_rounds(toy, step)


def second_moment(kind, v, delta, beta2):
    """Algorithm 2 of Reddi et al., its three lines for v."""
    if kind == "adagrad":
        return v + delta**2
    if kind == "yogi":
        return v - (1 - beta2) * delta**2 * np.sign(v - delta**2)
    return beta2 * v + (1 - beta2) * delta**2


@pytest.mark.parametrize(("kind", "beta1"), [("adam", 0.9), ("yogi", 0.9), ("adagrad", 0.0)])
def test_fedopts_adaptive_forms(toy, kind, beta1):
    """x <- x + eta m / (sqrt(v) + tau), v from tau^2 on; Adagrad has no m of its own."""
    m, v, tau = 0.0, 1e-6, 1e-3

    def step(delta):
        nonlocal m, v
        m = beta1 * m + (1 - beta1) * delta
        v = second_moment(kind, v, delta, beta2=0.99)
        return 0.01 * m / (np.sqrt(v) + tau)

    fedopt_rounds(toy, step, server=kind)
