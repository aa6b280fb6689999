"""Statistics in pieces are those of the whole, and no bit depends on the pieces or the workers."""

from itertools import pairwise

import numpy as np
import pytest

from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.statistics import ClassStatistics
from ggeur.stats.streaming import Piece, streamed_statistics
from refusal import refused

KINDS = ("none", "pooled", "per-class")


def samples(n=5000, p=6, classes=3, domains=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.7, 0, rng.integers(classes, size=n))  # one class far larger than the others
    x = (rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + 5 * rng.normal(size=(classes, p))[y]).astype(np.float16)
    return Piece(x, y, rng.integers(domains, size=n))


def cut(piece, at):
    bounds = [0, *sorted(at), len(piece.y)]
    return [Piece(*(part[i:j] for part in piece)) for i, j in pairwise(bounds) if i < j]


def arrays(found):
    return [(d, s.count, s.sum, s.second, s.center) for d, s in found.items()]


def same(one, other):
    for (d, *left), (e, *right) in zip(arrays(one), arrays(other), strict=True):
        assert d == e
        assert all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_the_statistics_of_all_samples_at_once(kind):
    given = samples()
    found = streamed_statistics([given], 4, kind)
    assert list(found) == [0, 1]
    for d, made in found.items():
        own = given.domain == d
        x = given.x[own].astype(np.float64)
        whole = ClassStatistics.from_embeddings(x, given.y[own], 4, center=x.mean(axis=0))
        want = SiteStatistics(whole.count, whole.sum, whole.second, whole.center).of_kind(kind)
        assert made.kind == kind and (made.count == want.count).all()
        for a, b in ((made.sum, want.sum), (made.second, want.second), (made.center, want.center)):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * len(x))


@pytest.mark.parametrize("kind", KINDS)
def test_no_bit_depends_on_pieces_or_workers(kind):
    given, rng = samples(), np.random.default_rng(1)
    want = streamed_statistics([given], 3, kind, workers=1)
    for workers in (1, 2, 5):
        for at in ([], [1], [255, 256, 257, 1024], range(0, 5000, 7), rng.integers(5000, size=6).tolist()):
            same(streamed_statistics(cut(given, at), 3, kind, workers=workers), want)


def test_a_large_array_is_cut_without_a_difference(monkeypatch):
    given = samples(n=3000)
    want = streamed_statistics([given], 3, "per-class")
    monkeypatch.setattr("ggeur.stats.streaming._PIECE", 100)
    same(streamed_statistics([given], 3, "per-class"), want)


@pytest.mark.parametrize("kind", ["pooled", "per-class"])
def test_samples_far_from_zero_keep_their_digits(kind):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4000, 3)), np.arange(4000) % 2
    near, far = (
        streamed_statistics([Piece(x + shift, y, np.zeros(4000, np.int64))], 2, kind)[0] for shift in (0, 2.0**30)
    )
    np.testing.assert_allclose(far.second, near.second, rtol=1e-5, atol=1e-2)  # x itself keeps 22 of its 52 bits


def test_squares_that_overflow_are_refused():
    x = np.array([[1e200, 0.0], [0.0, 1e200]])
    with refused("embeddings-overflow"):
        streamed_statistics([Piece(x, np.array([0, 1]), np.zeros(2, np.int64))], 2, "per-class")


def test_one_sample_and_none():
    one = Piece(np.array([[1.0, 2.0]]), np.array([1]), np.array([3]))
    found = streamed_statistics([one], 2, "per-class")
    assert list(found) == [3] and not found[3].second.any() and found[3].mean[1].tolist() == [1.0, 2.0]
    assert streamed_statistics([], 2, "pooled") == {}


def test_moments_that_are_not_needed_change_no_other():
    count, rng = (280, 600, 40, 301), np.random.default_rng(0)  # 280: a full block, and no more samples than dimensions
    y = rng.permutation(np.repeat(np.arange(4), count))
    one = [Piece(rng.normal(size=(len(y), 300)), y, np.zeros(len(y), np.int64))]
    want, found = (streamed_statistics(one, 4, "per-class", small=small)[0] for small in (True, False))
    np.testing.assert_array_equal(found.sum, want.sum)
    np.testing.assert_array_equal(found.second[[1, 3]], want.second[[1, 3]])
    assert not found.second[2].any()
