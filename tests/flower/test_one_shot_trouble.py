"""Solved heads where sites lie, are late, leave and come back."""

import numpy as np
import pytest

from ggeur.stats.errors import GgeurError

MIXED = {"kind": "dirichlet", "clients": 3, "beta": 0.5}
AUTO = {
    "train": {"method": "auto"},
    "partition": {"kind": "label-and-domain", "beta": 0.3},
    "method": {"auto": {"candidates": [["lda", "ggeur-limit", "mixture"]], "folds": 3}},
}
GATED = {"train": {"method": "mixture"}, "partition": MIXED}


def put(name, index, value):
    return lambda facts, arrays: arrays[name].__setitem__(index, value)


def renamed(old, new):
    """The messages of one domain sent as those of another."""

    def change(facts, arrays):
        for name in [name for name in arrays if name.startswith(old)]:
            arrays[new + name.removeprefix(old)] = arrays.pop(name)

    return change


def assert_same(deployment, other):
    assert_equal_trees(deployment.head(), other.head())


def assert_equal_trees(head, other):
    assert head.keys() == other.keys()
    for name, leaf in other.items():
        np.testing.assert_array_equal(head[name], leaf)


LIES = {
    "counts hold NaN": (GATED, "query.statistics", put("1.count", 0, np.nan)),
    "sums hold NaN": (GATED, "query.statistics", put("1.sum", (0, 0), np.inf)),
    "is negative": (GATED, "query.statistics", put("1.count", 1, -3.0)),
    "not those it announced": (GATED, "query.statistics", lambda f, a: a["1.count"].__iadd__(1)),
    "counts are not those": (AUTO, "query.statistics", lambda f, a: a["1.count"].__iadd__(1)),
    "have shape": (GATED, "query.statistics", lambda f, a: a.update({"1.sum": a["1.sum"][:, 1:]})),
    "of what it was asked for": (GATED, "query.statistics", renamed("1.", "7.")),
    "not of the classes": (GATED, "query.hello", lambda f, a: f.update(count=f["count"][:-1])),
    "greater than or equal": (GATED, "query.hello", lambda f, a: f["count"][0].__setitem__(0, -1)),
}


@pytest.mark.parametrize("complaint", LIES)
def test_lies_are_refused_in_a_sentence_and_the_others_do_as_without_them(deploy, changing, complaint):
    tree, kind, lie = LIES[complaint]
    lying, alone = deploy(tree, name="lying"), deploy(tree, name="alone")
    lying.sites[1].change = changing(kind, lie)
    lying.experiment = lying.without(1)  # no long wait for a greeting that is refused
    lying.sites[1].online = True
    alone.experiment = alone.without(1)
    (trial,), (without,) = lying.run().trials, alone.run().trials
    (refused,) = lying.events("refused")
    assert refused["client"] == 1 and complaint in refused["why"]
    assert_same(lying, alone)
    assert (trial.taken, trial.expected) == (without.taken, without.expected)


def silent_once(kind):
    """A site that does not answer the first question of this kind."""
    asked = []

    def change(found, number, reply):
        asked.append(found)
        return None if found == kind and asked.count(kind) == 1 else reply

    return change


@pytest.mark.parametrize("tree", [GATED, AUTO], ids=["mixture", "auto"])
def test_a_site_that_was_late_is_added_when_it_is_back(deploy, tree):
    late, whole = deploy(tree, name="late"), deploy(tree, name="whole")
    late.sites[1].change = silent_once("query.statistics")
    (trial,) = late.run().trials
    whole.run()
    assert_same(late, whole)
    assert trial.avg == whole.result().trials[0].avg and trial.taken == whole.result().trials[0].taken
    assert [(e["client"], e["round"]) for e in late.events("missing")] == [(1, 0)]
    assert [e["client"] for e in late.events("joined")] == [2, 1, 0, 1]
    assert late.sites[0].asked.count("query.statistics") == 1, "what it sent is kept"


def test_a_site_that_is_always_late_does_not_keep_the_run_from_ending(deploy):
    late, alone = deploy(GATED, name="late"), deploy(GATED, name="alone")
    late.sites[1].change = lambda kind, number, reply: None if kind == "query.statistics" else reply
    alone.experiment = alone.without(1)
    (trial,) = late.run().trials
    alone.run()
    assert_same(late, alone)
    assert trial.message == "Missing: client 1 in round 0."


def test_a_site_that_is_lost_between_the_exchanges_counts_and_is_scored_when_it_is_back(deploy):
    lost, whole = deploy(GATED, name="lost"), deploy(GATED, name="whole")
    lost.sites[1].change = silent_once("query.score")
    (trial,), (expected,) = lost.run().trials, whole.run().trials
    assert_same(lost, whole)
    assert (trial.message, trial.avg, trial.recall) == ("", expected.avg, expected.recall)
    assert "not scored" in lost.events("missing")[0]["why"]
    assert [site.asked.count("query.score") for site in lost.sites] == [1, 2, 1]


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("tree", [GATED, AUTO], ids=["mixture", "auto"])
def test_a_run_that_stops_for_a_lost_site_asks_only_that_site_when_it_is_resumed(deploy, tree, damaged):
    tree = tree | {"federate": {"min_sites": 3, "wait": 0.1}}
    broken, whole = deploy(tree, name="broken"), deploy(tree, name="whole")
    broken.sites[1].change = lambda kind, number, reply: None if kind == "query.statistics" else reply
    with pytest.raises(GgeurError, match="min_sites = 3"):
        broken.run()
    assert broken.events("stopped")[0]["resumable"]
    kept = sorted((broken.out / "checkpoint" / "statistics-00000").glob("*"))
    assert [path.name[0] for path in kept] == ["0", "2"]
    if damaged:
        kept[0].write_bytes(kept[0].read_bytes()[:-100])
    broken.sites[1].change = lambda kind, number, reply: reply
    broken.run(resume=True)
    whole.run()
    assert_same(broken, whole)
    asked = [site.asked.count("query.statistics") for site in broken.sites]
    assert asked == [1 + damaged, 2, 1]
    assert not (broken.out / "checkpoint").exists()


@pytest.mark.parametrize("tree", [GATED, AUTO], ids=["mixture", "auto"])
def test_a_finished_run_is_reopened_for_a_site_that_it_lacks(deploy, tree):
    late, whole = deploy(tree, name="late"), deploy(tree, name="whole")
    late.experiment = late.without(1)
    assert late.run().trials[0].missing == {1: [0]}
    before = late.head()
    late.sites[0].online, late.sites[1].online = False, True
    with pytest.raises(GgeurError, match="Client 0 was in the head .* start its SuperNode"):
        late.run(again=True)
    assert_equal_trees(late.head(), before)
    late.sites[0].online = True
    (trial,), (expected,) = late.run(resume=True).trials, whole.run().trials
    assert_same(late, whole)
    assert (trial.message, trial.missing, trial.avg) == (expected.message, {}, expected.avg)
    assert not (late.out / "checkpoint").exists()
    with pytest.raises(GgeurError, match="No one-shot classifier in .* was made without a site"):
        late.run(again=True)
    assert late.result().trials[0].avg == expected.avg


def test_only_heads_that_lack_a_site_are_solved_again(deploy):
    late = deploy({"train": {"method": ["lda", "ncm"]}, "federate": {"wait": 0.1}})
    late.sites[1].change = lambda kind, number, reply: reply if late.sites[1].asked.count("query.hello") > 3 else None
    first, second = late.run().trials
    assert (first.message, second.message) == ("Missing: client 1 in round 0.", "")
    asked = late.sites[0].asked.count("query.statistics")
    again, kept = late.run(again=True).trials
    assert again.message == "" and kept == second
    assert late.sites[0].asked.count("query.statistics") == asked + 1


def test_what_a_site_missed_of_a_training_is_not_made_up_for(deploy):
    trained = deploy({"train": {"method": "fedavg", "rounds": 1, "local_epochs": 1}, "augment": {"kind": "none"}})
    trained.experiment = trained.without(1)
    trained.run()
    trained.sites[1].online = True
    with pytest.raises(GgeurError, match="has missed cannot be made up for"):
        trained.run(again=True)
    assert trained.result().trials[0].status == "ok"
