"""The audit: every party sees what the code sends, and the verdicts are what the attacks come to."""

from types import SimpleNamespace

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.audit import PARTIES, audit, table_settings
from ggeur.experiments.released import OtherClient, Released
from ggeur.experiments.settings import settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData
from ggeur.federation import local_federation
from ggeur.federation.augmentation_plan import plan_augmentation
from ggeur.flower.server.round_zero import RoundZero
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import StatisticsQuery

P = 16
# Samples of each class (columns) that each domain (samples) holds for training; each is a client.
COUNT = np.array([[1, 2, 3, 40, 0], [12, 2, 8, 40, 2], [12, 0, 9, 40, 0]])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A table with small groups, whose test samples are as many in every group."""
    group = np.argwhere(np.ones_like(COUNT))
    at = np.concatenate([np.repeat(group, COUNT.ravel(), axis=0), np.repeat(group, 30, axis=0)])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, P))[at[:, 0]] + 2 * rng.normal(size=(5, P))[at[:, 1]] + rng.normal(size=(len(at), P))
    table = EmbeddingTable(
        x=x.astype(np.float32),
        y=at[:, 1],
        domain=at[:, 0],
        test=np.arange(len(at)) >= COUNT.sum(),
        class_names=("a", "b", "c", "d", "e"),
        domain_names=("art", "photo", "sketch"),
    )
    made = tmp_path_factory.mktemp("audit") / "t.npz"
    table.save(made)
    return made


def point(path, covariance="per-class", **train):
    if not train:
        return table_settings(path, "domain", 10, 0.1, covariance, 0)
    return settings({"data": {"table": str(path)}, "partition": {"kind": "domain"}, "train": train})


def found(done, party):
    """(K, C) of what a party found; None where a client holds none of a class."""
    made = np.full(COUNT.shape, None)
    for f in done.of(party):
        made[f.client, f.label] = f.found
    return made


def test_the_server_recovers_every_group_of_one_and_two_rows(path):
    done = audit(point(path), 0)
    server = found(done, "server")
    assert (server[(COUNT == 1) | (COUNT == 2)] == "exact samples").all()
    assert (server[(COUNT > 2) & (COUNT <= P)] == "span").all()
    assert (server[COUNT > P] == "membership").all() and (server[COUNT == 0] == None).all()  # noqa: E711
    assert sum(f.recovered for f in done.of("server")) == COUNT[COUNT <= 2].sum() == done.exact
    assert all(f.auc > 0.6 and f.verdict == f"membership AUC {f.auc:.2f}" for f in done.of("server") if f.samples == 40)


@pytest.mark.parametrize("statistics", ["pooled", "none"])
def test_pooled_moments_and_means_give_away_single_rows_alone(path, statistics):
    server = found(audit(point(path, statistics), 0), "server")
    assert (server[COUNT == 1] == "exact samples").all() and not (server[COUNT > 1] == "exact samples").any()


def test_features_give_away_the_only_class_of_a_site_and_no_other(tmp_path):
    """Where the pooled scatter is that of one class, sums of features tell its samples; by itself it does not."""
    rng, count = np.random.default_rng(3), np.array([[8, 1, 0], [9, 8, 7]])
    groups = np.argwhere(count >= 0)
    at = np.concatenate([np.repeat(groups, n, axis=0) for n in (count.ravel(), 20)])
    x = rng.normal(size=(2, P))[at[:, 0]] + 2 * rng.normal(size=(3, P))[at[:, 1]] + rng.normal(size=(len(at), P))
    test = np.arange(len(at)) >= count.sum()
    EmbeddingTable(x=x, y=at[:, 1], domain=at[:, 0], test=test, domain_names=("a", "b")).save(tmp_path / "t.npz")
    plain, kernel = (audit(point(tmp_path / "t.npz", method=name), 0) for name in ("lda", "kernel"))
    recovered = [{(f.client, f.label): f.recovered for f in done.of("server")} for done in (plain, kernel)]
    assert recovered[0] == {(0, 0): 0, (0, 1): 1, (1, 0): 0, (1, 1): 0, (1, 2): 0}
    assert recovered[1] == recovered[0] | {(0, 0): 8}
    assert all(f.found in ("span", "membership") for f in kernel.of("server") if f.client == 1)
    assert all(f.found == "not sent" for f in kernel.of("other client"))
    tables = audit(point(tmp_path / "t.npz", method="safle"), 0).of("server")
    assert any(f.found == "membership" for f in tables)


def test_another_client_reads_a_single_row_off_a_prototype(path):
    other = found(audit(point(path), 0), "other client")
    assert (other[COUNT == 1] == "exact samples").all() and not (other[COUNT > 1] == "exact samples").any()


def test_the_total_gives_away_a_class_of_one_site_and_of_two(path):
    """Class e is at one site; of class b, at two, each takes its own samples off."""
    total = found(audit(point(path), 0), "total")
    assert total[1, 4] == total[0, 1] == total[1, 1] == "exact samples"
    assert total[0, 0] != "exact samples"  # three hold class a


@pytest.mark.parametrize("statistics", ["per-class", "pooled", "none"])
def test_with_a_threshold_nobody_recovers_a_row(path, statistics):
    done = audit(point(path, statistics), 0, min_count=10)
    assert done.exact == 0
    server = found(done, "server")
    assert (server[(COUNT > 0) & (COUNT < 10)] == "not sent").all() and not (server[COUNT >= 10] == "not sent").any()


def test_a_threshold_above_every_group_is_refused(path):
    with pytest.raises(GgeurError, match="above every group"):
        audit(point(path), 0, min_count=1000)


def test_an_audit_repeats_itself_to_the_bit(path):
    assert audit(point(path), 0).findings == audit(point(path), 0).findings


def test_the_audit_looks_at_what_leaves_a_site(path, monkeypatch):
    """What `summarise` leaves out of a message, nobody finds."""
    keep, whole = np.array([True, False, True, True, True]), local_federation.summarise
    monkeypatch.setattr(local_federation, "summarise", lambda *of: whole(*of).only(keep))
    done = audit(point(path), 0)
    for party in ("server", "total"):
        assert set(found(done, party)[:2, 1]) == {"not sent"}
    assert "exact samples" not in found(done, "other client")[:, 1]


def sent(path, **train):
    trial_data, setup = TrialData(), Setup.of(point(path, **train))
    return Released(setup, trial_data.clients(setup, 0), 0)


def test_another_client_is_credited_with_what_a_server_sends_it(path):
    made = sent(path)
    a = made.setup.augmentation
    layout, shapes, _ = plan_augmentation(made.federation, a, P, "")
    clients = [SimpleNamespace(index=k) for k in range(3)]
    arrays = RoundZero(None, clients, layout, shapes).for_client(1)
    group = OtherClient(made).group(0, 1)  # of the first domain, whose prototypes come first
    np.testing.assert_array_equal(group.mean, arrays["prototypes"][0, 1])
    assert arrays["factor_of"][1] >= 0 and group.spread is not None


def test_messages_and_total_are_those_of_a_run(path):
    made = sent(path)
    run = made.clients.statistics(StatisticsQuery("per-class"))
    np.testing.assert_allclose(made.total().second, run.second, rtol=1e-12)
    ((samples, message),) = made.seen(1)
    np.testing.assert_array_equal(message.sum, made.clients.message(samples, "per-class").sum)


@pytest.mark.parametrize("method", ["lda", "auto"])
def test_a_solved_head_sends_others_nothing_and_one_that_is_selected_no_more_than_it(path, method):
    made = sent(path, method=method)
    assert len(made.parts(2)) == 1 and sum(map(len, made.parts(2).values())) == COUNT[2].sum()
    assert set(found(audit(point(path, method=method), 0), "other client")[COUNT > 0]) == {"not sent"}


@pytest.fixture(scope="module")
def one_domain(tmp_path_factory):
    """Five sites of one domain: class a has many samples, b ten, c five, d two and e one, test samples aside."""
    samples, rng = np.array([400, 10, 5, 2, 1]), np.random.default_rng(1)
    y = np.concatenate([np.repeat(np.arange(5), samples), np.repeat(np.arange(5), 30)])
    x = 2 * rng.normal(size=(5, P))[y] + rng.normal(size=(len(y), P))
    made = tmp_path_factory.mktemp("audit") / "one.npz"
    EmbeddingTable(x=x.astype(np.float32), y=y, test=np.arange(len(y)) >= samples.sum()).save(made)
    return made


def test_one_of_three_holders_takes_itself_off(tmp_path):
    """Five samples at the first site, one at each other: what is left for the first are these two."""
    y, rng = np.repeat([0, 1], [7, 40]), np.random.default_rng(0)
    d = np.array([0] * 5 + [1, 2] + [0, 1] * 20)
    x = rng.normal(size=(len(y) + 20, P)).astype(np.float32)
    test = np.arange(len(x)) >= len(y)
    y, d = np.append(y, [0, 1] * 10), np.append(d, [0, 1] * 10)
    EmbeddingTable(x=x, y=y, domain=d, test=test, domain_names=("a", "b", "c")).save(tmp_path / "t.npz")
    done = {(f.client, f.label): f for f in audit(point(tmp_path / "t.npz"), 0).of("total")}
    assert done[1, 0].recovered == done[2, 0].recovered == 1 and done[0, 0].recovered == 0


def test_the_sum_behind_units_is_the_row_of_a_client_that_has_one(tmp_path):
    y, d = np.repeat([0, 1], 21), np.array([0] * 20 + [1] + [0] * 21)
    x = np.random.default_rng(0).normal(size=(62, P)).astype(np.float32)
    y, d, test = np.append(y, [0, 1] * 10), np.append(d, [0] * 20), np.arange(62) >= 42
    EmbeddingTable(x=x, y=y, domain=d, test=test, domain_names=("a", "b")).save(tmp_path / "t.npz")
    plain = {"data": {"table": str(tmp_path / "t.npz"), "standardise": True}, "partition": {"kind": "domain"}}
    model = Model({"W": np.zeros((2, P)), "b": np.zeros(2)}, "linear", P, ("0", "1"), {})
    done = audit(settings({**plain, "augment": {"kind": "none"}}), 0, model=model)
    assert [f.recovered for f in done.of("server") if f.client == 1] == [1] and done.exact == 1


def test_under_noise_auto_sends_one_message(one_domain):
    asked = settings(
        {
            "data": {"table": str(one_domain)},
            "partition": {"kind": "dirichlet", "clients": 5, "beta": 5.0, "min_per_class": 0},
            "train": {"method": "auto"},
            "privacy": {"radius": 20.0, "epsilon": 1.0, "samples": 400},
        }
    )
    made = Released(Setup.of(asked), TrialData().clients(Setup.of(asked), 0), 0)
    assert made.kind == "none" and [len(made.parts(k)) for k in range(5)] == [1] * 5


def test_a_bound_is_no_federation(path):
    with pytest.raises(GgeurError, match="no federation"):
        audit(point(path, method="central"), 0)


@pytest.mark.real
@pytest.mark.parametrize(("statistics", "small"), [("per-class", 2), ("pooled", 1)])
def test_on_real_embeddings_all_small_groups_fall_and_none_with_a_threshold(shared, statistics, small):
    table = shared / "data" / "embeddings" / "office_caltech10.tinyvit.npz"
    asked = table_settings(table, "dirichlet", 10, 0.1, statistics, 0)
    done = audit(asked, 0)
    groups = [f for f in done.of("server") if f.samples <= small]
    assert len(groups) > 10 and all(f.found == "exact samples" and f.recovered == f.samples for f in groups)
    assert {f.party for f in done.findings} == set(PARTIES)
    assert audit(asked, 0, min_count=10).exact == 0
