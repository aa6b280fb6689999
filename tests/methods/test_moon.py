"""MOON: two rounds from previous models of the clients' own, with both heads, against NumPy."""

import numpy as np

MU, TAU = 1.3, 0.4


def cosine(a, b):
    """Row by sample, in functions that take complex steps."""
    return (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))


def contrast(z, z_glob, z_prev):
    towards, away = np.exp(cosine(z, z_glob) / TAU), np.exp(cosine(z, z_prev) / TAU)
    return -np.log(towards / (towards + away)).mean()


def test_on_a_linear_head_the_representation_is_the_logits(toy):
    w, previous = toy.random(3, 3), [toy.random(3, 3), toy.random(3, 3)]
    start = toy.head(w), None, {"previous": toy.head(np.stack(previous))}
    for found in toy.play("moon", *start, before=5, method={"mu": MU, "tau": TAU}):
        ends = []
        for k in (0, 1):

            def gradient(v, x, y, t, w=w, own=previous[k]):
                def loss(u):
                    return MU * contrast(toy.logits(u, x), toy.logits(w, x), toy.logits(own, x))

                return toy.gradient(v, x, y) + toy.slope(loss, v)

            ends.append(toy.descend(w, gradient, found.state.round, k))
        w, previous = toy.mean(ends), ends
        toy.same(toy.matrix(found.params[0]), w)
        toy.same(toy.matrix(found.state.clients["previous"]), previous)


def test_on_an_mlp_it_is_the_hidden_layer(toy):
    w, previous = toy.random(27), [toy.random(27), toy.random(27)]
    start = toy.mlp_head(w), None, {"previous": toy.mlp_head(np.stack(previous))}
    for found in toy.play("moon", *start, before=5, head="mlp", method={"mu": MU, "tau": TAU}):
        ends = []
        for k in (0, 1):

            def gradient(v, x, y, t, w=w, own=previous[k]):
                def loss(u):
                    logits, z = toy.mlp(u, x)
                    away = toy.mlp(own, x)[1]
                    return toy.cross_entropy(logits, y) + MU * contrast(z, toy.mlp(w, x)[1], away)

                return toy.slope(loss, v)

            ends.append(toy.descend(w, gradient, found.state.round, k))
        w, previous = toy.mean(ends), ends
        toy.same(toy.mlp_vector(found.params[0]), w)
