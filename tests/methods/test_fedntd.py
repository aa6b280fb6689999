"""FedNTD: two rounds against NumPy, where the true class is really left out of the softmax."""

import numpy as np

BETA, TAU = 0.8, 1.7


def not_true(logits, y, toy):
    """log q~ over the classes other than y, (n, C - 1)."""
    others = np.stack([np.delete(sample, c) for sample, c in zip(logits, y, strict=True)])
    return toy.log_softmax(others / TAU)


def test_two_rounds(toy):
    w = toy.random(3, 3)
    for found in toy.play("fedntd", toy.head(w), before=5, method={"beta": BETA, "tau": TAU}):

        def gradient(v, x, y, t, w=w):
            known = not_true(toy.logits(w, x), y, toy)

            def loss(u):
                kl = np.exp(known) * (known - not_true(toy.logits(u, x), y, toy))
                return BETA * TAU**2 * kl.sum(axis=1).mean()

            return toy.gradient(v, x, y) + toy.slope(loss, v)

        w = toy.mean([toy.descend(w, gradient, found.state.round, k) for k in (0, 1)])
        toy.same(toy.matrix(found.params[0]), w)
