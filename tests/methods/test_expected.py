"""The bound that takes the place of draws: against draws, and against its equation with whole matrices in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ggeur.heads import resolve as resolve_head
from ggeur.methods import has_own_head, names, resolve
from ggeur.methods.algorithm import Iterative
from ggeur.methods.expected import log_probabilities, quadratic_table
from ggeur.methods.method import batch_cross_entropy
from ggeur.methods.parts import Batch
from ggeur.stats.geometry import LowRank, low_rank

P, C, B = 5, 4, 12
HEAD = resolve_head("linear")


class Case:
    """A head, samples some of which stand for draws, and whole covariances."""

    def __init__(self, seed=0, spread=0.7, m=C):
        rng = self.rng = np.random.default_rng(seed)
        self.w = {"W": rng.normal(size=(C, P)), "b": rng.normal(size=C)}
        root = spread * rng.normal(size=(m, P, P)) / np.sqrt(P)
        self.root = root @ root.transpose(0, 2, 1)
        self.T = np.broadcast_to(self.root @ self.root, (C, P, P))
        self.x, self.y = rng.normal(size=(B, P)), np.arange(B) % C
        self.drawn, self.mask = (np.arange(B) % 3 > 0) * 1.0, (np.arange(B) < B - 2) * 1.0

    def batch(self, rank=P, x=None):
        shapes = LowRank(*map(jnp.asarray, low_rank(self.root, rank)))
        samples = self.x if x is None else x
        return Batch(jnp.asarray(samples), jnp.asarray(self.y), jnp.asarray(self.mask), jnp.asarray(self.drawn), shapes)

    def each(self, w, T):
        """Row by sample, as the equation has it, with whole matrices."""
        found = []
        for x, c, on in zip(self.x, self.y, self.drawn, strict=True):
            d, b = w["W"] - w["W"][c], w["b"] - w["b"][c]
            quadratic = on / 2 * jnp.einsum("ja,ab,jb->j", d, T[c], d)
            found.append(jnp.log(jnp.sum(jnp.exp(d @ x + b + quadratic))))
        return jnp.stack(found)

    def naive(self, w, T):
        return jnp.sum(self.mask * self.each(w, T)) / self.mask.sum()


def test_the_bound_is_never_below_the_mean_loss_of_draws(x64):
    gaps = []
    for seed in range(8):
        case = Case(seed)
        bound = np.asarray(case.each(case.w, case.T))
        for i, c in enumerate(case.y):
            eps = case.rng.normal(size=(20_000, P)) @ case.root[c]
            z = (case.x[i] + case.drawn[i] * eps) @ case.w["W"].T + case.w["b"]
            loss = np.log(np.exp(z - z[:, [c]]).sum(axis=1))
            error = loss.std() / np.sqrt(len(loss))
            assert bound[i] >= loss.mean() - 4 * error - 1e-12
            gaps.append((bound[i] - loss.mean()) * case.drawn[i])
        assert float(batch_cross_entropy(HEAD, case.w, case.batch())) == pytest.approx(
            float(case.naive(case.w, case.T))
        )
    assert max(gaps) > 0.01, "the test is too weak"


@pytest.mark.parametrize("rank", [1, 2, P, P + 3])
@pytest.mark.parametrize("m", [C, 1])
def test_loss_and_gradient_are_those_of_the_equation_with_whole_matrices(x64, rank, m):
    case = Case(rank, m=m)
    U, s = low_rank(case.root, rank)
    T = np.broadcast_to(np.einsum("cra,crb->cab", U, U) + s[:, None, None] * np.eye(P), (C, P, P))
    if rank >= P:
        np.testing.assert_allclose(T, case.T)
    found = jax.value_and_grad(lambda w: batch_cross_entropy(HEAD, w, case.batch(rank)))(case.w)
    true = jax.value_and_grad(lambda w: case.naive(w, T))(case.w)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), found, true)


def test_the_table_is_the_same_to_six_digits_in_float32():
    case = Case(3)
    few = low_rank(case.root, 2)
    d = case.w["W"][None] - case.w["W"][:, None]
    T = np.einsum("cra,crb->cab", few.U, few.U) + few.s[:, None, None] * np.eye(P)
    true = np.einsum("cja,cab,cjb->cj", d, T, d) / 2
    single = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), (case.w["W"], few))
    np.testing.assert_allclose(quadratic_table(*single), true, atol=1e-6 * true.max())


def test_without_spread_or_draws_it_is_the_cross_entropy(x64):
    case = Case(spread=0.0)
    plain = float(batch_cross_entropy(HEAD, case.w, Batch(*case.batch()[:3])))
    assert float(batch_cross_entropy(HEAD, case.w, case.batch())) == pytest.approx(plain, abs=1e-14)
    case = Case()
    case.drawn = np.zeros(B)
    assert float(batch_cross_entropy(HEAD, case.w, case.batch())) == pytest.approx(plain, abs=1e-14)


def test_soft_labels_of_shares_of_rows_are_bounded_too(x64):
    case, share = Case(5), 0.6
    label = case.rng.dirichlet(np.ones(C), B)
    u = share * case.x
    found = -np.sum(label * log_probabilities(HEAD.logits(case.w, u), case.w, case.batch(), share), axis=1)
    for i, c in enumerate(case.y):
        x = case.x[i] + case.drawn[i] * case.rng.normal(size=(20_000, P)) @ case.root[c]
        z = share * x @ case.w["W"].T + case.w["b"]
        loss = np.log(np.exp(z).sum(axis=1)) - z @ label[i]
        assert found[i] >= loss.mean() - 4 * loss.std() / np.sqrt(len(loss)) - 1e-12
        assert case.drawn[i] or found[i] == pytest.approx(loss[0])


# ---------------------------------------------------------------- in methods

OFF = {"fedmix": {"lam": 0.0}, "fedfa": {"probability": 0.0}}  # what changes the samples themselves


@pytest.mark.parametrize("name", [name for name in names(Iterative) if not has_own_head(name)])
def test_it_takes_the_place_of_every_methods_cross_entropy(toy, name):
    case = Case(m=1)
    case.w, case.root = toy.head(toy.random(3, 3)), case.root[:, :2, :2]
    case.x, case.y = case.x[:, :2], case.y % 3
    simulation = toy.simulation(name, case.w, method=OFF.get(name))
    state, method = simulation.start(), resolve(name, HEAD, OFF.get(name, {})).method
    context = {**method.broadcast(state.servers[0]), "client": jax.tree.map(lambda a: a[0], state.clients)}

    def loss(method, batch):
        return float(method.loss(case.w, batch, context, method.begin(context), jax.random.key(0))[0])

    bound, plain = case.batch(), Batch(*case.batch()[:3])
    more = loss(resolve("fedavg", HEAD, {}).method, bound) - loss(resolve("fedavg", HEAD, {}).method, plain)
    share = 0.5 if name == "fedfa_gaussian" else 1.0
    assert loss(method, bound) - loss(method, plain) == pytest.approx(share * more) and more > 0.01


def test_two_rounds_of_fedavg_against_the_equation(toy):
    root = toy.rng.normal(size=(3, 2, 2)) / 2
    root = root @ root.transpose(0, 2, 1)
    drawn = np.array([1.0, 0.0, 1.0])  # whether samples of a class stand for draws
    sets = [s._replace(noise=drawn[s.y].astype(np.int32)) for s in toy.run.sets]
    toy.run = toy.run._replace(sets=sets, shapes=low_rank(root, 2))
    w = toy.random(3, 3)

    def gradient(v, x, y, t):
        def loss(v):
            d = v[None, :, :2] - v[:, None, :2]  # (c, j): w_j - w_c
            Q = np.einsum("cja,cab,cjb->cj", d, root @ root, d) / 2
            return toy.cross_entropy(toy.logits(v, x) + drawn[y][:, None] * Q[y], y)

        return toy.slope(loss, v)

    for found in toy.play("fedavg", toy.head(w)):
        w = toy.mean([toy.descend(w, gradient, found.state.round, k) for k in (0, 1)])
        toy.same(toy.matrix(found.params[0]), w)
