"""Filled means are a penalised least-squares fit; `ggeur-limit` fills by default, and only with several domains."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from sklearn.linear_model import LogisticRegression

from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.methods.oneshot.fill import additive_means, filled_means
from ggeur.methods.oneshot.ggeur_limit import class_prototypes
from ggeur.methods.oneshot.mixture import group_means
from ggeur.stats.site_statistics import Breakdown, FederationStatistics, SiteStatistics

S, C, P = 4, 6, 3
TASK = Task(P, tuple("abcdef"))


@pytest.fixture
def groups():
    rng = np.random.default_rng(0)
    count = rng.choice([0, 0, 1, 3, 40, 5000], size=(S, C)).astype(float)
    count[:, 2] = 0  # nobody holds it
    return count, rng.normal(size=(S, C, P)) * 3 * (count > 0)[:, :, None]


def design(count):
    """One line for each group that has samples and one for each penalty, by the square root of what it weighs."""
    weight = count / (1 + count / 30)
    lines = [np.sqrt(weight[s, c]) * np.eye(S + C)[[s, S + c]].sum(axis=0) for s, c in np.argwhere(count > 0)]
    return np.array(lines + list(np.eye(S, S + C))), np.sqrt(weight[count > 0])


def test_additive_means_are_least_squares_on_an_explicit_design(groups):
    count, mean = groups
    a, root = design(count)
    target = np.concatenate([root[:, None] * mean[count > 0], np.zeros((S, P))])
    fit = np.linalg.lstsq(a, target, rcond=None)[0]  # of least length: zero for the class that nobody holds
    expected = fit[:S, None] + fit[None, S:]
    np.testing.assert_allclose(additive_means(count, mean), expected, atol=1e-9)
    one = lsq_linear(a, target[:, 0], tol=1e-14, method="bvls").x  # of SciPy, of the first coordinate
    np.testing.assert_allclose(additive_means(count, mean)[:, :, 0], one[:S, None] + one[S:], atol=1e-9)
    share = count[:, :, None] / (count[:, :, None] + 2)
    np.testing.assert_allclose(filled_means(count, mean, 2.0), share * mean + (1 - share) * expected, atol=1e-9)


def test_two_groups_worked_by_hand():
    # One domain, two classes of 30 samples: w is 15 for both, a is zero, b the classes' means.
    mean = np.array([[[1.0], [3.0]]])
    np.testing.assert_allclose(additive_means(np.full((1, 2), 30.0), mean), mean)
    # Two domains, one class, w = 15: a = -+d with 15 (1 - d) = d, so that d = 15/16 of half the distance.
    found = additive_means(np.full((2, 1), 30.0), np.array([[[1.0]], [[3.0]]]))
    np.testing.assert_allclose(found.ravel(), [2 - 15 / 16, 2 + 15 / 16])


def sites(rng, held):
    """A message of each domain, of 40 samples of each class that it holds."""
    made = []
    for s, classes in enumerate(held):
        y = np.repeat(classes, 40)
        made.append(SiteStatistics.from_embeddings(rng.normal(size=(len(y), P)) + 2 * s + y[:, None] % 3, y, C))
    return made


def test_limit_has_a_point_for_every_class_of_every_domain_but_for_classes_that_nobody_holds():
    messages = sites(np.random.default_rng(1), [(0, 1, 3), (1, 4), (3,)])
    total = FederationStatistics.of(enumerate(messages), Breakdown("none"))
    m, y, weight = class_prototypes(total)
    np.testing.assert_array_equal(y, [0, 1, 3, 4] * 3)
    np.testing.assert_allclose(weight, 1 / 12)
    count, mean = np.stack([s.count for s in messages]), np.stack([s.mean for s in messages])
    np.testing.assert_allclose(m, filled_means(count, mean, 2.0)[:, [0, 1, 3, 4]].reshape(-1, P))
    np.testing.assert_array_equal(group_means(tuple(messages), 10.0), filled_means(count, mean, 10.0))
    split = [(d, part) for d, m in enumerate(messages) for part in (m, m)]  # two clients of each domain
    twice = FederationStatistics.of(split, Breakdown("none", "client"))
    np.testing.assert_allclose(
        class_prototypes(twice)[0], filled_means(2 * count, mean, 2.0)[:, [0, 1, 3, 4]].reshape(-1, P)
    )


def test_without_noise_the_filled_limit_is_logistic_regression_on_filled_means():
    total = FederationStatistics.of(
        enumerate(sites(np.random.default_rng(2), [range(6), (1, 4), (3, 5, 0)])), Breakdown("none")
    )
    found = resolve_closed_form("ggeur-limit", {"scale": 0.0, "decay": 0.01}).solve(total, TASK)
    m, y, _ = class_prototypes(total.standard)
    expected = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-10, max_iter=10_000).fit(m, y)
    np.testing.assert_allclose(found["W"] * total.units.scale, expected.coef_, atol=1e-4)


@pytest.mark.parametrize("kind", ["per-class", "pooled"])
def test_with_one_domain_fill_changes_no_bit(kind):
    (one,) = sites(np.random.default_rng(3), [(0, 1, 2, 4)])
    total = FederationStatistics.of([(0, one.of_kind(kind)), (0, one.of_kind(kind))], Breakdown("none"))
    each = [
        resolve_closed_form("ggeur-limit", {"fill": fill}, kind).solve(total, TASK) for fill in ("additive", "none")
    ]
    for name in "Wb":
        np.testing.assert_array_equal(each[0][name], each[1][name])


def test_with_several_domains_fill_is_the_default_and_none_looks_at_groups_with_samples_alone():
    total = FederationStatistics.of(
        enumerate(sites(np.random.default_rng(4), [(0, 1), (1, 3), (3, 0)])), Breakdown("none")
    )
    plain, filled, none = (
        resolve_closed_form("ggeur-limit", given).solve(total, TASK)["W"]
        for given in ({}, {"fill": "additive"}, {"fill": "none"})
    )
    np.testing.assert_array_equal(plain, filled)
    assert np.abs(plain - none).max() > 0.01
    assert len(class_prototypes(total, "none")[1]) == 6 and len(class_prototypes(total)[1]) == 9
