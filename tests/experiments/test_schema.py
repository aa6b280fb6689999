"""The typed experiment: defaults that depend on each other, protocols, and one sentence for what will not do."""

import pytest

from ggeur.experiments.grid import Experiment
from ggeur.experiments.settings import PROTOCOLS, Augment, settings
from ggeur.methods import names
from ggeur.stats.errors import GgeurError
from refusal import Sentence, refused

DATA = {"data": {"table": "t.npz"}}


def settled(**sections):
    return settings(DATA | sections)


def sentence(**sections):
    """The one sentence that the sections give."""
    with pytest.raises(GgeurError) as caught:
        Experiment.of(DATA | sections)
    text = Sentence.of(caught.value)
    assert "\n" not in text and text.endswith((".", "?"))
    return text


# ---------------------------------------------------------------- defaults and protocols


@pytest.mark.parametrize(
    "kind, steps, target", [("dirichlet", 1, 2000), ("domain", 2, 500), ("label-and-domain", 2, 500)]
)
def test_steps_and_target_follow_the_kind_of_partition(kind, steps, target):
    augment = settled(partition={"kind": kind}).augment
    assert (augment.steps, augment.target) == (steps, target)


def test_given_steps_and_target_stay():
    augment = settled(partition={"kind": "domain"}, augment={"steps": 1, "target": 77}).augment
    assert (augment.steps, augment.target) == (1, 77)


def test_every_other_default_is_the_designs():
    point = settled()
    assert (point.partition.kind, point.partition.clients, point.partition.min_per_class) == ("dirichlet", 10, 1)
    a = point.augment
    assert (a.kind, a.per_prototype, a.scale, a.guided, a.empty_group) == ("ggeur", 500, "sqrt-eigenvalue", 1.0, "all")
    t = point.train
    assert (t.method, t.head, t.rounds, t.local_epochs, t.batch_size, t.learning_rate) == (
        "fedavg",
        "linear",
        100,
        10,
        64,
        0.01,
    )
    assert (t.optimiser, t.momentum, t.weight_decay, t.weights) == ("sgd", 0.9, 1e-5, "samples")
    assert (t.broadcast, t.softmax, t.clients_per_round, t.start, t.local_steps) == (True, False, None, "random", None)
    assert (point.run.seeds, point.run.protocol) == ((0,), "sound")


def test_protocol_paper_is_the_printed_formula_and_nothing_else():
    paper, sound = settled(run={"protocol": "paper"}), settled()
    assert paper.augment.scale == "eigenvalue"
    assert paper.train == sound.train
    assert paper.augment.model_copy(update={"scale": "sqrt-eigenvalue"}) == sound.augment


def test_protocol_released_is_what_the_scripts_do():
    point = settled(run={"protocol": "released"})
    assert (point.augment.guided, point.augment.empty_group, point.augment.scale) == (0.8, "first", "sqrt-eigenvalue")
    t = point.train
    assert (t.optimiser, t.weights, t.broadcast, t.softmax) == ("adam", "equal", False, True)


def test_a_files_own_values_go_before_the_protocols():
    point = settled(run={"protocol": "released"}, train={"optimiser": "sgd"}, augment={"guided": 0.5})
    assert (point.train.optimiser, point.train.broadcast, point.augment.guided) == ("sgd", False, 0.5)


# ---------------------------------------------------------------- what will not do


@pytest.mark.parametrize("section", ["data", "partition", "augment", "train", "run"])
def test_an_unknown_key_is_told_the_allowed_ones(section):
    known = settled().model_dump()[section]
    text = sentence(**{section: DATA.get(section, {}) | {"colour": 1}})
    assert text.says(f"settings-invalid: [{section}]...colour")
    assert all(key in text for key in known)


def test_an_unknown_section_is_told_the_allowed_ones():
    text = sentence(trian={"rounds": 3})
    assert text.code == "settings-invalid"
    assert all(name in text for name in ("trian", "data", "partition", "augment", "train", "method", "privacy", "run"))


@pytest.mark.parametrize(
    "section, key, allowed",
    [
        ("partition", "kind", ("dirichlet", "domain", "label-and-domain")),
        ("augment", "kind", ("none", "resample", "prototypes", "ggeur")),
        ("augment", "scale", ("eigenvalue", "sqrt-eigenvalue")),
        ("augment", "steps", ("1", "2")),
        ("augment", "empty_group", ("all", "first")),
        ("train", "optimiser", ("sgd", "adam")),
        ("train", "weights", ("samples", "original", "equal")),
        ("train", "head", ("linear",)),
        ("run", "protocol", ("paper", "released", "sound")),
    ],
)
@pytest.mark.parametrize("value", ["colour", {"a": 1}, [["paper"]]])
def test_an_unknown_value_is_told_the_allowed_ones(section, key, allowed, value):
    text = sentence(**{section: {key: value}})
    assert key in text and f"[{section}]" in text
    assert all(name in text for name in allowed)


@pytest.mark.parametrize(
    "section, key",
    [("augment", "target"), ("augment", "steps"), ("augment", "guided"), ("train", "rounds"),
     ("train", "learning_rate"),
     ("partition", "clients"), ("partition", "min_per_class"), ("federate", "wait")],
)  # fmt: skip
@pytest.mark.parametrize("value", [True, "1"])
def test_neither_true_nor_text_is_a_number(section, key, value):
    assert sentence(**{section: {key: value}}).says(f"settings-invalid: {key}") and sentence(run={"seeds": [value]})


def test_sections_that_say_different_things_have_different_keys():
    kinds = [{"parameters": {"clip": value}} for value in (float("inf"), float("-inf"), 1, 1.0, True, None)]
    assert len({Augment.model_construct(**values).key for values in kinds}) == len(kinds)


def test_an_unknown_method_is_told_which_there_are():
    text = sentence(train={"method": "fedmagic"})
    assert text.says("component-unknown: fedmagic") and all(name in text for name in names())


@pytest.mark.parametrize("name", [":f", ".m:f", "no_such_module:f", "math:no_such_function", "math:pi", "math:"])
def test_a_method_of_ones_own_that_cannot_be_loaded_is_named(name):
    code = "custom-not-callable" if name == "math:pi" else "custom-load-failed"
    assert sentence(train={"method": name}).says(f"{code}: '{name}'")


def test_a_methods_parameters_are_checked():
    assert sentence(method={"fedavg": {"colour": 1}}).says("hyperparameter-unknown: colour")
    assert sentence(method={"fedmagic": {"mu": 1}}).says("component-unknown: fedmagic")
    assert sentence(method={"fedavg": 3}).says("settings-invalid: [method]")


def test_a_heads_parameters_are_checked():
    assert settled(train={"head": "mlp"}, head={"mlp": {"hidden": 64}}).head_parameters == {"hidden": 64}
    assert settled(train={"head": "mlp", "hidden": 8}).head_parameters == {"hidden": 8}
    assert settled(train={"head": "mlp"}).head_parameters == settled(train={"hidden": 8}).head_parameters == {}
    assert sentence(head={"mlp": {"colour": 1}}).says("hyperparameter-unknown: [head.mlp]...colour")
    assert sentence(head={"mlp": {"hidden": 0}}).says("hyperparameter-invalid: [head.mlp] hidden = 0")
    assert sentence(head={"conv": {"hidden": 1}}).says("component-unknown: conv")
    assert sentence(head={"mlp": 3}).says("settings-invalid: [head]")


def test_the_width_of_an_mlp_is_given_once():
    both = {"train": {"head": "mlp", "hidden": 8}, "head": {"mlp": {"hidden": 8}}}
    assert settled(**both).head_parameters == {"hidden": 8}
    text = sentence(**both | {"head": {"mlp": {"hidden": 64}}})
    assert text.says("hyperparameter-given-twice: 8...[head.mlp] hidden 64")


@pytest.mark.parametrize("name", [":f", ".m:f", "no_such_module:f", "math:no_such_function", "math:pi", "math:"])
def test_a_head_of_ones_own_that_cannot_be_loaded_is_named(name):
    code = "custom-not-callable" if name == "math:pi" else "custom-load-failed"
    assert sentence(train={"head": name}).says(f"{code}: '{name}'")


def test_a_solved_head_is_linear():
    for train in ({"method": "lda"}, {"start": "lda"}, {"method": "zeroshot"}):
        assert sentence(train=train | {"head": "mlp"}).code == "settings-head-solved"


def test_an_expected_loss_is_a_linear_heads():
    few = {"kind": "expected"}
    for train in ({"head": "mlp"}, {"softmax": True}):
        assert sentence(train=train, augment=few).code == "augmentation-head-not-linear"
    assert sentence(augment=few | {"parameters": {"rank": 0}}).says("hyperparameter-invalid: rank = 0")
    assert sentence(augment=few | {"parameters": {"width": 2}}).says("hyperparameter-unknown: width...rank")
    assert sentence(augment={"parameters": {"rank": 2}}).says("hyperparameter-unknown: rank")


def test_privacy_that_cannot_be_given_yet_is_not_silently_ignored():
    assert sentence(privacy={"colour": 1}).says("settings-invalid: privacy")


@pytest.mark.parametrize(
    "section, key, value",
    [
        ("augment", "target", 0),
        ("augment", "target", -5),
        ("augment", "per_prototype", 0),
        ("augment", "guided", 0),
        ("augment", "guided", 1.5),
        ("partition", "beta", 0),
        ("partition", "beta", -0.1),
        ("partition", "beta", float("nan")),
        ("partition", "beta", float("inf")),
        ("partition", "clients", 0),
        ("train", "rounds", 0),
        ("train", "rounds", 1.5),
        ("train", "learning_rate", "fast"),
        ("train", "learning_rate", float("nan")),
        ("train", "batch_size", -1),
        ("train", "momentum", 1.0),
        ("train", "weight_decay", -1.0),
        ("run", "seeds", []),
        ("run", "seeds", 3),
        ("run", "seeds", [-1]),
        ("run", "seeds", [2**32]),
        ("run", "seeds", ["a"]),
    ],
)
def test_a_value_out_of_range_is_named(section, key, value):
    assert sentence(**{section: {key: value}}).says(f"settings-invalid: [{section}] {key}")


def test_a_seed_twice_is_refused():
    assert sentence(run={"seeds": [1, 2, 1]}).says("settings-invalid: twice")


@pytest.mark.parametrize("data", [{}, {"table": "t.npz", "dataset": "mini-digits"}])
def test_data_come_from_a_table_or_a_dataset_and_not_both(data):
    assert sentence(data=data).says("settings-invalid: table...dataset")


def test_an_experiment_without_data_says_so():
    with refused("settings-invalid: [data]"):
        settings({"train": {}})


def test_protocols_name_only_keys_that_exist():
    for protocol in PROTOCOLS:
        assert settled(run={"protocol": protocol}).run.protocol == protocol
