"""FedFA in its two forms: two rounds against NumPy, with the package's own random draws."""

import jax
import numpy as np

HALF = 0.5


def test_the_published_form(toy):
    """x + eps sqrt((gamma + 1) Var_batch) on half the batches; gamma from the clients' running means."""
    w, gamma, m = toy.random(3, 3), toy.rng.uniform(0.5, 2, 2), toy.random(2, 2)
    coins = set()
    for found in toy.play("fedfa", toy.head(w), {"gamma": gamma}, {"m": m}, before=5):
        ends = []
        for k in (0, 1):
            keys = [jax.random.split(key) for key in toy.keys(found.state.round, k)]
            on = [bool(jax.random.bernoulli(coin, HALF)) for coin, _ in keys]
            eps = [np.asarray(jax.random.normal(key, (3, 2))) for _, key in keys]
            coins |= set(on)

            def gradient(v, x, y, t, on=on, eps=eps, gamma=gamma):
                noise = eps[t][: len(x)] * np.sqrt((gamma + 1) * x.var(axis=0, ddof=1))
                return toy.gradient(v, x + on[t] * noise, y)

            ends.append(toy.descend(w, gradient, found.state.round, k))
            for x, _ in toy.batches(found.state.round, k):
                m[k] = 0.99 * m[k] + 0.01 * x.mean(axis=0)
        v = 1 / (1 + 1 / (m.var(axis=0) + 1e-6))
        w, gamma = toy.mean(ends), 2 * v / v.sum()
        toy.same(toy.matrix(found.params[0]), w)
        toy.same(found.state.clients["m"], m)
        toy.same(found.state.servers[0]["gamma"], gamma)
    assert coins == {True, False}, "the test is too weak"


def test_one_client_alone_tells_nothing_of_the_spread_between_clients(toy):
    gamma = toy.rng.uniform(0.5, 2, 2)
    rounds = toy.play("fedfa", toy.head(toy.random(3, 3)), {"gamma": gamma}, before=5, clients_per_round=1)
    toy.same(rounds[-1].state.servers[0]["gamma"], gamma)


def test_the_gaussian_form(toy):
    """Half the loss on draws mu_c + sigma_c eps, of classes that exist, as many as the batch has room for."""
    w, mu, sigma, exists = toy.random(3, 3), toy.random(3, 2), toy.rng.uniform(0.5, 2, (3, 2)), np.array([1.0, 0, 1])
    classes = set()
    start = toy.head(w), {"mu": mu, "sigma": sigma, "exists": exists}
    for found in toy.play("fedfa_gaussian", *start, before=5):
        ends = []
        for k in (0, 1):
            keys = [jax.random.split(key) for key in toy.keys(found.state.round, k)]
            c = [np.asarray(jax.random.categorical(a, np.log(np.maximum(exists, 1e-300)), shape=(3,))) for a, _ in keys]
            eps = [np.asarray(jax.random.normal(b, (3, 2))) for _, b in keys]
            classes |= set(np.concatenate(c).tolist())

            def gradient(v, x, y, t, c=c, eps=eps):
                made = mu[c[t]] + sigma[c[t]] * eps[t]
                return (toy.gradient(v, x, y) + toy.gradient(v, made, c[t])) / 2

            ends.append(toy.descend(w, gradient, found.state.round, k))
        w = toy.mean(ends)
        toy.same(toy.matrix(found.params[0]), w)
    assert classes == {0, 2}, "the test is too weak"


def test_the_gaussians_are_of_the_whole_federation(toy):
    server = toy.simulation("fedfa_gaussian", toy.head(toy.random(3, 3))).start().servers[0]
    x, y = (np.concatenate([client[i] for client in toy.clients]) for i in (0, 1))
    for c in range(3):
        toy.same(server["mu"][c], x[y == c].mean(axis=0))
        toy.same(server["sigma"][c], x[y == c].std(axis=0))
    toy.same(server["exists"], np.ones(3))
