"""Secure aggregation by the real functions of sites and server, in one process: what comes out, and what the server
sees.
"""

import json

import numpy as np
import pytest
from scipy.stats import chisquare

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.runner import run
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData
from ggeur.flower.server.secure_aggregation import SecureAggregation
from ggeur.flower.wire.records import from_records
from ggeur.models.model import Model
from ggeur.privacy.secure_aggregation.fixed_point import encode
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import StatisticsQuery

MIXED = {"kind": "dirichlet", "clients": 4, "beta": 0.5}
SECURE = {"secure_aggregation": True, "radius": 20.0}
ASKED = ["query.hello", "query.keys", "query.masked", "query.seed", "query.score"]
WIDE = 48  # dimensions: enough bytes to tell noise from numbers


def tree(name, privacy=None, **more):
    return {"train": {"method": name}, "partition": MIXED, "privacy": SECURE | (privacy or {})} | more


@pytest.fixture
def opened(monkeypatch):
    """The totals that a server opens, by what they are of, and as which blocks."""
    found, total = {}, SecureAggregation.total

    def spied(self, asked):
        summed = total(self, asked)
        found[asked.what] = (summed.arrays, asked.blocks)
        return summed

    monkeypatch.setattr(SecureAggregation, "total", spied)
    return found


def received(deployment):
    """All that comes to the server, as it comes: (site, kind, facts, arrays)."""
    seen = []
    for k, site in enumerate(deployment.sites):

        def look(kind, number, reply, k=k):
            if reply is not None:
                seen.append((k, kind, *from_records(reply.content)))
            return reply

        site.change = look
    return seen


@pytest.mark.parametrize("method", ["lda", "ggeur-limit", "mixture"])
def test_a_solved_head_is_the_simulations_and_a_site_is_asked_three_times(secure, both, method):
    deployment = secure(tree(method))
    both(deployment)
    assert deployment.sites[0].asked == ASKED
    assert not list(deployment.folder.glob("store-*/*/*")), "secrets are gone with the run"
    assert Model.load(deployment.out).privacy["secure_aggregation"] is True


def test_rows_in_the_federations_units(secure, both):
    both(secure(tree("lda", data={"standardise": True})))


def test_what_fixed_point_cannot_hold_is_refused(secure, build_table):
    table = build_table()
    far = build_table(x=(table.x.astype(np.float64) + 20_000).astype(np.float32))
    with pytest.raises(GgeurError, match="a thousand times their spread"):
        secure(tree("lda", {"radius": 1e5}), table=far).run()
    with pytest.raises(GgeurError, match="set a radius nearer"):
        secure(tree("lda", {"radius": 1e5}), name="loose").run()


@pytest.mark.parametrize("method", ["scaffold", "fedproto", pytest.param("fedfa_gaussian", marks=pytest.mark.slow)])
def test_rounds_add_heads_up_under_masks(secure, both, method):
    """GGEUR's round 0 too: of the sites' statistics only the total is opened, and of what a method prepares."""
    train = {"rounds": 2, "batch_size": 8, "method": method}
    deployment = secure(tree(method, train=train, augment={"target": 20}))
    seen = received(deployment)
    both(deployment)
    what = [event["what"] for event in deployment.events("summed")]
    first = ["first messages"] if method == "fedfa_gaussian" else []
    assert what == ["statistics", *first, "messages of round 1", "messages of round 2"]
    for _, kind, facts, arrays in seen:
        assert arrays.keys() <= ({"masked"} if kind == "query.masked" else {"confusion"}), kind
        assert not facts.keys() & {"loss", "message", "prepared"}


def test_a_site_weighs_what_it_weighs_in_the_clear(secure, both):
    train = {"rounds": 2, "batch_size": 8, "method": "fedavg", "weights": "original", "start": "lda"}
    both(secure(tree("fedavg", train=train, augment={"kind": "none"})))


def wide(build_table, lacking=()):
    """A table of many dimensions; domain 0's samples of classes that it is `lacking` are another's."""
    rng, table = np.random.default_rng(1), build_table()
    x = rng.normal(size=(len(table.y), WIDE)) + table.y[:, None]
    keep = ~(np.isin(table.y, lacking) & (table.domain == 0))
    return EmbeddingTable(x[keep].astype(np.float32), table.y[keep], domain=table.domain[keep])


@pytest.mark.parametrize("kind", ["pooled", "per-class"])
def test_the_total_is_that_of_the_plain_sums(secure, opened, build_table, kind):
    deployment = secure(tree("ggeur-limit", augment={"covariance": kind}), table=wide(build_table))
    deployment.run()
    setup = Setup.of(deployment.simulated.points[0])
    solved = setup.algorithm
    plain = TrialData().clients(setup, 0).statistics(solved.query)
    arrays, _ = opened["statistics"]
    for name, expected in (("count", plain.count), ("sum", plain.sum)):
        total = sum(array for key, array in arrays.items() if key.endswith(name))
        assert np.abs(total - expected).max() <= 1e-7 * np.abs(expected).max(), name
    upper = plain.second[:, *np.triu_indices(WIDE)]
    total = sum(array for key, array in arrays.items() if key.endswith("second"))
    assert np.abs(total - upper).max() <= 1e-7 * np.abs(upper).max()
    assert np.array_equal(sum(a for key, a in arrays.items() if key.endswith("count")), plain.count), "exactly"


def bytes_test(vector):
    """The p-value of a chi-square test that all bytes come equally often."""
    return chisquare(np.bincount(vector.view(np.uint8), minlength=256)).pvalue


@pytest.mark.parametrize("lacking", [(), (0, 2)], ids=["all classes", "a site lacks classes"])
def test_what_the_server_receives_is_noise_to_it(secure, opened, build_table, lacking):
    """The same test finds out an unmasked vector, and the zeros of a class that a site lacks."""
    by_domain = {"partition": {"kind": "domain"}}
    deployment = secure(tree("lda") | by_domain, table=wide(build_table, lacking))
    seen = received(deployment)
    deployment.run()
    masked = [arrays["masked"] for _, kind, _, arrays in seen if kind == "query.masked"]
    assert len(masked) == 3 and all(vector.dtype == np.uint64 for vector in masked)
    for vector in masked:
        assert bytes_test(vector) > 1e-4
        assert bytes_test(vector[: 4 * (1 + WIDE)]) > 1e-4, "counts and sums, of all classes alike"
    arrays, blocks = opened["statistics"]
    assert bytes_test(encode(arrays, blocks, 3)) < 1e-4
    others = [(kind, name) for _, kind, _, arrays in seen for name in arrays if name != "masked"]
    assert {kind for kind, _ in others} == {"query.score"}, "nothing but masked vectors, and tables of test samples"
    for _, kind, facts, _ in seen:
        assert kind != "query.hello" or set(np.ravel(facts["count"])) <= {0, 1}, "counts are not told"


def test_with_noise_each_site_adds_its_share_and_notes_what_it_spent(secure, opened):
    noise = {"epsilon": 100.0, "radius": 1.0}
    deployment = secure(tree("ridge", noise))
    deployment.run()
    ledger = [json.loads(line) for line in (deployment.folder / "store-2" / "privacy.jsonl").read_text().splitlines()]
    assert [(one["epsilon"], one["unit"]) for one in ledger] == [(100.0, "record")]
    setup = Setup.of(deployment.simulated.points[0])
    exact = TrialData().clients(setup, 0).statistics(StatisticsQuery("pooled"))
    arrays, _ = opened["statistics"]
    sd = setup.release.total_noise("pooled", [4])
    assert 0.5 < np.std(arrays["sum"] - exact.sum) / sd.sum < 1.7, "of the total: sigma, a little more, and once"
    near = secure(tree("ridge", {"epsilon": 1e12, "radius": 1.0}), name="near")
    near.run()
    run(near.simulated, out=near.folder / "simulated")
    for name, ours in near.head().items():
        theirs = near.head(out=near.folder / "simulated")[name]
        assert 0 < np.abs(ours - theirs).max() <= 0.02 * np.abs(theirs).max(), name


def test_a_client_is_hidden_where_only_the_total_is_seen(secure):
    hidden = {"epsilon": 1e6, "radius": 1.0, "unit": "client", "clip": 20.0}
    deployment = secure(tree("ridge", hidden))
    deployment.run()
    assert Model.load(deployment.out).privacy["unit"] == "client"


REFUSED = {
    "such as ridge, or ggeur-limit where": tree("auto"),
    "needs 3 sites, not 2": tree("lda", partition=MIXED | {"clients": 2}),
    "needs every client's own message": tree("fedgen", augment={"kind": "none"}),
    "'fedmix' needs every": tree("fedmix", augment={"kind": "none"}),
    "leave clients_per_round out": tree(
        "x", train={"method": "fedavg", "clients_per_round": 2}, augment={"kind": "none"}
    ),
    "needs the means of every client": tree("ggeur-limit", augment={"covariance": "none"}),
    "means of single clients": tree("fedavg", augment={"covariance": "none"}),
    "no prototypes of single domains": tree("fedavg", augment={"steps": 2}),
    "guided below 1": tree("fedavg", augment={"guided": 0.8}),
    "needs radius": {"train": {"method": "lda"}, "partition": MIXED, "privacy": {"secure_aggregation": True}},
    "cannot vary": {
        "train": {"method": "lda"},
        "partition": MIXED,
        "privacy": {"secure_aggregation": [True, False], "radius": 1.0},
    },
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_a_total_is_not_enough_for_is_refused_before_anybody_is_asked(secure, sentence):
    with pytest.raises(GgeurError, match=sentence):
        secure(REFUSED[sentence]).run()


def test_domains_of_fewer_than_three_sites_are_not_kept_apart(secure):
    deployment = secure(tree("mixture", partition={"kind": "domain"}))
    with pytest.raises(GgeurError, match="'art' has 1 site, where a secure aggregation needs 3"):
        deployment.run()
    assert deployment.sites[0].asked == ["query.hello"]


def test_no_site_can_join_or_leave_a_model_under_secure_aggregation(secure):
    from ggeur.experiments.table_contributions import contributions_of_point
    from ggeur.flower.server.reopening import reopen
    from ggeur.models.joining import Opened

    deployment = secure(tree("lda"))
    deployment.run()
    assert not list(deployment.out.rglob("*.npz")) or {p.name for p in deployment.out.rglob("*.npz")} == {"head.npz"}
    with pytest.raises(GgeurError, match="no single site can join"):
        Opened.at(deployment.out / "model" / "trial-000", custom=False)
    with pytest.raises(GgeurError, match="one more site would reveal"):
        reopen(deployment.out, deployment.experiment)
    with pytest.raises(GgeurError, match="contributions are not computed"):
        contributions_of_point(deployment.simulated.points[0], 0, "lda")


def test_a_site_with_a_roster_answers_under_masks_alone(secure):
    plain = secure({"train": {"method": "lda"}, "partition": MIXED, "federate": {"wait": 0.1}})
    with pytest.raises(GgeurError, match="0 of 4 sites"):
        plain.run()
    assert "secure_aggregation alone" in plain.events("silent")[0]["why"]
