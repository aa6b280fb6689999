"""Secure aggregation where sites are lost and where the server lies: real sites' functions against a server that is
played.
"""

import copy
import json

import numpy as np
import pytest
from scipy.stats import chisquare

from ggeur.flower.server.trial_run import _whole
from ggeur.flower.site import secure_aggregation as half
from ggeur.flower.site.data import SiteData
from ggeur.flower.site.opening import statistics
from ggeur.flower.site.request import Request
from ggeur.flower.wire.records import from_records, to_records
from ggeur.privacy.secure_aggregation.fixed_point import decode
from ggeur.privacy.secure_aggregation.keys import Announced, Attempt, Secrets, transcript
from ggeur.privacy.secure_aggregation.masks import unmask
from ggeur.stats.errors import GgeurError

MIXED = {"kind": "dirichlet", "clients": 4, "beta": 0.5}
LDA = {"train": {"method": "lda"}, "partition": MIXED, "privacy": {"secure_aggregation": True, "radius": 20.0}}
ROUNDS = LDA | {"train": {"method": "scaffold", "rounds": 3, "batch_size": 8}, "augment": {"kind": "none"}}
SHORT = {"federate": {"wait": 0.1}}


def silent(kind, times):
    """A site that does not answer so many questions of this kind; -1 for none."""
    asked = []

    def change(found, number, reply):
        asked.extend([found] if found == kind else [])
        return None if found == kind and (times < 0 or len(asked) <= times) else reply

    return change


def assert_same(deployment, other):
    assert deployment.head().keys() == other.head().keys()
    for name, leaf in other.head().items():
        np.testing.assert_allclose(deployment.head()[name], leaf, rtol=0, atol=1e-6 * np.abs(leaf).max())


@pytest.mark.parametrize("kind", ["query.keys", "query.masked"])
def test_a_site_lost_before_its_vector_has_the_others_begin_again_with_new_keys(secure, kind):
    lost, alone = secure(LDA, name="lost"), secure(LDA, name="alone")
    keys = set()

    def look(found, number, reply):
        if found == "query.keys":
            keys.add(from_records(reply.content)[0]["key"]["public"])
        return reply

    lost.sites[0].change = look
    lost.sites[1].change = silent(kind, 1)
    (trial,) = lost.run().trials
    alone.experiment = alone.without(1)
    alone.run()
    assert_same(lost, alone)
    assert len(keys) == 2, "a key serves one attempt"
    assert [site.asked.count("query.seed") for site in lost.sites] == [1, 0, 1, 1]
    assert len(lost.events("restarted")) == 1 and lost.events("summed")[0]["sites"] == [0, 2, 3]
    assert trial.message == "Missing: client 1 in round 0.", "it is back by the end, and cannot be added"


def test_a_site_lost_after_its_vector_is_waited_for(secure, both):
    deployment = secure(LDA)
    deployment.sites[1].change = silent("query.seed", 1)
    both(deployment)
    assert [site.asked.count("query.seed") for site in deployment.sites] == [1, 2, 1, 1]
    assert deployment.events("missing")[0]["client"] == 1


def test_without_its_seed_nothing_is_opened_and_it_must_be_back_for_the_run_to_go_on(secure):
    lost, whole = secure(LDA | SHORT, name="lost"), secure(LDA, name="whole")
    lost.sites[1].change = silent("query.seed", -1)
    with pytest.raises(GgeurError, match="Client 1 was lost after its vector had come"):
        lost.run()
    assert not lost.events("summed") and lost.events("stopped")[0]["resumable"]
    lost.sites[1].online = False
    with pytest.raises(GgeurError, match="0 sites remain"):
        lost.run(resume=True)
    why = [event["why"] for event in lost.events("refused")]
    assert len(why) == 3 and all("would reveal what site 1 added" in one for one in why)
    lost.sites[1].online, lost.sites[1].change = True, lambda kind, number, reply: reply
    lost.run(resume=True)
    whole.run()
    assert_same(lost, whole)


def test_a_round_waits_for_a_site_that_was_lost_in_it(secure, both):
    deployment = secure(ROUNDS)
    deployment.sites[1].change = silent("query.masked", 1)
    both(deployment)
    assert len(deployment.events("restarted")) == 1
    assert [e["sites"] for e in deployment.events("summed")] == 3 * [[0, 1, 2, 3]]


def test_a_round_whose_seeds_were_partly_shown_is_gone_on_with(secure):
    """Sites join no second attempt at it; they repeat what they sent in the first."""
    lost, whole = secure(ROUNDS | SHORT, name="lost"), secure(ROUNDS, name="whole")
    lost.grid.before = lambda kind, group: lost.sites[1].deaf.add(2) if (kind, group) == ("query.seed", "2") else None
    with pytest.raises(GgeurError, match="Client 1 was lost after its vector"):
        lost.run()
    lost.sites[1].deaf, lost.grid.before = set(), lambda kind, group: None
    lost.run(resume=True)
    whole.run()
    assert_same(lost, whole)
    log = [json.loads(line) for line in (lost.folder / "store-0" / "aggregations.jsonl").read_text().splitlines()]
    assert [one["what"] for one in log] == [f"messages of round {n}" for n in (1, 2, 3)], "each opened once"


def test_a_key_that_the_server_puts_in_between_is_refused_and_no_vector_leaves(secure):
    deployment = secure(LDA)
    app, sent = deployment.grid.app, []

    def swapped(message, context):
        if message.metadata.message_type == "query.masked" and context.node_config["partition-id"] == 0:
            facts, arrays = from_records(message.content)
            facts["keys"]["1"]["public"] = "ab" * 32
            message.content = to_records(facts, arrays)
        reply = app(message, context)
        if context.node_config["partition-id"] == 0:
            sent.extend(from_records(reply.content)[1])
        return reply

    deployment.grid.app = swapped
    deployment.run()
    (refused,) = deployment.events("refused")
    assert refused["client"] == 0 and "site 1's is not signed by the key that the roster has" in refused["why"]
    assert deployment.events("summed")[0]["sites"] == [1, 2, 3] and "masked" not in sent


class Server:
    """Whoever has the server, and asks sites what it likes."""

    def __init__(self, deployment, run="ab" * 16):
        point = deployment.experiment.points[0]
        self.sites, p, self.folder = [site.config for site in deployment.sites], _whole(point), deployment.folder
        classes, domains = ("ant", "bee", "cat", "dog"), ("art", "photo", "sketch")
        self.common = {"run": run, "trial": 0, "seed": 0, "point": p, "classes": classes, "domains": domains}
        self.kind = {"asks": "statistics", "kind": "pooled", "by_domain": False}

    def ask(self, site, question, **facts):
        return question(Request(SiteData(self.sites[site]), copy.deepcopy(self.common | facts)))

    def attempt(self, name, sites, what="statistics"):
        return {"attempt": {"what": what, "name": name, "sites": sites}}

    def keys(self, told):
        return {str(k): self.ask(k, half.keys, **told)[0]["key"] for k in told["attempt"]["sites"]}

    def vectors(self, told, keys):
        found = {}
        for k in told["attempt"]["sites"]:
            facts, arrays = self.ask(k, half.masked, **told, **self.kind, keys=keys)
            found[k] = (arrays["masked"], facts["receipt"])
        return found

    def seeds(self, told, vectors):
        receipts = {str(k): receipt for k, (_, receipt) in vectors.items()}
        return {k: self.ask(k, half.seed, **told, receipts=receipts)[0]["seed"] for k in vectors}

    def open(self, told, keys, vectors, seeds):
        run, a = f"{self.common['run']}-0", told["attempt"]
        announced = {int(k): Announced(v["public"], tuple(v["domains"]), v["signature"]) for k, v in keys.items()}
        total = np.sum([vector for vector, _ in vectors.values()], axis=0, dtype=np.uint64)
        unmask(total, seeds.values(), transcript(Attempt(run, a["what"], a["name"], tuple(a["sites"])), announced))
        return total


@pytest.fixture
def server(secure):
    return Server(secure(LDA))


def refuses(server, site, question, sentence, **facts):
    with pytest.raises(GgeurError, match=sentence):
        server.ask(site, question, **facts)


def noise(vector):
    return chisquare(np.bincount(vector.view(np.uint8), minlength=256)).pvalue > 1e-4


def test_the_server_that_is_played_does_open_a_total(server):
    """So that what follows fails for the sites' reasons."""
    told = server.attempt("one", [0, 1, 2, 3])
    keys = server.keys(told)
    vectors = server.vectors(told, keys)
    total = server.open(told, keys, vectors, server.seeds(told, vectors))
    from ggeur.flower.wire.blocks import statistics_blocks
    from ggeur.flower.wire.requested import RequestedStatistics

    found = decode(total, statistics_blocks(RequestedStatistics("pooled"), 3, 4, 5, 20.0), 4)
    assert np.array_equal(found["count"], np.round(found["count"])) and found["count"].sum() == 84


def test_a_site_that_is_called_lost_is_not_laid_bare_by_the_total_of_the_others(server):
    first = server.attempt("first", [0, 1, 2, 3])
    keys = server.keys(first)
    vectors = server.vectors(first, keys)  # all are there, and site 3 is called lost
    second = server.attempt("second", [0, 1, 2])
    others = server.vectors(second, server.keys(second))
    server.seeds(second, others)  # the total of sites 0, 1 and 2 is open
    receipts = {str(k): receipt for k, (_, receipt) in vectors.items()}
    for k in (0, 1, 2):  # and that of all four never will be
        refuses(server, k, half.seed, "no vector in this attempt", **first, receipts=receipts)
    assert server.ask(3, half.seed, **first, receipts=receipts)[0]["seed"], "which the one that was not told does show"
    left = vectors[3][0].copy()
    announced = {int(k): Announced(v["public"], tuple(v["domains"]), v["signature"]) for k, v in keys.items()}
    of = Attempt(f"{server.common['run']}-0", "statistics", "first", (0, 1, 2, 3))
    unmask(left, [server.ask(3, half.seed, **first, receipts=receipts)[0]["seed"]], transcript(of, announced))
    assert noise(left), "the masks that it shares with the others stay on"


def test_a_site_that_was_in_an_open_total_is_in_no_second_one_without_another(server):
    """Neither in another attempt, nor in another round, nor in another run, nor with two who change places."""
    first = server.attempt("first", [0, 1, 2, 3])
    vectors = server.vectors(first, server.keys(first))
    server.seeds(first, vectors)
    for k in range(3):
        refuses(server, k, half.keys, "joins no second one", **server.attempt("second", [0, 1, 2, 3]))
        refuses(server, k, half.keys, "what site 3 added", **server.attempt("second", [0, 1, 2], "another"))
    other = server.attempt("other", [0, 1, 2, 3], "another")
    server.keys(other)  # which has them forget the secrets of the first
    refuses(server, 0, half.keys, "joins no second one", **first)
    server.common["run"] = "cd" * 16
    refuses(server, 0, half.keys, "what site 3 added", **server.attempt("third", [0, 1, 2]))
    assert server.keys(server.attempt("third", [0, 1, 2, 3])), "the same four may add up again"


def test_a_late_site_that_joins_a_second_attempt_has_forgotten_the_first(server):
    first = server.attempt("first", [0, 1, 2, 3])
    keys = server.keys(first)
    vectors = server.vectors(first, keys)
    server.keys(server.attempt("second", [0, 1, 2, 3]))
    receipts = {str(k): receipt for k, (_, receipt) in vectors.items()}
    for k in range(4):
        refuses(server, k, half.seed, "no vector in this attempt", **first, receipts=receipts)
        refuses(server, k, half.masked, "no key in this attempt", **first, **server.kind, keys=keys)


def test_no_second_vector_for_other_keys_and_no_seed_before_everybody_has_sent(server, node_keys):
    told = server.attempt("one", [0, 1, 2, 3])
    keys = server.keys(told)
    vectors = server.vectors(told, keys)
    again = server.ask(0, half.masked, **told, **server.kind, keys=keys)[1]["masked"]
    np.testing.assert_array_equal(again, vectors[0][0], "the same bytes")
    from ggeur.privacy.secure_aggregation.keys import announce

    of = Attempt(f"{server.common['run']}-0", "statistics", "one", (0, 1, 2, 3))
    other = announce(of, 1, Secrets.new(), (), node_keys / "node-1")._asdict()  # a site in league with the server
    refuses(server, 0, half.masked, "sends no second one", **told, **server.kind, keys=keys | {"1": other})
    receipts = {str(k): receipt for k, (_, receipt) in vectors.items()}
    refuses(server, 0, half.seed, "not every site", **told, receipts={k: receipts[k] for k in "012"})
    refuses(server, 0, half.seed, "site 3's is not signed", **told, receipts=receipts | {"3": receipts["2"]})


def test_sites_that_are_asked_different_things_show_no_seed(server):
    """Settings by which the others have nothing to add would leave one site's sums alone in the total."""
    told = server.attempt("one", [0, 1, 2, 3])
    keys = server.keys(told)
    vectors = {}
    for k in range(4):
        point = copy.deepcopy(server.common["point"])
        point["privacy"] |= {"min_count": 10_000} if k else {}
        facts, arrays = server.ask(k, half.masked, **told, **server.kind, keys=keys, point=point)
        vectors[k] = (arrays["masked"], facts["receipt"])
    receipts = {str(k): receipt for k, (_, receipt) in vectors.items()}
    for k in range(4):
        refuses(server, k, half.seed, "is not signed", **told, receipts=receipts)
    total = np.sum([vector for vector, _ in vectors.values()], axis=0, dtype=np.uint64)
    own = [json.loads(path.read_text())["own"][1] for path in server.folder.glob("store-*/masks/*/attempt.json")]
    announced = {int(k): Announced(v["public"], tuple(v["domains"]), v["signature"]) for k, v in keys.items()}
    unmask(total, own, transcript(Attempt(f"{server.common['run']}-0", "statistics", "one", (0, 1, 2, 3)), announced))
    assert len(own) == 4 and noise(total), "and if they did, the masks of pairs would not cancel"


@pytest.mark.parametrize(
    ("sites", "sentence"),
    [
        ([0, 1], "needs 3 sites"),
        ([0, 0, 0], "not those of this site's roster"),
        ([1, 2, 3], "not those of this site's roster"),
        ([0, 1, 2, 9], "not those of this site's roster"),
    ],
)
def test_sets_of_sites_that_hide_nobody_are_refused(server, sites, sentence):
    refuses(server, 0, half.keys, sentence, **server.attempt("one", sites))


def test_over_half_of_the_roster_must_be_in_a_sum(server, node_keys, tmp_path):
    from ggeur.flower.machines.certificates import make_node_key

    lines = (node_keys / "roster").read_text()
    for k in (4, 5):
        make_node_key(tmp_path / f"node-{k}")
        lines += f"{k} {(tmp_path / f'node-{k}.pub').read_text()}"
    (tmp_path / "roster").write_text(lines)
    server.sites[0]["roster"] = str(tmp_path / "roster")
    refuses(server, 0, half.keys, "over half must", **server.attempt("one", [0, 1, 2]))
    assert server.ask(0, half.keys, **server.attempt("one", [0, 1, 2, 3]))


def test_nothing_else_is_had_from_a_site(server, node_keys):
    told, wanted = server.attempt("one", [0, 1, 2, 3]), {"kind": "pooled", "by_domain": False}
    refuses(server, 0, statistics, "under masks alone", **wanted)
    server.common["point"] = server.common["point"] | {"privacy": {}}
    refuses(server, 0, statistics, "answers under .privacy. secure_aggregation alone", **wanted)
    server.common["point"] = server.common["point"] | {"privacy": {"secure_aggregation": True, "radius": 20.0}}
    del server.sites[1]["roster"]
    refuses(server, 1, half.keys, "start it with --roster", **told)
    refuses(server, 0, half.masked, "no key in this attempt", **told, **wanted, asks="statistics", keys={})
