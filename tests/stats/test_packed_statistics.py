"""Statistics as they travel: they come to what samples have, and a factor is the samples but for a rotation."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.stats.packed_statistics import packed_length, packed_statistics, triangular_factor
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.streaming import Piece
from refusal import refused

KINDS = ("none", "pooled", "per-class")


def samples(n, p=6, classes=4, far=0.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 0, rng.integers(classes, size=n))  # one class has more than p, others fewer
    return far + rng.normal(size=(n, p)) + 3 * rng.normal(size=(classes, p))[y], y


def packed(x, y, classes=4, kind="per-class"):
    return packed_statistics([Piece(x, y, np.zeros(len(y), np.int64))], classes, kind)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_they_are_the_statistics_of_the_samples(kind, far):
    x, y = samples(40, far=far)
    made = packed(x, y, 5, kind).statistics
    want = SiteStatistics.from_embeddings(x, y, 5, center=x.mean(axis=0)).of_kind(kind)
    assert made.kind == kind and (made.count == want.count).all()
    for a, b in ((made.center, want.center), (made.sum, want.sum), (made.second, want.second)):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-7 * (1 + far / 1e3))
    assert (made.second == made.second.swapaxes(1, 2)).all()


@given(n=st.integers(1, 60), seed=st.integers(0, 99), kind=st.sampled_from(KINDS[1:]))
def test_a_group_takes_no_more_numbers_than_its_samples(n, seed, kind):
    x, y = samples(n, seed=seed)
    made = packed(x, y, kind=kind)
    made.check()
    assert len(made.moments) == packed_length(made.count, 6, kind)
    if kind == "pooled":
        assert len(made.moments) + 6 <= x.size
        want = (x - x.mean(axis=0)).T @ (x - x.mean(axis=0))
        np.testing.assert_allclose(made.statistics.second[0], want, atol=1e-9)
        return
    assert len(made.moments) + made.sum[made.count > 0].size <= x.size


@pytest.mark.parametrize("at", [[1], [7, 8, 30], range(40)])
def test_no_bit_depends_on_the_pieces(at):
    x, y = samples(40)
    d, bounds = np.zeros(40, np.int64), [0, *at, 40]
    pieces = [Piece(x[i:j], y[i:j], d[i:j]) for i, j in pairwise(bounds) if i < j]
    one, other = packed(x, y), packed_statistics(pieces, 4, "per-class")[0]
    assert one.moments.tobytes() == other.moments.tobytes() and one.sum.tobytes() == other.sum.tobytes()


@pytest.mark.parametrize("x", [np.eye(4)[:3], np.ones((3, 4)), np.eye(4)[[0, 0, 1, 2]] @ np.diag([0.0, 1, 2, 3])])
def test_a_factor_is_triangular_and_the_samples_but_for_a_rotation(x):
    z = x - x.mean(axis=0)
    r = triangular_factor(z)
    assert r.shape == (len(x) - 1, 4) and (np.diagonal(r) >= 0).all() and (np.tril(r, -1) == 0).all()
    np.testing.assert_allclose(r.T @ r, z.T @ z, atol=1e-14)
    u, _, v = np.linalg.svd(z @ np.vstack([r, np.zeros(4)]).T)
    np.testing.assert_allclose(u @ v @ np.vstack([r, np.zeros(4)]), z, atol=1e-7)


def test_what_no_samples_can_have_is_seen():
    x, y = samples(40)
    good = packed(x, y, 4, "per-class")
    bad = {
        "counts": replace(good, count=good.count + 0.5),
        "without samples": replace(good, count=np.where(good.count < good.count.max(), 0.0, good.count)),
        "more or fewer": replace(good, moments=good.moments[:-1]),
        "variances": replace(good, moments=np.where(np.arange(len(good.moments)) == 0, -1.0, good.moments)),
        "diagonal": replace(good, moments=-good.moments),
    }
    for words, one in bad.items():
        with pytest.raises(ValueError, match="variances|diagonal" if words == "diagonal" else words):
            one.check()


def test_squares_that_overflow_are_refused():
    for n in (3, 9):
        with refused("embeddings-overflow"), np.errstate(over="ignore"):
            packed(np.eye(4)[np.arange(n) % 4] * 1e200, np.zeros(n, np.int64), 1)
