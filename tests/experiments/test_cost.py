"""The cost on paper against arrays that are really there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.experiments.cost import COVARIANCES, cost, shape_bytes
from ggeur.flower.wire.packing import pack_factors, triangles, unpack_factors
from ggeur.stats.errors import GgeurError
from ggeur.stats.geometry import Geometry, low_rank
from ggeur.stats.long_jobs import human_bytes, human_seconds
from ggeur.stats.statistics import ClassStatistics

LINKS = {"client_mbit": 20.0, "server_mbit": 1000.0, "patience": 600.0}


@pytest.fixture(scope="module")
def statistics():
    rng = np.random.default_rng(0)
    return ClassStatistics.from_embeddings(rng.normal(size=(300, 24)), np.arange(300) % 5, 5)


def test_bytes_up_are_those_of_the_packed_statistics(statistics):
    triangle = np.triu_indices(24)
    packed = [statistics.count, statistics.mean, statistics.covariance[:, triangle[0], triangle[1]]]
    assert cost("per-class", 10, 5, 24, **LINKS).up == sum(a.nbytes for a in packed)
    pooled = [statistics.count, statistics.mean, statistics.within[triangle]]
    assert cost("pooled", 10, 5, 24, **LINKS).up == sum(a.nbytes for a in pooled)
    assert cost("none", 10, 5, 24, **LINKS).up == statistics.count.nbytes + statistics.mean.nbytes


def test_bytes_down_are_those_of_the_factors_as_they_travel(statistics):
    factor = Geometry.from_statistics(statistics).factor(0, "sqrt-eigenvalue").astype(np.float32)
    assert cost("per-class", 10, 5, 24, **LINKS).down == 5 * triangles(factor[None]).nbytes


@pytest.mark.parametrize(("rank", "shapes"), [(4, "per-class"), (4, "one"), (24, "per-class"), (99, "one")])
def test_bytes_of_shapes_of_low_rank_are_those_that_travel(statistics, rank, shapes):
    geometry = Geometry.from_statistics(statistics)
    some = geometry.factors("sqrt-eigenvalue")[: 1 if shapes == "one" else None]
    packed = pack_factors(*(np.asarray(a, np.float32) for a in low_rank(some, rank)))
    assert shape_bytes(shapes, 5, 24, rank) == sum(a.nbytes for a in packed.values())
    for ours, theirs in zip(unpack_factors(packed, 24), low_rank(some, rank), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_the_server_holds_one_running_total_and_one_message(statistics):
    p = cost("per-class", 10**6, 5, 24, **LINKS)
    total = statistics.count.nbytes + statistics.sum.nbytes + statistics.second.nbytes
    assert p.server_memory == total + p.up


@given(
    kind=st.sampled_from(COVARIANCES),
    clients=st.integers(1, 10**8),
    classes=st.integers(1, 200),
    dim=st.integers(1, 1024),
    patience=st.floats(1, 1e4),
)
def test_the_tree_reaches_every_client_and_no_node_is_busy_for_longer_than_patience(
    kind, clients, classes, dim, patience
):
    p = cost(kind, clients, classes, dim, client_mbit=20, server_mbit=1000, patience=patience)
    assert p.fan**p.levels >= clients
    message = 8 * (max(p.up, cost("per-class", 1, classes, dim, **LINKS).up if kind == "none" else 0) + p.down) / 1e9
    assert p.fan <= max(2, np.ceil(patience / message))
    assert p.aggregators >= p.levels and p.additions >= clients


def test_a_single_server_serves_while_it_can():
    assert cost("pooled", 100, 10, 512, **LINKS).levels == 1
    assert cost("per-class", 10**8, 10, 512, **LINKS).levels > 1


@pytest.mark.parametrize("bad", [{"clients": 0}, {"dim": 0}, {"patience": 0.0}, {"client_mbit": float("nan")}])
def test_nonsense_is_refused(bad):
    with pytest.raises(GgeurError, match="positive"):
        cost(**({"kind": "none", "clients": 1, "classes": 1, "dim": 1} | LINKS | bad))


def test_numbers_for_people():
    assert (human_bytes(1536), human_bytes(12), human_seconds(90), human_seconds(0.5)) == (
        "1.5 KiB",
        "12 B",
        "1.5 min",
        "0.5 s",
    )
