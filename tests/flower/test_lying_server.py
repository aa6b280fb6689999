"""What a server that lies once got out of sites, and gets no more: each of these laid somebody bare."""

import copy
import json

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment
from ggeur.flower.machines.certificates import make_node_key
from ggeur.flower.server.trial_run import _whole
from ggeur.flower.site import secure_aggregation
from ggeur.flower.site.data import SiteData
from ggeur.flower.site.opening import augment_site, statistics, sums
from ggeur.flower.site.request import Request
from ggeur.flower.site.scoring import score
from ggeur.flower.wire.packing import tree_to_arrays
from ggeur.privacy.secure_aggregation.keys import Attempt, Secrets, announce, sign
from ggeur.privacy.secure_aggregation.masks import bound_question
from ggeur.stats.errors import GgeurError
from ggeur.stats.units import Units

pytestmark = pytest.mark.needs("flower")

SECURE = {"secure_aggregation": True, "radius": 20.0}
NOISE = {"epsilon": 1.0, "radius": 20.0}
CLASSES = ("ant", "bee")
ASKED = {"kind": "pooled", "by_domain": False}


class Server:
    """It holds no samples, and may ask sites of these `domains` whatever it likes."""

    def __init__(self, folder, domains, privacy=SECURE):
        self.folder, rng = folder, np.random.default_rng(0)
        self.sites = []
        for k, domain in enumerate(domains):
            make_node_key(folder / f"node-{k}")
            y = np.arange(6 + k) % 2
            x = rng.standard_normal((len(y), 4)).astype(np.float32)
            one = {"class_names": CLASSES, "domain_names": (domain,), "test": np.arange(len(y)) > 3 + k}
            EmbeddingTable(x=x, y=y, domain=np.zeros(len(y), int), **one).save(folder / f"{k}.npz")
            self.sites.append({"partition-id": k, "table": str(folder / f"{k}.npz"), "store": str(folder / f"at-{k}")})
        (folder / "roster").write_text(
            "".join(f"{k} {(folder / f'node-{k}.pub').read_text()}" for k in range(len(domains)))
        )
        if privacy.get("secure_aggregation"):
            for k, site in enumerate(self.sites):
                site |= {"roster": str(folder / "roster"), "key": str(folder / f"node-{k}")}
        deal = {"kind": "dirichlet", "clients": len(domains), "beta": 0.5}
        tree = {"data": {"table": str(folder / "0.npz")}, "train": {"method": "ridge"}, "partition": deal}
        point = _whole(Experiment.of({**tree, "privacy": privacy}).points[0])
        names = {"classes": CLASSES, "domains": sorted(set(domains))}
        self.common = {"run": "ab" * 16, "trial": 0, "seed": 0, "point": point, **names}

    def ask(self, k, question, arrays=None, **facts):
        return question(Request(SiteData(self.sites[k]), copy.deepcopy(self.common | facts), arrays or {}))

    def opens(self, name, sites, what="statistics", league=None, **kind):
        """Have a total opened; sites in `league` with it say that they have samples of domains of its choice."""
        told = {"attempt": {"what": what, "name": name, "sites": list(sites)}}
        asked = {"asks": "statistics", "kind": "pooled", "by_domain": False} | kind
        attempt, own, league = Attempt(f"{self.common['run']}-0", what, name, tuple(sites)), {}, league or {}
        announced = {}
        for k in sites:
            if k in league:
                own[k] = Secrets.new()
                announced[k] = announce(attempt, k, own[k], league[k], self.folder / f"node-{k}")
                continue
            told_key = self.ask(k, secure_aggregation.keys, **told)[0]["key"]
            announced[k] = secure_aggregation._announced({"keys": {k: told_key}})[k]
        facts = told | asked | {"keys": {str(k): one._asdict() for k, one in announced.items()}}
        receipts = {
            str(k): self.ask(k, secure_aggregation.masked, **facts)[0]["receipt"] for k in sites if k not in league
        }
        for k in league:
            question = secure_aggregation._question(Request(SiteData(self.sites[sites[0]]), self.common | facts, {}))
            text = attempt.text("sent", bound_question(attempt, announced, question).hex())
            receipts[str(k)] = sign(self.folder / f"node-{k}", text)
        for k in sites:
            if k not in league:
                self.ask(k, secure_aggregation.seed, **told, receipts=receipts)


def test_three_sums_of_overlapping_sites(tmp_path):
    server = Server(tmp_path, ["art"] * 5)
    server.opens("a", [0, 1, 2], "one")
    with pytest.raises(GgeurError, match="would reveal what"):  # (a + b - c) / 2 would be the first site's
        server.opens("b", [0, 3, 4], "two")


def test_the_name_of_an_attempt_is_used_again(tmp_path):
    server = Server(tmp_path, ["art"] * 10)
    server.opens("x", range(10), "one")
    server.opens("x", range(7), "two")
    with pytest.raises(GgeurError, match="would reveal what"):
        server.opens("y", range(6), "three")


def test_a_difference_within_a_domain(tmp_path):
    server = Server(tmp_path, ["art"] * 4 + ["photo"] * 5)
    server.opens("a", range(9), "one", by_domain=True)
    with pytest.raises(GgeurError, match="would reveal what"):
        server.opens("b", [0, 1, 2, 6, 7, 8], "two", by_domain=True)


def test_a_domain_that_one_names_twice_counts_once(tmp_path):
    server = Server(tmp_path, ["art", *["photo"] * 4])
    with pytest.raises(GgeurError, match="of 2 sites"):
        server.opens("a", range(5), league={4: ("art", "art")}, by_domain=True)


def test_a_second_message_under_epsilon(tmp_path):
    server = Server(tmp_path, ["art"] * 3, SECURE | NOISE)
    server.opens("a", range(3), "one")
    with pytest.raises(GgeurError, match="joins no second one"):
        server.opens("b", range(3), "two")


def test_exact_answers_under_epsilon(tmp_path):
    server, asked = Server(tmp_path, ["art"], NOISE), {"kind": "pooled", "by_domain": False}
    tiny = {"units": Units(np.zeros(4), 1e-9).pack()}
    with pytest.raises(GgeurError, match="no other units"):
        server.ask(0, statistics, tiny, **asked)
    for question in (sums, augment_site):
        with pytest.raises(GgeurError, match="under .privacy. epsilon"):
            server.ask(0, question)
    first = server.ask(0, statistics, **asked)[1]["sum"]
    np.testing.assert_array_equal(server.ask(0, statistics, **asked, trial=1)[1]["sum"], first)  # no other draw


def test_a_log_of_0_2_still_counts(tmp_path):
    server = Server(tmp_path, ["art"] * 5)
    server.opens("a", [0, 1, 2], "one")
    for k in range(3):
        (tmp_path / f"at-{k}" / "aggregations.jsonl").rename(tmp_path / f"at-{k}" / "sums.jsonl")
    with pytest.raises(GgeurError, match="would reveal what"):
        server.opens("b", [0, 3, 4], "two")


def test_a_damaged_log(tmp_path):
    server = Server(tmp_path, ["art"] * 3)
    server.opens("a", range(3))
    log = tmp_path / "at-0" / "aggregations.jsonl"
    log.write_text(log.read_text()[:-20])
    with pytest.raises(GgeurError, match="is damaged"):
        server.opens("b", range(3), "two")


def point_of(server, **privacy):
    return {**server.common["point"], "privacy": {**server.common["point"]["privacy"], **privacy}}


def test_a_seed_is_asked_for_under_another_epsilon_than_its_vector(tmp_path):
    """The vector's counts: under a budget of one message, a second is refused whatever its seed is asked under."""
    server = Server(tmp_path, ["art"] * 3, SECURE | NOISE)
    for site in server.sites:
        site["epsilon"] = "1.0"
    honest, cheap = server.common["point"], point_of(server, epsilon=1e-6)
    ask = server.ask

    def lying(k, question, arrays=None, **facts):
        return ask(k, question, arrays, **facts, point=cheap if question is secure_aggregation.seed else honest)

    server.ask = lying
    server.opens("a", range(3), "one")
    (line,) = (tmp_path / "at-0" / "privacy.jsonl").read_text().splitlines()
    assert json.loads(line)["epsilon"] == 1.0
    server.common["run"] = "cd" * 16
    with pytest.raises(GgeurError, match="it has spent"):
        server.opens("b", range(3), "one")


def test_vectors_alone_are_asked_for_under_epsilon(tmp_path):
    """Keys and seeds without it: a second sum of the run is a second message all the same."""
    server = Server(tmp_path, ["art"] * 3, SECURE | NOISE)
    noisy, exact = server.common["point"], point_of(server, epsilon=None)
    ask = server.ask

    def lying(k, question, arrays=None, **facts):
        return ask(k, question, arrays, **facts, point=noisy if question is secure_aggregation.masked else exact)

    server.ask = lying
    server.opens("a", range(3), "one")
    assert (tmp_path / "at-0" / "privacy.jsonl").exists()
    with pytest.raises(GgeurError, match="joins no second one"):
        server.opens("b", range(3), "two")


@pytest.mark.parametrize("privacy", [SECURE, NOISE])
def test_rows_that_are_test_rows_under_a_seed_of_the_servers(tmp_path, privacy):
    """Whatever the seed, the same samples are: and one sample more moves no other between training and test."""
    server, rng = Server(tmp_path, ["art"] * 3, privacy), np.random.default_rng(0)
    x, names = rng.standard_normal((300, 4)).astype(np.float32), {"class_names": CLASSES, "domain_names": ("art",)}

    def held_out(samples, seed):
        EmbeddingTable(x=x[:samples], y=np.arange(samples) % 2, domain=np.zeros(samples, int), **names).save(
            tmp_path / "0.npz"
        )
        return server.ask(0, lambda request: request.table().test, seed=seed)

    first = held_out(299, 0)
    assert 0.2 < first.mean() < 0.4
    np.testing.assert_array_equal(held_out(299, 7), first)
    np.testing.assert_array_equal(held_out(300, 7)[:299], first)


def test_right_answers_to_many_heads(tmp_path):
    """A site with a budget scores one head in a run, and only where it has been paid for statistics."""
    server = Server(tmp_path, ["art"], NOISE)
    server.sites[0]["epsilon"] = "1.0"
    heads = [tree_to_arrays({"W": np.full((2, 4), v), "b": np.zeros(2)}, "head") for v in (0.0, 1.0)]
    asked = [(arrays, {"kind": "linear", "head": shape}) for arrays, shape in heads]
    with pytest.raises(GgeurError, match="sent statistics in"):
        server.ask(0, score, asked[0][0], **asked[0][1])
    server.ask(0, statistics, **ASKED)
    first = server.ask(0, score, asked[0][0], **asked[0][1])[0]
    assert server.ask(0, score, asked[0][0], **asked[0][1], trial=3)[0] == first
    with pytest.raises(GgeurError, match="scores one"):
        server.ask(0, score, asked[1][0], **asked[1][1], trial=1)


def test_another_bound_than_the_first(tmp_path):
    """Sums of the same samples under many bounds are equations about those that are longer."""
    server = Server(tmp_path, ["art"], {"min_count": 2, "radius": 20.0})
    server.sites[0]["min-count"] = 2
    server.ask(0, statistics, **ASKED)
    with pytest.raises(GgeurError, match=r"first asked with radius = 20\.0"):
        server.ask(0, statistics, **ASKED, point=point_of(server, radius=1.0))
