"""Methods by name: what is told about a wrong one, one's own, and how all of them compose by configuration alone."""

import numpy as np
import pytest

import ggeur
from ggeur import Experiment, GgeurError
from ggeur.heads import resolve as resolve_head
from ggeur.methods import checked_parameters, factory, has_own_head, names, parameters, resolve
from ggeur.methods.algorithm import ClosedForm, Iterative
from refusal import Sentence, refused

COVARIANCES = ["none", "resample", "prototypes", "ggeur"]
LINEAR = resolve_head("linear")


def told(call, *arguments):
    """The one sentence of the error."""
    with pytest.raises(GgeurError) as caught:
        call(*arguments)
    text = Sentence.of(caught.value)
    assert text.endswith(".") and "\n" not in text and ". " not in text
    return text


# ---------------------------------------------------------------- names and parameters


def test_an_unknown_method_is_told_which_there_are():
    text = told(factory, "fedsgd")
    assert (
        text.says("component-unknown: fedsgd")
        and all(name in text for name in names())
        and "package.module:name" in text
    )


def test_an_unknown_parameter_is_told_which_there_are():
    assert told(checked_parameters, "moon", {"nu": 1.0}).says("hyperparameter-unknown: nu...mu, tau")
    assert told(checked_parameters, "fedavg", {"nu": 1.0}).says("hyperparameter-unknown: nu...none")
    assert told(checked_parameters, "lda", {"nu": 1.0}).says("hyperparameter-unknown: nu...shrinkage")


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("fedprox", {"mu": "much"}, "mu = 'much'"),
        ("fedgen", {"server_steps": 2.5}, "server_steps = 2.5"),
        ("fedopt", {"server": "sdg"}, "'sgd', 'adam', 'yogi' or 'adagrad'"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_named_with_what_it_should_be(name, given, says):
    text = told(checked_parameters, name, given)
    assert text.says(f"hyperparameter-invalid: [method.{name}] ...{says}")


def test_whole_numbers_will_do_for_fractions():
    assert checked_parameters("moon", {"mu": 2}) == {"mu": 2.0}


def test_an_experiment_file_is_checked_for_all_of_it(tree):
    for wrong in ({"train": {"method": "fedsgd"}}, {"method": {"moon": {"nu": 1}}}, {"method": {"moon": {"mu": "x"}}}):
        told(Experiment.of, tree(**wrong))


@pytest.mark.parametrize("name", names(Iterative))
def test_the_same_arguments_give_the_same_object_so_that_nothing_is_compiled_twice(name):
    assert resolve(name, LINEAR, {}) is resolve(name, LINEAR, {})
    for key, parameter in parameters(name).items():
        assert parameter.annotation is not parameter.empty and parameter.default is not parameter.empty, key


def test_another_parameter_gives_another_method():
    assert resolve("moon", LINEAR, {"mu": 2.0}) is not resolve("moon", LINEAR, {})


# ---------------------------------------------------------------- one's own


OWN = """
    from ggeur.methods.method import Method, add_term, squared_distance

    def mine(head, *, mu: float = 0.01, unused=None):
        return Method(loss=add_term(head, lambda w, batch, context: mu / 2 * squared_distance(w, context["params"])))
"""


def test_ones_own_method_is_found_in_the_working_directory_and_takes_parameters(own, tree):
    own("own_prox", OWN)
    methods = ["fedprox", "own_prox:mine"]
    given = {"own_prox:mine": {"mu": 0.5, "unused": "of no declared type"}, "fedprox": {"mu": 0.5}}
    losses = {}
    experiment = Experiment.of(tree(train={"method": methods}, method=given))
    result = ggeur.run(experiment, on_round=lambda event: losses.setdefault(event["trial"], []).append(event["loss"]))
    assert [trial.method for trial in result.trials] == methods and [trial.status for trial in result.trials] == [
        "ok",
        "ok",
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_ones_own_method_may_be_one_of_ours_with_a_part_replaced(own, tree):
    own(
        "own_frozen",
        """
        from ggeur.methods import resolve

        def frozen(head, *, mu: float = 0.1):
            return resolve("fedprox", head, {"mu": mu}).method._replace(aggregate=lambda server, total, facts: server)
        """,
    )
    trial = ggeur.run(Experiment.of(tree(train={"method": "own_frozen:frozen", "rounds": 3}))).trials[0]
    assert len(set(trial.rounds)) == 1, "nothing is learnt"


def test_ones_own_method_may_take_lists_and_be_one_for_every_head(own, tree):
    own(
        "own_odd",
        """
        from ggeur.heads import resolve
        from ggeur.methods.method import Method, cross_entropy_loss

        ANY = Method(loss=lambda w, batch, *rest: cross_entropy_loss(resolve("mlp" if "W2" in w else "linear"))(
            w, batch, *rest))

        def tagged(head, *, tags: list):
            return Method(loss=cross_entropy_loss(head))

        def constant(head):
            return ANY._replace(constant=[])
        """,
    )
    seeds = {"seeds": [0, 1]}
    tags = {"own_odd:tagged": {"tags": [["a", "b"]]}}
    result = ggeur.run(Experiment.of(tree(train={"method": "own_odd:tagged"}, method=tags, run=seeds)))
    assert [trial.status for trial in result.trials] == ["ok", "ok"]
    both = tree(train={"method": "own_odd:constant", "head": ["linear", "mlp"]}, run=seeds)
    assert [trial.status for trial in ggeur.run(Experiment.of(both)).trials] == ["ok"] * 4


def test_one_that_fails_in_training_is_named_in_a_sentence(own, tree):
    own(
        "own_boom",
        """
        from ggeur.methods.method import Method, cross_entropy_loss

        def early(head):
            return Method(loss=cross_entropy_loss(head), prepare=lambda data, key: 1 / 0)

        def branching(head):
            plain = cross_entropy_loss(head)

            def loss(*arguments):
                value, carry = plain(*arguments)
                return (value if value > 0 else -value), carry

            return Method(loss=loss)
        """,
    )
    for name, why in (("early", "ZeroDivisionError"), ("branching", "TracerBoolConversionError")):
        text = told(ggeur.run, Experiment.of(tree(train={"method": f"own_boom:{name}"})))
        assert text.says(f"custom-code-failed: own_boom:{name}...{why}: ")


def test_ones_own_method_has_its_parameters_checked(own):
    own("own_checked", OWN)
    assert told(checked_parameters, "own_checked:mine", {"nu": 1}).says(
        "hyperparameter-unknown: method.own_checked:mine...nu...mu, unused"
    )
    assert told(checked_parameters, "own_checked:mine", {"mu": "x"}).says("hyperparameter-invalid: mu = 'x'")


@pytest.mark.parametrize("name", ["no_such_module:f", "own_wrong:missing", "own_wrong:number", "own_syntax:f", ":f"])
def test_one_that_cannot_be_loaded_is_named(own, name):
    own("own_wrong", "number = 3\n")
    own("own_syntax", "def f(:\n")
    code = "custom-not-callable" if name == "own_wrong:number" else "custom-load-failed"
    assert told(factory, name).says(f"{code}: '{name}'")


def test_a_method_whose_loss_turns_nan_stops_its_trial_and_the_others_finish(own, tree, tmp_path):
    own(
        "own_nan",
        """
        import jax.numpy as jnp
        from ggeur.methods.method import Method, cross_entropy

        def broken(head):
            def loss(w, batch, context, steps, key):
                bad = jnp.where(steps >= 1, jnp.nan, 1.0)
                return bad * cross_entropy(head.logits(w, batch.x), batch.y, batch.mask), steps + 1

            return Method(loss=loss, begin=lambda context: jnp.zeros(()))
        """,
    )
    tree = tree(train={"method": ["own_nan:broken", "fedavg"]}, run={"seeds": [0, 1]})
    result = ggeur.run(Experiment.of(tree), out=tmp_path / "run")
    assert [c.status for c in result.trials] == ["diverged", "diverged", "ok", "ok"]
    for trial in result.trials[:2]:
        assert trial.avg is None and trial.rounds == []
        assert "round 1" in trial.message and "train.learning_rate" in trial.message
    assert all(len(trial.rounds) == 2 and trial.avg is not None for trial in result.trials[2:])
    assert [c.status for c in ggeur.Result.load(tmp_path / "run").trials] == [c.status for c in result.trials]


# ---------------------------------------------------------------- all together


@pytest.mark.parametrize("name", [name for name in names(Iterative) if not has_own_head(name)])
def test_every_method_composes_with_every_kind_of_augmentation(tree, name):
    losses = {}
    experiment = Experiment.of(tree(train={"method": name}, augment={"kind": COVARIANCES}))
    result = ggeur.run(experiment, on_round=lambda event: losses.setdefault(event["trial"], []).append(event["loss"]))
    assert [(trial.augment, trial.status, len(trial.rounds)) for trial in result.trials] == [
        (k, "ok", 2) for k in COVARIANCES
    ]
    assert all(trial.bytes_up > 0 and 0 <= trial.avg <= 100 for trial in result.trials)
    last = [losses[i][-1] for i in range(4)]
    assert np.isfinite(last).all() and len(set(last)) == 4, "every kind trains on a set of its own"


def test_every_statistics_serves_every_method(tree):
    """Clients that mix domains share classes, so that means have a scatter."""
    statistics = ["per-class", "pooled", "none"]
    partition = {"kind": "dirichlet", "clients": 3, "beta": 5.0}
    made = tree(augment={"kind": "ggeur", "covariance": statistics, "steps": 1})
    losses = []
    result = ggeur.run(Experiment.of({**made, "partition": partition}), on_round=lambda e: losses.append(e["loss"]))
    assert [trial.status for trial in result.trials] == ["ok"] * 3
    assert len(set(losses)) == 6, "each has a geometry of its own"
    per_class, pooled, means = (trial.bytes_up for trial in result.trials)
    assert means < pooled < per_class


def test_means_are_refused_where_each_domain_has_one_client(tree):
    experiment = Experiment.of(tree(augment={"kind": "ggeur", "covariance": "none"}))
    with refused("covariance-not-estimable"):
        ggeur.run(experiment)


@pytest.mark.parametrize("name", ["ncm", "lda", "ridge"])
def test_training_may_start_from_a_solved_head(tree, name):
    arms = [
        {"name": "solved", "train": {"method": name}},
        {"name": "from it", "train": {"method": "fedavg", "start": name, "learning_rate": 1e-6}},
        {"name": "from anywhere", "train": {"method": "fedavg"}},
    ]
    solved, started, plain = ggeur.run(Experiment.of({**tree(), "arm": arms})).trials
    assert started.start_avg == solved.avg == solved.rounds[0]
    assert started.rounds[0] == pytest.approx(solved.avg, abs=3), "round 1 goes on from there"
    assert plain.start_avg is None


def test_the_closed_forms_and_zeroshot_need_no_rounds(tree):
    result = ggeur.run(
        Experiment.of(tree(train={"method": [*names(ClosedForm), "zeroshot"]}, method={"ccvr": {"draws": 100}}))
    )
    assert all(trial.status == "ok" and len(trial.rounds) == 1 and trial.avg > 40 for trial in result.trials)
