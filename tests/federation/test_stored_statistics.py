"""Sums that are kept apart: they come to what all samples in one place say, and nothing of a site that left is in
them.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.federation.ledger import Entry, Ledger
from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.stored_statistics import StoredFederation, stored_statistics, union_of_classes
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Breakdown, StatisticsQuery

P, NAMES = 4, ("ant", "bee", "cat")
COVARIANCES = ("none", "pooled", "per-class")


def samples(seed, n=30, classes=3, far=0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return far + rng.normal(size=(n, P)) + 3 * np.eye(P)[y], y


def site(name, x, y, kind="per-class", names=NAMES, domain=None, domains=None):
    domain = np.zeros(len(y), int) if domain is None else domain
    return stored_statistics(name, x, y, names, domain, domains or (name,), kind)


def arrays(whole):
    return [a for m in (whole, *whole.apart) for a in (m.count, m.sum, m.second, m.center)]


@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("apart", [None, Breakdown("none"), Breakdown("pooled")])
def test_the_total_is_that_of_all_rows_in_one_place(far, apart):
    parts = [samples(seed, far=far) for seed in range(3)]
    total = StoredFederation([site(f"s{i}", *part) for i, part in enumerate(parts)], NAMES).statistics(
        StatisticsQuery("per-class", apart)
    )
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    for c in range(3):
        mine = x[y == c]
        np.testing.assert_allclose(total.mean[c], mine.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(total.covariance[c], np.cov(mine.T, ddof=0), atol=1e-9)
    np.testing.assert_allclose(total.center, x.mean(axis=0), rtol=1e-12)
    clients = LocalFederation.of(x, y, np.repeat([0, 1, 2], 30), 3, np.split(np.arange(90), 3))
    simulated = clients.statistics(StatisticsQuery("per-class", apart)).about(total.center)
    assert total.domain == simulated.domain
    for ours, theirs in zip(total.apart, simulated.apart, strict=True):
        np.testing.assert_allclose(ours.sum, theirs.sum, atol=1e-6)
        np.testing.assert_allclose(ours.second, theirs.second, atol=1e-5)


@given(order=st.permutations(range(4)), gone=st.integers(0, 3), far=st.sampled_from([0.0, 1e3, 1e7]))
def test_nothing_of_a_site_that_left_is_in_the_total_whatever_the_order(order, gone, far):
    sites = [site(f"s{i}", *samples(i, far=far * (i + 1))) for i in range(4)]
    never = StoredFederation([s for i, s in enumerate(sites) if i != gone], NAMES).statistics(
        StatisticsQuery("per-class", Breakdown("pooled"))
    )
    left = StoredFederation([sites[i] for i in order if i != gone], NAMES).statistics(
        StatisticsQuery("per-class", Breakdown("pooled"))
    )
    assert all(np.array_equal(a, b) for a, b in zip(arrays(never), arrays(left), strict=True))


def test_less_may_be_taken_than_was_kept():  # but for the last digits: pooled products are of samples of any class
    x, y = samples(0)
    narrow, wide = site("a", x, y, "pooled", ("cat", "ant", "bee")), site("a", x, y, "per-class", ("cat", "ant", "bee"))
    ours, theirs = (StoredFederation([s], NAMES).statistics(StatisticsQuery("pooled")) for s in (narrow, wide))
    assert all(np.allclose(a, b, rtol=1e-12, atol=1e-11) for a, b in zip(arrays(ours), arrays(theirs), strict=True))


@pytest.mark.parametrize("kind", COVARIANCES)
def test_classes_are_matched_by_name_and_rows_that_come_later_join(kind):
    (x, y), (more, z) = samples(0), samples(1, classes=1)
    a, b = site("a", x, y, kind), site("b", more, z, kind, names=("dog",))
    names = union_of_classes([a.class_names, b.class_names])
    assert names == ("ant", "bee", "cat", "dog")
    whole = StoredFederation([b, a], names).statistics(StatisticsQuery(kind))
    np.testing.assert_array_equal(whole.count, [*np.bincount(y), len(z)])
    np.testing.assert_allclose(whole.mean[3], more.mean(axis=0))
    again = site("a", x[:9], y[:9], kind).joined(site("a", x[9:], y[9:], kind), NAMES)
    one, two = (StoredFederation([s], NAMES).statistics(StatisticsQuery(kind)) for s in (a, again))
    np.testing.assert_allclose(one.mean, two.mean)
    np.testing.assert_allclose(one.second, two.about(one.center).second, atol=1e-9)


def test_names_of_classes_that_are_numbers_sort_as_numbers():
    assert union_of_classes([("0", "1", "10"), ("0", "2")]) == ("0", "1", "2", "10")
    assert union_of_classes([("b", "a"), ("b", "a")]) == ("b", "a")


def test_the_ledger_knows_what_was_sent_to_the_bit():
    x, y = samples(0)
    a = site("a", x, y)
    ledger = Ledger.of([Entry.of(site("b", x, y)), Entry.of(a)])
    assert ledger.names == ("a", "b") and ledger.entry("a").holds(site("a", x, y))
    x[0, 0] = np.nextafter(np.float32(x[0, 0]), np.float32(9))
    assert not ledger.entry("a").holds(site("a", x, y)) and not ledger.entry("b").holds(a)
    assert Entry.of(a).hash != Entry.of(a).hash  # the salt
    with pytest.raises(GgeurError, match="'c' is not in this model; there are a, b"):
        ledger.without("c")
    with pytest.raises(GgeurError, match="'a' is already in"):
        ledger.check_new("a")
    assert ledger.without("a").fingerprint() != ledger.fingerprint()


def test_without_sites_there_is_nothing():
    with pytest.raises(GgeurError, match="no sites"):
        StoredFederation([], NAMES).statistics(StatisticsQuery("pooled"))


@pytest.mark.parametrize("of", ["domain", "client", "site", "home"])
def test_what_is_kept_apart_is_what_a_simulation_keeps_apart(of):
    """Three sites: one with two domains, one with the first, one with the second."""
    parts = [samples(seed) for seed in range(3)]
    domains = [np.arange(30) % 2, np.zeros(30, int), np.ones(30, int)]
    each = zip(range(3), parts, domains, strict=True)
    federation = StoredFederation([site(f"s{i}", *part, domain=d, domains=("e", "f")) for i, part, d in each], NAMES)
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    clients = LocalFederation.of(x, y, np.concatenate(domains), 3, np.split(np.arange(90), 3))
    query = StatisticsQuery("per-class", Breakdown("per-class", of))
    ours = federation.statistics(query)
    theirs = clients.statistics(query).about(ours.center)
    key = {"domain": 2, "client": 4, "site": 3, "home": 2}[of]
    assert len(ours.apart) == len(theirs.apart) == key and sorted(ours.domain) == sorted(theirs.domain)
    order = [
        sorted(zip(s.domain, [part.sum.round(6).tolist() for part in s.apart], strict=True)) for s in (ours, theirs)
    ]
    assert order[0] == order[1]
    assert [s.home for s in federation.sites] == [s.home for s in clients.sites] == [None, 0, 1]
    assert all(np.array_equal(a.counts, b.counts) for a, b in zip(federation.sites, clients.sites, strict=True))
