"""Sites that send nonsense, leave, come back or lose their memory; servers that are stopped."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.flower.wire.records import VERSION
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError

TREE = {"train": {"rounds": 4, "local_epochs": 1, "batch_size": 8}, "augment": {"target": 20, "per_prototype": 5}}
SCAFFOLD = {**TREE, "train": {**TREE["train"], "method": "scaffold"}}


def put(name, index, value):
    return lambda facts, arrays: arrays[name].__setitem__(index, value)


def not_definite(facts, arrays):
    arrays["second"][0] = 0.0
    arrays["second"][0, 1] = 5.0  # a covariance of two things that do not vary


def wrong_shape(facts, arrays):
    arrays["sum"] = arrays["sum"][:, :-1]


POISON = {
    "NaN": put("sum", (0, 0), np.nan),
    "infinite": put("second", (0, 0), np.inf),
    "negative": put("count", 1, -3.0),
    "not those it announced": put("count", 1, 3.0),
    "positive semi-definite": not_definite,
    "shape": wrong_shape,
    "absurdly large": put("second", (1, 0), 1e30),
    "absurdly large, or of": put("sum", (1, 0), -1e30),
    "not numbers of samples": put("count", 2, 1e30),
    "are not counts": lambda facts, arrays: arrays.pop("second"),
}


@pytest.mark.parametrize("complaint", POISON)
def test_poisoned_statistics_are_refused_by_name_and_the_others_do_as_without_them(deploy, complaint, changing):
    poisoned = deploy(TREE, name="poisoned")
    poisoned.sites[1].change = changing("query.statistics", POISON[complaint])
    poisoned.run()
    (refused,) = poisoned.events("refused")
    node = list(poisoned.grid.sites)[1]
    assert (refused["client"], refused["node"]) == (1, str(node)) and complaint in refused["why"]

    alone = deploy(TREE, name="alone")
    alone.experiment = alone.without(1)
    alone.run()
    for name, leaf in alone.head().items():
        np.testing.assert_array_equal(poisoned.head()[name], leaf)


@pytest.mark.parametrize("kind, name", [("query.sums", "sums"), ("query.statistics", "count")])
def test_of_a_site_that_is_refused_nothing_is_left_in_the_federations_units(deploy, kind, name, changing):
    tree = TREE | {"data": {"standardise": True}}
    poisoned, alone = deploy(tree, name="poisoned"), deploy(tree, name="alone")
    poisoned.sites[1].change = changing(kind, put(name, 0, -1.0))
    alone.experiment = alone.without(1)
    poisoned.run()
    alone.run()
    assert len(poisoned.events("refused")) == 1
    found, expected = (Model.load(one.out) for one in (poisoned, alone))
    np.testing.assert_array_equal(found.units.pack(), expected.units.pack())
    np.testing.assert_array_equal(found.params["W"], expected.params["W"])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_poisoned_message_does_not_count_in_its_round(deploy, value, changing):
    deployment = deploy(TREE)
    poison = changing("train", put("0", 0, value))
    deployment.sites[2].change = lambda kind, number, reply: poison(kind, number, reply) if number == 2 else reply
    result = deployment.run()
    (missing,) = deployment.events("missing")
    assert (missing["client"], missing["round"]) == (2, 2)
    assert result.trials[0].message == "Missing: client 2 in round 2."
    assert all(np.isfinite(leaf).all() for leaf in deployment.head().values())


def test_replies_that_are_not_ours_are_refused(deploy, changing):
    deployment = deploy(TREE)
    deployment.sites[0].change = changing("query.hello", lambda facts, arrays: facts.update(partition="none"))
    deployment.sites[1].change = changing("query.augment_site", lambda facts, arrays: facts.update(samples=7))
    deployment.experiment = deployment.without(0)
    deployment.sites[0].online = True
    with pytest.raises(GgeurError, match="1 of 2 sites took part in round 1"):
        deployment.run()
    assert "greeting" in deployment.events("refused")[0]["why"]
    assert "7 samples" in deployment.events("missing")[0]["why"]


@pytest.mark.parametrize("said", ["9.9.9", None, 7])
def test_a_site_with_another_version_is_refused(deploy, said, changing):
    deployment = deploy(TREE)

    def another(facts, arrays):
        facts["ggeur"] = said

    deployment.sites[1].change = changing("query.hello", another)
    deployment.experiment = deployment.without(1)
    deployment.sites[1].online = True
    deployment.run()
    (refused,) = deployment.events("refused")
    assert refused["client"] == 1
    assert repr(said) in refused["why"] and f"'{VERSION}'" in refused["why"]
    assert "install one version everywhere" in refused["why"]


def test_a_site_that_cannot_read_another_versions_settings_says_only_which_it_has(deploy, monkeypatch, changing):
    """Settings of another version may have keys that this one does not know, or defaults of other meaning."""
    from ggeur.flower.site import clientapp

    deployment = deploy(TREE)
    deployment.experiment = deployment.without(1)
    deployment.sites[1].online = True
    monkeypatch.setattr(clientapp, "VERSION", "9.9.9")
    said = []
    for site in deployment.sites:
        site.change = changing("query.hello", lambda facts, arrays: said.append(facts))
    with pytest.raises(GgeurError, match="0 of 3 sites are there"):
        deployment.run()
    assert [facts.keys() - {"seconds"} for facts in said] == 3 * [{"partition", "ggeur"}]


def test_a_site_that_is_given_another_version_during_a_run_does_not_count(deploy, changing):
    deployment = deploy(TREE)
    other = changing("train", lambda facts, arrays: facts.update(ggeur="9.9.9"))
    deployment.sites[2].change = lambda kind, number, reply: other(kind, number, reply) if number == 2 else reply
    deployment.run()
    (missing,) = deployment.events("missing")
    assert (missing["client"], missing["round"]) == (2, 2) and "install one version everywhere" in missing["why"]


def test_a_site_that_leaves_is_missed_and_used_again_when_it_is_back(deploy):
    deployment = deploy({**SCAFFOLD, "train": {**SCAFFOLD["train"], "rounds": 5}})

    def leave_and_return(kind, group):
        deployment.sites[1].online = group not in ("2", "3")

    deployment.grid.before = leave_and_return
    result = deployment.run()
    # Before round 2 it is still listed, and fails to answer; before rounds 3 and 4 it is seen to have gone.
    assert [(e["client"], e["round"]) for e in deployment.events("missing")] == [(1, 2), (1, 3), (1, 4)]
    assert [(e["client"], e["round"]) for e in deployment.events("returned")] == [(1, 5)]
    assert result.trials[0].message == "Missing: client 1 in rounds 2, 3, 4."
    lines = [json.loads(line) for line in (deployment.out / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5]
    assert deployment.sites[1].asked.count("train") == 2, "rounds 1 and 5"


def lost_once(kind):
    """A site that answers the first question of a kind with silence, and is there again at once."""
    times = []

    def change(asked, number, reply):
        if asked == kind and not times:
            times.append(asked)
            return None
        return reply

    return change


@pytest.mark.parametrize("own_units", [False, True])
def test_a_site_lost_before_statistics_are_merged_is_waited_for(deploy, own_units):
    """With min_sites of all, too: the head is that of a run in which nobody was lost."""
    tree = TREE | {"data": {"standardise": own_units}, "federate": {"min_sites": 3, "wait": 20.0}}
    lossy, whole = deploy(tree, name="lossy"), deploy(tree, name="whole")
    lossy.sites[1].change = lost_once("query.statistics")
    lossy.run()
    whole.run()
    (awaited,) = lossy.events("awaited")
    assert awaited["clients"] == [1] and 0 < awaited["seconds"] <= 20
    assert [event["client"] for event in lossy.events("statistics")] == [0, 2, 1]
    assert lossy.sites[0].asked.count("query.statistics") == 1
    for name, leaf in whole.head().items():
        np.testing.assert_array_equal(lossy.head()[name], leaf)


def test_a_lost_site_that_stays_away_is_waited_for_no_longer_than_said(deploy):
    tree = TREE | {"federate": {"min_sites": 2, "wait": 2.0}}
    lossy = deploy(tree, name="lossy")
    site = lossy.sites[1]

    def gone(asked, number, reply):
        site.online = asked != "query.statistics"
        return reply if site.online else None

    site.change = gone
    began = time.monotonic()
    lossy.run()
    assert time.monotonic() - began > 2 and len(lossy.events("awaited")) == 1
    assert lossy.events("missing")[0]["client"] == 1 and len(lossy.events("round")) == 4


def test_a_greeting_that_does_not_come_is_waited_for_as_long_as_wait_says(deploy, monkeypatch):
    """A node that is online and silent, as one that embeds a large folder; `timeout` is for what comes later."""
    slow = deploy(TREE | {"federate": {"min_sites": 2, "wait": 1.5, "timeout": 60.0}})
    silent = list(slow.grid.sites)[1]
    pushed = slow.grid.push_messages

    def push(messages):
        for message in messages:
            yield from ["unheard"] if message.metadata.dst_node_id == silent else pushed([message])

    monkeypatch.setattr(slow.grid, "push_messages", push)
    began = time.monotonic()
    slow.run()
    assert time.monotonic() - began < 40, "the greetings of every round together"
    assert "no answer within" in slow.events("silent")[0]["why"]
    assert {event["client"] for event in slow.events("joined")} == {0, 2}


def test_an_answer_that_came_too_late_changes_nothing(deploy):
    """A site that trained, but whose reply was lost, goes on from what it remembered before that round."""
    late, away = deploy(SCAFFOLD, name="late"), deploy(SCAFFOLD, name="away")
    late.sites[1].change = lambda kind, number, reply: None if number == 2 else reply
    away.sites[1].deaf = {2}
    late.run()
    away.run()
    for name, leaf in away.head().items():
        np.testing.assert_array_equal(late.head()[name], leaf)


def test_a_site_that_lost_everything_is_set_up_again(deploy):
    import shutil

    deployment = deploy(SCAFFOLD)

    def lose(kind, group):
        if group == "2" and kind == "train":
            shutil.rmtree(deployment.folder / "store-1", ignore_errors=True)

    deployment.grid.before = lose
    deployment.run()
    why = [(e["round"], e["why"]) for e in deployment.events("missing") if e["client"] == 1]
    assert [number for number, _ in why] == [2, 3]
    assert "training set" in why[0][1] and "start again" in why[1][1]


DAMAGE = {
    "cut short": lambda content: content[:-9],
    "emptied": lambda content: b"",
    "overwritten": lambda content: b"something else",
    "changed within": lambda content: content[: len(content) // 2] + 16 * b"\xff" + content[len(content) // 2 + 16 :],
}


def damaging(deployment, pattern, damage, number="2"):
    """Before the question of a round reaches site 1, its files of that name are damaged, once."""
    damaged = []

    def before(kind, group):
        if group == number and kind == "train" and not damaged:
            for path in (deployment.folder / "store-1").rglob(pattern):
                path.write_bytes(damage(path.read_bytes()))
                damaged.append(path.name)

    deployment.grid.before = before
    return damaged


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    "name", ["facts.json", "base.npy", "bank.npy", "sample.npy", "noise.npy", "y.npy", "originals.npy", "test_x.npy"]
)
def test_a_damaged_training_set_is_sent_again(deploy, name, damage):
    deployment = deploy(TREE)
    damaged = damaging(deployment, name, DAMAGE[damage])
    deployment.run()
    assert damaged == [name]
    (missing,) = deployment.events("missing")
    assert (missing["client"], missing["round"]) == (1, 2) and "sent everything again" in missing["why"]
    assert [e["client"] for e in deployment.events("augmented")] == [0, 1, 2, 1]
    assert deployment.events("round")[-1]["answered"] == [0, 1, 2]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_constants_are_sent_again(deploy, damage):
    deployment = deploy({**TREE, "train": {**TREE["train"], "method": "fedmix"}})
    damaged = damaging(deployment, "constant.npz", DAMAGE[damage])
    deployment.run()
    assert damaged == ["constant.npz"]
    (missing,) = deployment.events("missing")
    assert (missing["client"], missing["round"]) == (1, 2) and "sent everything again" in missing["why"]
    assert deployment.events("round")[-1]["answered"] == [0, 1, 2]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_state_is_started_anew(deploy, damage):
    damaged_site, forgetful = deploy(SCAFFOLD, name="damaged"), deploy(SCAFFOLD, name="forgetful")
    damaged = damaging(damaged_site, "state-1.npz", DAMAGE[damage])
    damaged_site.run()
    assert damaged == ["state-1.npz"]
    (missing,) = damaged_site.events("missing")
    assert (missing["client"], missing["round"]) == (1, 2) and "start again" in missing["why"]
    assert damaged_site.events("round")[-1]["answered"] == [0, 1, 2]
    damaging(forgetful, "state-1.npz", lambda content: b"")
    forgetful.run()
    for name, leaf in forgetful.head().items():
        np.testing.assert_array_equal(damaged_site.head()[name], leaf)


def test_embeddings_that_were_damaged_at_a_site_are_made_again(tmp_path):
    from PIL import Image

    from ggeur.experiments.settings import Settings
    from ggeur.flower.site.data import SiteData
    from ggeur.flower.site.store import Store

    for name in ("dark", "light"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("L", (28, 28), 200 if name == "light" else 20).save(tmp_path / "photos" / name / "0.png")
    site = SiteData({"partition-id": 0, "images": str(tmp_path / "photos"), "store": str(tmp_path / "store")})
    point = Settings.model_validate({"data": {"dataset": "photographs", "encoder": "builtin"}})
    store = Store(site.root, "0" * 16, 0, 0)
    fresh = site.load(point, 0, store, fresh=True)
    (store.shared() / "table.npz").write_bytes(b"something else")
    assert site.load(point, 0, store, fresh=False).fingerprint() == fresh.fingerprint()


@pytest.mark.parametrize("own_units", [False, True])
def test_too_few_sites_stop_the_run_and_resuming_goes_on_to_the_same_bits(deploy, own_units):
    tree = SCAFFOLD | {"data": {"standardise": own_units}}
    whole, broken = deploy(tree, name="whole"), deploy(tree, name="broken")
    whole.run()

    def leave(kind, group):
        for site in broken.sites[:2]:
            site.online = site.online and group != "3"

    broken.grid.before = leave
    with pytest.raises(GgeurError, match="1 of 3 sites took part in round 3.*min_sites = 2"):
        broken.run()
    assert broken.events("stopped")[0]["resumable"]
    broken.grid.before = lambda kind, group: None
    for site in broken.sites:
        site.online = True
    result = broken.run(resume=True)
    for name, leaf in whole.head().items():
        np.testing.assert_array_equal(broken.head()[name], leaf)
    assert result.trials[0].rounds == whole.result().trials[0].rounds
    assert (broken.out / "metrics.jsonl").read_text() == (whole.out / "metrics.jsonl").read_text()
    assert not (broken.out / "checkpoint").exists()


@pytest.mark.parametrize("older", ["by number", "without one", "in another form"])
def test_a_run_that_another_version_began_is_not_gone_on_with(deploy, older):
    deployment = deploy(TREE)

    def stop(kind, group):
        if group == "3":
            raise GgeurError("stop")

    deployment.grid.before = stop
    with pytest.raises(GgeurError, match="stop"):
        deployment.run()
    (path,) = (deployment.out / "checkpoint").glob("plan-*.npz")
    with np.load(path) as file:
        arrays = dict(file)
    place = f"leaf{json.loads(str(arrays['shape']))['about']}"
    about = json.loads(str(arrays[place]))
    about = {**about, "schema": 0} if older == "by number" else {k: v for k, v in about.items() if k != "schema"}
    arrays[place] = np.array(json.dumps(about))
    np.savez(path, **(arrays if older != "in another form" else {"about": arrays[place], "size": np.ones(3)}))
    before = sorted(deployment.out.rglob("*"))
    with pytest.raises(GgeurError, match=r"go on with the ggeur that began .* versions\.json names"):
        deployment.run(resume=True)
    assert sorted(deployment.out.rglob("*")) == before and (deployment.out / "versions.json").exists()


def test_a_site_may_come_back_under_another_id(deploy):
    deployment = deploy(TREE)

    def rename(kind, group):
        if group == "2" and kind == "train" and 5 not in deployment.grid.sites:
            deployment.grid.sites[5] = deployment.grid.sites.pop(next(iter(deployment.grid.sites)))

    deployment.grid.before = rename
    deployment.run()
    assert deployment.events("returned")[0]["node"] == "5"


def test_partition_ids_must_be_each_sites_own(deploy):
    deployment = deploy(TREE)
    deployment.sites[2].config["partition-id"] = 1
    deployment.experiment = deployment.without(0)
    deployment.sites[0].online = True
    deployment.run()
    assert "already held by node" in deployment.events("refused")[0]["why"]


def test_sites_that_cannot_be_compared_are_refused(deploy, build_table):
    deployment = deploy(TREE)
    path = deployment.folder / "node-1.npz"
    table = EmbeddingTable.load(path)
    EmbeddingTable(**{**vars(table), "meta": {"encoder": "other", "weights": "def"}}).save(path)
    deployment.run()
    assert "use one encoder" in deployment.events("refused")[0]["why"]


def test_one_odd_site_is_not_the_measure_of_the_others(deploy, changing):
    deployment = deploy(TREE)
    deployment.sites[0].change = changing("query.hello", lambda facts, arrays: facts.update(dimension=6))
    deployment.run()
    (refused,) = deployment.events("refused")
    assert refused["client"] == 0 and "6 dimensions" in refused["why"]


def test_a_class_that_only_a_refused_site_named_is_none_of_the_runs(deploy, changing):
    def name_more(facts, arrays):
        facts["classes"] = ["eel", *facts["classes"]]
        facts["count"] = [[3, *sample] for sample in facts["count"]]

    boastful, alone = deploy(TREE, name="boastful"), deploy(TREE, name="alone")
    boastful.sites[0].change = changing("query.hello", name_more)
    boastful.run()
    (refused,) = boastful.events("refused")
    assert refused["client"] == 0
    alone.experiment = alone.without(0)
    alone.run()
    for name, leaf in alone.head().items():
        np.testing.assert_array_equal(boastful.head()[name], leaf)


@pytest.mark.parametrize(
    "facts",
    [{"classes": ["a\x1b[2J"], "count": [[1], [1], [1]]}, {"encoder": {"weights": 7}}, {"domains": ["\ud800"]}],
    ids=str,
)
def test_greetings_that_could_not_be_shown_or_compared_are_refused(deploy, facts, changing):
    deployment = deploy(TREE)
    deployment.sites[1].change = changing("query.hello", lambda given, arrays: given.update(facts))
    deployment.experiment = deployment.without(1)
    deployment.sites[1].online = True
    deployment.run()
    assert "greeting" in deployment.events("refused")[0]["why"]


def test_counts_that_would_overflow_are_not_added_up(deploy, changing):
    deployment = deploy(TREE)
    deployment.sites[1].change = changing("evaluate", put("confusion", (0, 0), 2**62))
    (trial,) = deployment.run().trials
    assert "confusion" in deployment.events("missing")[0]["why"] and max(trial.recall) <= 100


def test_what_a_site_keeps_is_its_own_users_alone(deploy):
    deployment, modes = deploy(TREE), set()

    def look(kind, group):
        folders = [path for path in (deployment.folder / "store-0").rglob("*") if path.is_dir()]
        modes.update(folder.stat().st_mode & 0o777 for folder in folders)

    deployment.grid.before = look
    deployment.run()
    assert modes == {0o700}


def test_a_folder_in_which_another_process_runs_is_left_alone(deploy):
    from ggeur.flower.machines.up import private_folder, up
    from ggeur.stats.storage import lock_file

    deployment = deploy(TREE)
    keys = private_folder(deployment.out) / "keys"
    keys.mkdir(parents=True)
    with lock_file(keys.parent / ".lock", ""), pytest.raises(GgeurError, match="Another process is running"):
        up(deployment.experiment, deployment.out)
    assert keys.exists()


def test_only_the_same_experiment_is_resumed(deploy):
    from ggeur.flower.machines.up import up

    deployment = deploy(TREE)
    deployment.run()
    assert up(deployment.experiment, deployment.out, resume=True).trials == deployment.result().trials
    with pytest.raises(GgeurError, match="another experiment"):
        up(deployment.simulated, deployment.out, resume=True)


def test_sites_agree_on_classes_that_not_all_of_them_know(deploy):
    """A site's table names only what it holds, in its own order; the federation's classes are all of them."""
    deployment = deploy(TREE)
    path = deployment.folder / "node-2.npz"
    table = EmbeddingTable.load(path)
    few = table.subset(table.y < 2)
    renamed = {**vars(few), "y": 1 - few.y, "class_names": ("bee", "ant"), "domain": None, "domain_names": ()}
    EmbeddingTable(**renamed).save(path)
    result = deployment.run()
    assert set(result.trials[0].domains) == {"art", "photo", "node-2"}


def test_a_table_on_the_server_is_scored_beside_the_sites(deploy, build_table):
    deployment = deploy(TREE | {"federate": {"test_table": "server.npz"}})
    build_table(domains=("elsewhere",), seed=3).save(deployment.folder / "server.npz")
    tree = deployment.experiment.tree
    tree["federate"]["test_table"] = str(deployment.folder / "server.npz")
    deployment.experiment = type(deployment.experiment).of(tree)
    deployment.run()
    lines = [json.loads(line) for line in (deployment.out / "metrics.jsonl").read_text().splitlines()]
    assert all(set(line["server"]) == {"elsewhere"} and set(line["domains"]) != {"elsewhere"} for line in lines)


def test_images_are_embedded_at_the_site(tmp_path, grid_of):
    """Two sites with folders of pictures, one of which lacks a class; the experiment names the encoder."""
    from PIL import Image

    from ggeur.experiments.grid import Experiment
    from ggeur.experiments.result import Result
    from ggeur.flower.server.serverapp import run_over

    rng = np.random.default_rng(0)
    configs = []
    for k, classes in enumerate((("dark", "light"), ("light",))):
        for name in classes:
            folder = tmp_path / f"photos-{k}" / name
            folder.mkdir(parents=True)
            for i in range(8):
                shade = rng.integers(0, 90, size=(28, 28), dtype=np.uint8) + (150 if name == "light" else 0)
                Image.fromarray(shade.astype(np.uint8)).save(folder / f"{i}.png")
        config = {"partition-id": k, "images": str(tmp_path / f"photos-{k}"), "store": str(tmp_path / f"store-{k}")}
        configs.append(config)
    tree = {
        "data": {"dataset": "our photographs", "encoder": "builtin"},
        "partition": {"kind": "domain"},
        "augment": {"target": 20, "per_prototype": 5},
        "train": {"rounds": 2, "local_epochs": 1},
        "federate": {"sites": 2},
    }
    run_over(grid_of(configs), Experiment.of(tree), tmp_path / "run", resume=False)
    (trial,) = Result.load(tmp_path / "run").trials
    assert len(trial.domains) == 2 and trial.avg > 50
    about = json.loads((tmp_path / "run" / "model" / "trial-000" / "model.json").read_text())
    assert about["class_names"] == ["dark", "light"] and about["encoder"]["encoder"] == "builtin"
    assert not list((tmp_path / "store-0").rglob("*.np*"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda facts, arrays: facts.pop("message"), "cannot be read"),
        (lambda facts, arrays: facts.update(message='["tuple", 0, 1]'), "not built as"),
        (lambda facts, arrays: facts.update(message="[" * 10**5), "cannot be read"),
        (lambda facts, arrays: facts.update(message="Infinity"), "cannot be read"),
        (lambda facts, arrays: facts.update(message='{"a":' * 60 + "0" + "}" * 60), "cannot be read"),
        (lambda facts, arrays: facts.update(loss="low"), "loss"),
        (lambda facts, arrays: facts.update(loss=1e308), "loss"),
        (lambda facts, arrays: facts.update(scores={"art": [3, 2]}), "scores"),
        (lambda facts, arrays: facts.update(scores=7, seconds="long"), "scores"),
        (lambda facts, arrays: arrays.clear(), "cannot be read"),
    ],
)
def test_a_hostile_reply_does_not_stop_the_others(deploy, change, complaint, changing):
    deployment = deploy(TREE)
    hostile = changing("train", change)
    deployment.sites[2].change = lambda kind, number, reply: hostile(kind, number, reply) if number == 2 else reply
    deployment.run()
    (missing,) = deployment.events("missing")
    assert (missing["client"], missing["round"]) == (2, 2) and complaint in missing["why"]


@pytest.mark.parametrize("key", ["method", "head"])
def test_a_site_imports_methods_by_name_only_if_its_node_was_told_so(tmp_path, key):
    from ggeur.flower.site.data import SiteData
    from ggeur.flower.site.request import Request

    config = {"partition-id": 0, "table": "t.npz", "store": str(tmp_path)}
    point = {"data": {"table": "t.npz"}, "train": {key: "brought:mine"}}
    facts = {"point": point, "seed": 0, "run": "0" * 16, "trial": 0}
    with pytest.raises(GgeurError, match="--custom-methods"):
        Request(SiteData(config), facts)
    assert Request(SiteData(config | {"custom-methods": True}), facts).point.train.model_dump()[key] == "brought:mine"


def test_a_site_embeds_with_an_encoder_by_name_only_if_its_node_was_told_so(tmp_path):
    from ggeur.flower.site.data import SiteData
    from ggeur.flower.site.request import Request

    point = {"data": {"dataset": "theirs", "encoder": "brought:mine"}}
    facts = {"point": point, "seed": 0, "run": "0" * 16, "trial": 0}
    config = {"partition-id": 0, "images": str(tmp_path / "nowhere"), "store": str(tmp_path)}
    with pytest.raises(GgeurError, match="does not import the encoder 'brought:mine'.*--custom-methods"):
        Request(SiteData(config), facts).table(fresh=True)
    for allowed in ({"custom-methods": True}, {"encoder": "builtin"}):
        with pytest.raises(GgeurError, match="neither a dataset nor a folder"):
            Request(SiteData(config | allowed), facts).table(fresh=True)


@pytest.mark.needs("flower")
def test_node_config_is_written_as_toml():
    from ggeur.flower.machines.loopback import Loopback
    from ggeur.flower.machines.processes import supernode_command

    values = {"partition-id": 0, "table": "a b.npz", "custom-methods": True}
    command = supernode_command(Loopback(Path("made")), Path("key"), "127.0.0.1:1", values, 9094)
    written = command[command.index("--node-config") + 1]
    assert written == 'partition-id=0 table="a b.npz" custom-methods=true'
