"""Sums of features tell how a group's samples are turned among the directions in which they differ."""

import numpy as np
import pytest

from ggeur.privacy.attacks import Group, Spread
from ggeur.privacy.feature_attacks import unturned_rows
from ggeur.stats.features import FeatureMap, FeatureQuery
from ggeur.stats.units import Units

P = 24


def seen(n, seed=0, d=300, precision="float32"):
    """A group, the sums of its features, the map, and the samples, which no attacker sees."""
    rng = np.random.default_rng(seed)
    x = 50 + 3 * rng.normal(size=(n, P)) @ (np.eye(P) + 0.3 * rng.normal(size=(P, P)))
    by = FeatureMap(Units(np.full(P, 50.0), 3.0), rng.normal(size=(d, P)).astype(np.float32))
    s = FeatureQuery(by, None, precision).statistics(x, np.zeros(n, int), np.zeros(n, int), 1)
    z = x - x.mean(axis=0)
    return Group(n, x.mean(axis=0), Spread.of(z.T @ z, float((x**2).sum())), n - 1), s.sum[0] + n * s.center, by, x


@pytest.mark.parametrize("n", [3, 5, 8, 12])
@pytest.mark.parametrize(("precision", "near"), [("float32", 1e-3), ("float64", 1e-6)])
def test_every_sample_of_a_small_group_is_found(n, precision, near):
    group, sums, by, x = seen(n, precision=precision)
    found = unturned_rows(group, sums, by)
    apart = np.linalg.norm(found[:, None] - x, axis=2).min(axis=0) / np.linalg.norm(x, axis=1)
    assert apart.max() < near


def test_nothing_is_found_where_nothing_is_told():
    group, sums, by, _ = seen(5)
    assert unturned_rows(group, sums * 1.5, by) is None  # sums that no such samples have
    assert unturned_rows(group._replace(spread=None), sums, by) is None
    assert unturned_rows(group._replace(freedom=9), sums, by) is None  # a scatter pooled with other classes
    large, sums, by, _ = seen(40)
    assert unturned_rows(large, sums, by) is None
