"""FedProto: two rounds from prototypes that are not zero, with both heads, against NumPy."""

import numpy as np

LAM = 1.5


def prototypes(z, y, old):
    """Mean of z by class; a class that nobody has keeps the old one."""
    return np.stack([z[y == c].mean(axis=0) if (y == c).any() else old[c] for c in range(len(old))])


def pull(z, y, p, held):
    """lambda times the square's mean over samples and coordinates; samples of a class without a prototype count as
    zero.
    """
    return LAM * (held[y][:, None] * (z - p[y]) ** 2).mean()


def both(toy, of):
    """f(k) of the two clients' samples, together."""
    return np.concatenate([of(k) for k in (0, 1)])


def test_on_a_linear_head_the_representation_is_the_logits(toy):
    w, p, held = toy.random(3, 3), toy.random(3, 3), np.array([1.0, 0.0, 1.0])
    start = toy.head(w), {"P": p, "held": held}
    for found in toy.play("fedproto", *start, before=5, method={"lam": LAM}):

        def gradient(v, x, y, t, p=p, held=held):
            return toy.gradient(v, x, y) + toy.slope(lambda u: pull(toy.logits(u, x), y, p, held), v)

        ends = [toy.descend(w, gradient, found.state.round, k) for k in (0, 1)]
        z = both(toy, lambda k, ends=ends: toy.logits(ends[k], toy.clients[k][0]))
        p, held = prototypes(z, both(toy, lambda k: toy.clients[k][1]), p), np.ones(3)
        w = toy.mean(ends)
        toy.same(toy.matrix(found.params[0]), w)
        toy.same(found.state.servers[0]["P"], p)
        toy.same(found.state.servers[0]["held"], held)


def test_on_an_mlp_it_is_the_hidden_layer(toy):
    w, p, held = toy.random(27), toy.random(3, 4), np.array([1.0, 0.0, 1.0])
    start = toy.mlp_head(w), {"P": p, "held": held}
    for found in toy.play("fedproto", *start, before=5, head="mlp", method={"lam": LAM}):

        def gradient(v, x, y, t, p=p, held=held):
            def loss(u):
                logits, z = toy.mlp(u, x)
                return toy.cross_entropy(logits, y) + pull(z, y, p, held)

            return toy.slope(loss, v)

        ends = [toy.descend(w, gradient, found.state.round, k) for k in (0, 1)]
        z = both(toy, lambda k, ends=ends: toy.mlp(ends[k], toy.clients[k][0])[1])
        p, held = prototypes(z, both(toy, lambda k: toy.clients[k][1]), p), np.ones(3)
        w = toy.mean(ends)
        toy.same(toy.mlp_vector(found.params[0]), w)
        toy.same(found.state.servers[0]["P"], p)


def test_a_class_that_nobody_brings_this_round_keeps_its_prototype(build_toy):
    toy = build_toy()
    for s, (_, y) in zip(toy.run.sets, toy.clients, strict=True):
        for labels in (s.y, y):
            labels[labels == 2] = 0
    p = toy.random(3, 3)
    for held in (1.0, 0.0):
        start = toy.head(toy.random(3, 3)), {"P": p, "held": np.array([1.0, 1.0, held])}
        last = toy.play("fedproto", *start, before=5)[-1].state.servers[0]
        toy.same(last["P"][2], p[2])
        toy.same(last["held"], [1, 1, held])
        assert (np.abs(last["P"][:2] - p[:2]) > 1e-3).all()
