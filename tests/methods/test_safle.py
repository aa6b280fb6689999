"""`safle` is scikit-learn's Ridge on the one-hot rows of its tables, however the samples are parted."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.one_shot import one_shot
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.methods.oneshot.safle import table_corners
from refusal import refused

C, P = 3, 7
TASK = Task(P, ("a", "b", "c"))


def samples(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(C, size=n)
    return 4 * (rng.normal(size=(n, P)) + rng.normal(size=(C, P))[y]) + 20, y


def solve(x, y, owner=None, task=TASK, **parameters):
    owner = np.zeros(len(y), int) if owner is None else owner
    parts = [np.flatnonzero(owner == k) for k in np.unique(owner)]
    clients = LocalFederation.of(x, y, np.zeros(len(y), int), len(task.class_names), parts)
    solved = resolve_closed_form("safle", {"precision": "float64"} | parameters)
    return one_shot(clients, solved, "safle", task, 0)


def scores(found, x):
    return double_logits(resolve_head("lookup"), found.params, x)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_it_is_ridge_on_the_rows_of_tables(bits):
    x, y = samples()
    found = solve(x, y, bits=bits, shuffles=2, alpha=1e-2)
    above = x > x.mean(axis=0)
    tables = []  # every group's bits as a number, one-hot
    for corners in found.params["landmarks"].reshape(-1, 2**bits, P):
        of = np.flatnonzero(corners[0])
        assert len(of) == bits
        tables.append(np.eye(2**bits)[above[:, of] @ 2 ** np.arange(bits)])
    phi = np.hstack(tables)
    assert len(tables) == 2 * (P // bits) and (phi.sum(axis=1) == len(tables)).all()
    penalty = 1e-2 * ((phi - phi.mean(axis=0)) ** 2).sum() / phi.shape[1]
    expected = Ridge(alpha=penalty, solver="cholesky").fit(phi, np.eye(C)[y]).predict(phi)
    np.testing.assert_allclose(scores(found, x), expected, atol=1e-6)


def test_any_partition_gives_the_same_scores():
    x, y = samples()
    owner = np.where(y == 0, 3, np.random.default_rng(1).integers(3, size=len(y)))
    np.testing.assert_allclose(scores(solve(x, y, owner), x), scores(solve(x, y), x), atol=1e-7)


def test_sums_in_float32_are_near():
    x, y = samples()
    np.testing.assert_allclose(scores(solve(x, y, precision="float32"), x), scores(solve(x, y), x), atol=1e-4)


def test_a_table_of_two_bits_knows_the_exclusive_or():
    x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = np.array([0, 1, 1, 0])
    task = Task(2, ("a", "b"))
    # one sample in each row of the table: G = I - 1/4, tr(G)/4 = 3/4, so ridge shrinks by 1/(1 + 3/4 alpha)
    found = scores(solve(x, y, task=task, bits=2, shuffles=1, alpha=1.0), x)
    np.testing.assert_allclose(found[:, 0] - 0.5, np.where(y == 0, 1, -1) * 0.5 / 1.75, atol=1e-7)
    linear = scores(solve(x, y, task=task, bits=1, shuffles=1), x)
    np.testing.assert_allclose(linear, 0.5, atol=1e-7)


def test_every_number_is_dealt_once_in_a_shuffle_and_shuffles_differ():
    corners = table_corners(12, 4, 2, 0).reshape(2, 3, 16, 12)
    assert (np.abs(corners[:, :, 0]).sum(axis=1) == 1).all()
    assert (np.abs(corners[0, :, 0]) != np.abs(corners[1, :, 0])).any()
    assert len(np.unique(corners[0, 0], axis=0)) == 16
    np.testing.assert_array_equal(corners.reshape(-1, 12), table_corners(12, 4, 2, 0))
    assert table_corners(2, 4, 1, 0).shape == (4, 2)


def test_a_class_that_nobody_holds_is_never_the_answer_and_one_class_is():
    x, y = samples()
    kept = y != 1
    assert set(scores(solve(x[kept], y[kept]), x).argmax(axis=1)) == {0, 2}
    assert (scores(solve(x, y * 0), x).argmax(axis=1) == 0).all()
    assert np.isfinite(scores(solve(np.ones_like(x), y), x)).all()


def test_tables_that_are_too_large_are_refused():
    with refused("features-tables-large"):
        table_corners(320, 10, 1, 0)
    with refused("hyperparameter-invalid: bits"):
        resolve_closed_form("safle", {"bits": 0})
