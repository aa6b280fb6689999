"""Experiments: lists span a grid, arms belong together, overrides, and TOML that reads back."""

import datetime
import os
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.experiments.grid import Experiment, differences, override, to_toml
from ggeur.stats.errors import GgeurError
from refusal import Sentence, refused

DATA = {"data": {"dataset": "mini-digits"}}


def of(**sections):
    return Experiment.of(DATA | sections)


def told(**sections):
    with pytest.raises(GgeurError) as caught:
        of(**sections)
    assert "\n" not in str(caught.value)
    return Sentence.of(caught.value)


# ---------------------------------------------------------------- grids and arms


def test_lists_span_a_grid_and_say_what_varies():
    e = of(partition={"beta": [0.5, 0.1]}, train={"learning_rate": [1.0, 2.0]}, run={"seeds": [4, 5]})
    expected = [(0.5, 1.0), (0.5, 2.0), (0.1, 1.0), (0.1, 2.0)]
    assert [(p.partition.beta, p.train.learning_rate) for p in e.points] == expected
    assert e.varied == tuple({"partition.beta": b, "train.learning_rate": r} for b, r in expected)
    assert e.seeds == (4, 5)


def test_an_experiment_without_lists_has_one_point_and_nothing_varies():
    e = of()
    assert len(e.points) == 1 and e.varied == ({},)


def test_a_protocol_may_be_a_list():
    e = of(run={"protocol": ["paper", "sound"]})
    assert [p.augment.scale for p in e.points] == ["eigenvalue", "sqrt-eigenvalue"]


def test_arms_overlay_the_shared_sections_and_times_the_lists():
    e = of(
        augment={"target": 9},
        train={"weights": ["samples", "equal"]},
        arm=[
            {"name": "plain", "augment": {"kind": "none"}},
            {"name": "ours", "augment": {"kind": "ggeur", "target": 3}, "train": {"rounds": 7}},
        ],
    )
    found = [(p.augment.kind, p.augment.target, p.train.weights, p.train.rounds) for p in e.points]
    assert found == [
        ("none", 9, "samples", 100),
        ("none", 9, "equal", 100),
        ("ggeur", 3, "samples", 7),
        ("ggeur", 3, "equal", 7),
    ]
    assert e.varied[1] == {"train.weights": "equal", "arm": "plain"}


def test_what_an_arm_may_not_be():
    assert told(arm=[{"augment": {"kind": "none"}}]).says("experiment-arm-name")
    assert told(arm=[{"name": "a"}, {"name": "a"}]).says("experiment-arm-name")
    assert told(arm=[{"name": ""}]).says("experiment-arm-name")
    assert told(arm={"name": "a"}).says("experiment-arm-form")
    assert told(arm=[]).says("experiment-arm-form")
    assert told(arm=[3]).says("experiment-arm-form")
    assert told(arm=[{"name": "a", "augment": 3}]).says("experiment-section-form: augment")
    assert told(arm=[{"name": "a", "colour": {"x": 1}}]).says("settings-invalid: colour")
    assert told(arm=[{"name": "a", "train": {"colour": 1}}]).says("settings-invalid: colour")


def test_arms_share_the_seeds():
    assert told(arm=[{"name": "a"}, {"name": "b", "run": {"seeds": [7]}}]).says("experiment-arms-seeds")


def test_an_empty_list_and_a_bare_value_for_a_section_are_refused():
    assert told(augment={"kind": []}).says("experiment-list-empty: augment.kind")
    assert told(train=3).says("experiment-section-form: train")


@pytest.mark.parametrize("where", ["shared", "arm"])
def test_a_key_of_another_kind_of_partition_is_refused(where):
    text = told(
        partition={"kind": "domain"} | ({"beta": 0.5} if where == "shared" else {}),
        arm=[{"name": "a"} | ({"partition": {"beta": 0.5}} if where == "arm" else {})],
    )
    assert text.says("partition-key-unused: beta...domain")


def test_a_key_that_one_kind_of_the_grid_uses_is_fine():
    assert len(of(partition={"kind": ["dirichlet", "domain"], "beta": 0.5}).points) == 2


def test_numpys_numbers_and_none_are_as_good_as_tomls():
    e = of(partition={"clients": [np.int64(3)], "beta": np.float64(0.25)}, train={"local_steps": None})
    assert tomllib.loads(e.to_toml()) == DATA | {"partition": {"clients": [3], "beta": 0.25}, "train": {}}
    back = Experiment.of(tomllib.loads(e.to_toml()))
    assert back.points == e.points and back.varied == e.varied == ({"partition.clients": 3},)


def test_the_callers_tree_is_left_alone_and_not_kept():
    given_tree = {"data": {"table": "t.npz"}, "train": {"rounds": 3}}
    e = Experiment.of(given_tree)
    assert given_tree == {"data": {"table": "t.npz"}, "train": {"rounds": 3}}
    given_tree["train"]["rounds"] = 9
    assert e.tree["train"]["rounds"] == 3


# ---------------------------------------------------------------- --set


@pytest.mark.parametrize(
    "assignment, path, value",
    [
        ("train.rounds=5", "train.rounds", 5),
        ("train.learning_rate=1e-3", "train.learning_rate", 1e-3),
        ("train.broadcast=false", "train.broadcast", False),
        ("partition.beta=[0.5, 0.1]", "partition.beta", [0.5, 0.1]),
        ('augment.kind=["none", "ggeur"]', "augment.kind", ["none", "ggeur"]),
        ("augment.kind=ggeur", "augment.kind", "ggeur"),
        ('augment.kind="ggeur"', "augment.kind", "ggeur"),
        (" train . method = my.module:name ", "train.method", "my.module:name"),
        ("data.table=a b=c.npz", "data.table", "a b=c.npz"),
        ("data.table=../some/where.npz", "data.table", "../some/where.npz"),
        ("method.scaffold.server_learning_rate=0.25", "method.scaffold.server_learning_rate", 0.25),
        ("data.table=", "data.table", ""),
        ("data.table=" + "[" * 5000, "data.table", "[" * 5000),
    ],
)
def test_a_value_is_read_as_toml_and_failing_that_as_text(assignment, path, value):
    found = override({}, [assignment])
    for name in path.split("."):
        found = found[name]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("assignment", ["train.rounds", "rounds=3", "=3", ".rounds=3", "train.=3", "train..x=3", ""])
def test_a_malformed_assignment_is_shown_with_the_form_it_should_have(assignment):
    with refused("option-set-form"):
        override({}, [assignment])


@pytest.mark.parametrize("assignment", ["train.learning_rate.x=1", "train.method.x=1", "arm.name=1"])
def test_a_key_below_a_plain_value_is_refused(assignment):
    with refused("option-set-section"):
        override({"train": {"learning_rate": 0.1, "method": "fedavg"}, "arm": [{"name": "a"}]}, [assignment])


def test_the_last_assignment_counts_and_the_tree_is_left_alone():
    tree = {"train": {"rounds": 1}, "method": {"m": {"a": 1}}}
    found = override(tree, ["train.rounds=2", "train.rounds=3", "method.m.b=2"])
    assert found == {"train": {"rounds": 3}, "method": {"m": {"a": 1, "b": 2}}}
    assert tree == {"train": {"rounds": 1}, "method": {"m": {"a": 1}}}


# ---------------------------------------------------------------- files


def write(folder, text):
    path = folder / "exp.toml"
    path.write_text(text)
    return path


def test_load_reads_a_file_and_puts_overrides_in(tmp_path):
    path = write(tmp_path, '[data]\ndataset = "mini-digits"\n[train]\nrounds = 3\nlearning_rate = 0.5\n')
    point = Experiment.load(path, ["train.rounds=4"]).points[0]
    assert (point.train.rounds, point.train.learning_rate) == (4, 0.5)


def test_a_files_tables_are_relative_to_it_and_overrides_to_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "deep"
    folder.mkdir()
    path = write(
        folder, '[data]\ntable = "t.npz"\n[[arm]]\nname = "a"\n[[arm]]\nname = "b"\ndata.table = ["u.npz", "/v.npz"]\n'
    )
    tables = [p.data.table for p in Experiment.load(path).points]
    assert tables == [str(folder / "t.npz"), str(folder / "u.npz"), os.path.abspath("/v.npz")]
    tables = [p.data.table for p in Experiment.load(path, ["data.table=../t.npz"]).points]
    assert tables[0] == str(tmp_path.parent / "t.npz")


def test_folders_of_images_and_the_servers_table_are_relative_to_the_file_too(tmp_path, monkeypatch):
    folder = tmp_path / "deep"
    (folder / "photos" / "cat").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    path = write(folder, '[data]\ndataset = ["photos", "mini-digits"]\n[federate]\ntest_table = "t.npz"\n')
    points = Experiment.load(path).points
    assert [p.data.dataset for p in points] == [str(folder / "photos"), "mini-digits"]
    assert {p.federate.test_table for p in points} == {str(folder / "t.npz")}


def test_a_clip_folder_is_relative_to_the_file_too(tmp_path, monkeypatch):
    (tmp_path / "deep" / "clip").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    text = '[data]\ntable = "t.npz"\n[train]\nmethod = "fedtpg"\n[method.fedtpg]\nclip = ["clip", "/elsewhere"]\n'
    points = Experiment.load(write(tmp_path / "deep", text)).points
    assert [p.method["fedtpg"]["clip"] for p in points] == [str(tmp_path / "deep" / "clip"), "/elsewhere"]


def test_a_folder_does_not_take_the_name_of_a_dataset_away(tmp_path, monkeypatch):
    (tmp_path / "office-home").mkdir()
    monkeypatch.chdir(tmp_path)
    (point,) = Experiment.load(write(tmp_path, '[data]\ndataset = "office-home"\n')).points
    assert point.data.dataset == "office-home" and point.partition.kind == "domain"


def test_an_experiment_written_elsewhere_still_finds_its_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    e = Experiment.of({"data": {"table": "t.npz"}})
    (tmp_path / "run").mkdir()
    assert Experiment.load(write(tmp_path / "run", e.to_toml())).points == e.points


@pytest.mark.parametrize("text", ["[data", "data = ", 'x = "', "a = 1\na = 2", "x = " + "[" * 5000])
def test_a_file_that_is_not_toml_is_named(tmp_path, text):
    path = write(tmp_path, text)
    with refused("file-not-toml") as caught:
        Experiment.load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_a_folder_and_bytes_that_are_not_text_are_named(tmp_path):
    with refused("file-missing: nowhere.toml"):
        Experiment.load(tmp_path / "nowhere.toml")
    with refused("file-unreadable"):
        Experiment.load(tmp_path)
    path = tmp_path / "exp.toml"
    path.write_bytes(b"\xff\xfe")
    with refused("file-not-text"):
        Experiment.load(path)


def test_the_shipped_examples_are_valid_experiments():
    folder = Path(__file__).parents[2] / "examples"
    for path in folder.glob("*.toml"):
        assert Experiment.load(path, ["data.table=t.npz"]).points


# ---------------------------------------------------------------- TOML out and in

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(text, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans())
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
)
sections = st.dictionaries(text, values, max_size=3)


@given(st.dictionaries(text.filter(lambda name: name != "arm"), sections, max_size=3))
def test_any_tree_of_values_reads_back_from_its_toml(tree):
    assert tomllib.loads(to_toml(tree)) == tree


@given(st.lists(st.fixed_dictionaries({"name": text, "train": sections}), min_size=1, max_size=3))
def test_arms_read_back_from_their_toml(arms):
    tree = {"data": {"table": "t"}, "arm": arms}
    assert tomllib.loads(to_toml(tree)) == tree


def test_a_whole_experiment_reads_back_the_same():
    e = of(
        partition={"beta": [0.5, 1e-3]},
        method={"fedavg": {}},
        run={"seeds": [3, 1], "protocol": "paper"},
        arm=[
            {"name": 'a "quoted" \\ näme\n', "augment": {"kind": "none"}},
            {"name": "b", "train": {"broadcast": False}},
        ],
    )
    back = Experiment.of(tomllib.loads(e.to_toml()))
    assert back.points == e.points and back.varied == e.varied and back.seeds == e.seeds


def test_a_date_among_the_parameters_of_ones_own_reads_back(tmp_path):
    when = {"day": datetime.date(2026, 1, 2), "at": datetime.datetime(2026, 1, 2, 3, 4, 5), "time": datetime.time(6)}
    tree = {**DATA, "method": {"mine:method": when}, "arm": [{"name": "a", "method": {"mine:method": when}}]}
    text = to_toml(tree)
    assert tomllib.loads(text) == tree and text.count("[[arm]]") == 1


def test_what_toml_has_no_word_for_is_said_in_a_sentence():
    for value in (object(), [None], "\ud800"):
        with refused("experiment-not-toml") as caught:
            to_toml({"method": {"mine:method": {"value": value}}})
        assert "\n" not in str(caught.value)


def test_an_experiment_written_as_toml_is_the_same_tree(tmp_path):
    e = of(partition={"beta": [0.5, 0.1]}, arm=[{"name": "a", "train": {"rounds": 2}}, {"name": "b"}])
    path = write(tmp_path, e.to_toml())
    assert Experiment.load(path).tree == e.tree and not differences(Experiment.load(path).tree, e.tree)


def test_a_value_twice_in_a_list_is_refused():
    with refused("experiment-list-repeated: augment.kind"):
        Experiment.of({"data": {"dataset": "mini-digits"}, "augment": {"kind": ["none", "ggeur", "none"]}})


@pytest.mark.parametrize(
    "sections",
    [
        {"train": {"start": "lda", "broadcast": False}},
        {"augment": {"kind": "prototypes", "steps": 1}},
        {"data": {"table": "t.npz", "encoder": "builtin"}},
    ],
)
def test_settings_that_would_be_ignored_are_refused(sections):
    with pytest.raises(GgeurError):
        Experiment.of({"data": {"dataset": "mini-digits"}} | sections)


def test_candidates_of_auto_are_one_list_and_lists_of_them_span_a_grid():
    tree = {"data": {"dataset": "mini-digits"}, "train": {"method": "auto"}}
    one = Experiment.of(tree | {"method": {"auto": {"candidates": ["lda", {"method": "ggeur-limit", "decay": 0.01}]}}})
    assert len(one.points) == 1
    assert one.points[0].method["auto"]["candidates"] == ["lda", {"method": "ggeur-limit", "decay": 0.01}]
    assert Experiment.of(tomllib.loads(one.to_toml())).points == one.points
    two = Experiment.of(tree | {"method": {"auto": {"candidates": [["lda"], ["lda", "ridge"]]}}})
    assert [p.method["auto"]["candidates"] for p in two.points] == [["lda"], ["lda", "ridge"]]
