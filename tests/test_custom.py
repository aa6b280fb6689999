"""A user's own things, from outside the package: each named in an experiment file and run to a result."""

import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest

import ggeur
from ggeur import EmbeddingTable, Experiment, Model
from ggeur.models.joining import add_site, forget_site
from ggeur.report.page import write_report
from refusal import refused

REST = """
    [partition]
    kind = "domain"
    [augment]
    kind = "none"
    [train]
    rounds = 2
    local_epochs = 5
    batch_size = 8
    learning_rate = 0.1
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(module, source, experiment): both are written to the working directory, and the experiment is run there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))

    def written(module, source, experiment):
        (tmp_path / f"{module}.py").write_text(dedent(source))
        (tmp_path / "experiment.toml").write_text(dedent(REST) + dedent(experiment))
        return ggeur.run(Experiment.load("experiment.toml"), out=tmp_path / "run")

    return written


# ---------------------------------------------------------------- methods: trained, and solved

METHODS = """
    import numpy as np

    from ggeur import Method, ClosedForm
    from ggeur.methods.method import add_term, squared_distance

    def anchored(head, *, mu: float = 0.01) -> Method:
        return Method(loss=add_term(head, lambda w, batch, context: mu / 2 * squared_distance(w, context["params"])))

    def centroids(*, sharpness: float = 1.0) -> ClosedForm:
        def solve(total, task):
            mean = sharpness * total.mean
            return {"W": mean.astype("float32"), "b": (-(mean * total.mean).sum(axis=1) / 2).astype("float32")}

        return ClosedForm("none", solve)
"""


def test_ones_own_trained_method_and_solved_head_run_beside_ours(run, build_table, tmp_path):
    build_table().save(tmp_path / "table.npz")
    result = run(
        "own_methods",
        METHODS,
        """
        method = ["fedprox", "own_methods:anchored", "ncm", "own_methods:centroids"]
        [data]
        table = "table.npz"
        [method.fedprox]
        mu = 0.5
        [method."own_methods:anchored"]
        mu = 0.5
        [method."own_methods:centroids"]
        sharpness = 2.0
        """,
    )
    fedprox, anchored, ncm, centroids = result.trials
    assert all(trial.status == "ok" for trial in result.trials)
    assert anchored.rounds == fedprox.rounds, "the same equations"
    assert centroids.avg == ncm.avg and centroids.bytes_up == ncm.bytes_up, "scaled logits, the same message"


@pytest.fixture
def own_sites(run, build_table, tmp_path):
    """Paths of three sites, with a module of one's own heads beside them."""
    (tmp_path / "own_fitted.py").write_text(dedent(METHODS))
    paths = [tmp_path / f"{name}.npz" for name in ("north", "south", "west")]
    for seed, path in enumerate(paths):
        build_table(("here",), seed).save(path)
    return paths


def test_ones_own_solved_head_is_fitted_and_sites_join_and_leave_it(own_sites, tmp_path):
    *two, west = own_sites
    ours = ggeur.fit(two, method="ncm")
    own = ggeur.fit(two, method="own_fitted:centroids", out=tmp_path / "model")
    x = EmbeddingTable.load(west).x
    np.testing.assert_array_equal(own.predict(x), ours.predict(x))
    with refused("model-custom-untrusted"):
        add_site(tmp_path / "model", west)
    before = (tmp_path / "model" / "head.npz").read_bytes()
    add_site(tmp_path / "model", west, custom=True)
    assert (tmp_path / "model" / "head.npz").read_bytes() != before
    forget_site(tmp_path / "model", "west", custom=True)
    assert (tmp_path / "model" / "head.npz").read_bytes() == before


def test_ones_own_head_is_a_candidate_and_is_not_imported_again_unasked(own_sites, tmp_path, monkeypatch):
    *two, west = own_sites
    candidates = ["lda", {"method": "own_fitted:centroids", "sharpness": 2.0}]
    found = ggeur.fit(two, parameters={"candidates": candidates, "folds": 2}, out=tmp_path / "model")
    assert found.solution_.method == "lda" and "own_fitted:centroids (sharpness 2)" in found.solution_.expected
    add_site(tmp_path / "model", west)  # solves lda, and nothing else
    monkeypatch.delitem(sys.modules, "own_fitted")
    with refused("model-custom-untrusted: own_fitted:centroids"):
        forget_site(tmp_path / "model", "west", two, choose_again=True)
    assert "own_fitted" not in sys.modules
    forget_site(tmp_path / "model", "west", two, choose_again=True, custom=True)
    assert "own_fitted" in sys.modules


# ---------------------------------------------------------------- an augmentation

AUGMENTATION = """
    import numpy as np

    from ggeur import Augmentation, DrawRule

    def round_noise(*, target: int, width: float = 1.0) -> Augmentation:
        def factors(geometry):
            sphere = np.sqrt(geometry.eigenvalues.mean(axis=1))[:, None, None] * np.eye(geometry.dimension)
            return width * sphere

        return Augmentation("round noise", DrawRule(target), noise=factors)
"""


def test_ones_own_augmentation_draws_as_many_as_it_says_with_its_own_noise(run, build_table, tmp_path):
    build_table().save(tmp_path / "table.npz")
    (tmp_path / "own_noise.py").write_text(dedent(AUGMENTATION))
    (tmp_path / "experiment.toml").write_text(
        dedent(REST).replace(
            'kind = "none"', 'kind = "own_noise:round_noise"\ntarget = 40\nparameters = {width = [0.0, 1.0]}'
        )
        + '[data]\ntable = "table.npz"\n'
    )
    still, moved = ggeur.run(Experiment.load("experiment.toml"), out=tmp_path / "run").trials
    assert still.status == moved.status == "ok"
    assert still.local_steps == moved.local_steps == [5 * 20] * 3, "four classes of 40 rows in batches of 8"
    heads = [dict(np.load(tmp_path / "run" / "model" / f"trial-00{k}" / "head.npz")) for k in (0, 1)]
    assert not np.allclose(heads[0]["W"], heads[1]["W"], atol=1e-3), "the noise is there"


BROKEN = """
    import numpy as np

    from ggeur import Augmentation, DrawRule, ClosedForm

    def fails(*, x: int = 1) -> ClosedForm:
        return ClosedForm("none", lambda total, task: 1 / 0)

    def odd(*, x: int = 1) -> ClosedForm:
        return ClosedForm("everything", lambda total, task: {})

    def flat(*, x: int = 1) -> ClosedForm:
        return ClosedForm("none", lambda total, task: {"W": np.zeros(3)})

    def noise_fails() -> Augmentation:
        return Augmentation("noise that fails", DrawRule(20), noise=lambda geometry: 1 / 0)

    def odd_statistics() -> Augmentation:
        return Augmentation("odd", DrawRule(20), noise=lambda g: g.factors("eigenvalue"), covariance="all")
"""


@pytest.mark.parametrize(
    ("key", "name", "says"),
    [
        ("train.method", "fails", "custom-code-failed: method...own_broken:fails...ZeroDivisionError"),
        ("train.start", "fails", "custom-code-failed: method...own_broken:fails...ZeroDivisionError"),
        ("train.method", "odd", "custom-method-statistics: everything"),
        ("train.method", "flat", "method-head-shape"),
        (
            "augment.kind",
            "noise_fails",
            "custom-code-failed: augmentation...own_broken:noise_fails...ZeroDivisionError",
        ),
        ("augment.kind", "odd_statistics", "augmentation-covariance-unknown: all"),
    ],
)
def test_what_fails_in_ones_own_is_blamed_on_it_in_a_sentence(run, build_table, tmp_path, key, name, says):
    build_table().save(tmp_path / "table.npz")
    (tmp_path / "own_broken.py").write_text(dedent(BROKEN))
    (tmp_path / "e.toml").write_text(dedent(REST) + '[data]\ntable = "table.npz"\n')
    with refused(says):
        ggeur.run(Experiment.load("e.toml", [f"{key}=own_broken:{name}"]))


ODD = """
    from pydantic import AfterValidator
    from typing import Annotated

    def unknown(head, *, x: "Nowhere" = 1):
        pass

    def no_type(*, x: 3 = 1):
        pass

    def fails(*, x: Annotated[int, AfterValidator(lambda x: 1 / 0)] = 1):
        pass
"""


@pytest.mark.parametrize("key", ["train.method", "train.start", "train.head", "augment.kind"])
@pytest.mark.parametrize(("name", "error"), [("builtins:max", "ValueError"), ("own_odd_types:unknown", "NameError")])
def test_what_ones_own_takes_must_be_there_to_be_read(run, tmp_path, key, name, error):
    (tmp_path / "own_odd_types.py").write_text(dedent(ODD))
    with refused(f"custom-signature-unreadable: {name}...{error}: ") as told:
        Experiment.of({"data": {"dataset": "mini-digits"}, key.split(".")[0]: {key.split(".")[1]: name}})
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "why"), [("no_type", "PydanticSchemaGenerationError"), ("fails", "ZeroDivisionError")]
)
@pytest.mark.parametrize("room", ["head", "method"])
def test_a_type_that_cannot_be_checked_is_blamed_on_the_parameter(run, tmp_path, room, name, why):
    (tmp_path / "own_odd_types.py").write_text(dedent(ODD))
    own = f"own_odd_types:{name}"
    with refused(f"hyperparameter-invalid: [{room}.{own}] x = 1: {why}: ") as told:
        Experiment.of({"data": {"dataset": "mini-digits"}, "train": {room: own}, room: {own: {"x": 1}}})
    assert "\n" not in str(told.value)


# ---------------------------------------------------------------- a head

HEAD = """
    import jax

    from ggeur import Head

    def bottleneck(*, widths: list[int], slope: float = 0.1) -> Head:
        def init(key, dimension, classes):
            sizes = [dimension, *widths, classes]
            keys = jax.random.split(key, len(sizes))
            shapes = zip(keys, sizes, sizes[1:])
            return {"layers": [{"W": jax.random.normal(k, (i, o)) / i**0.5} for k, i, o in shapes]}

        def represent(params, x):
            for layer in params["layers"][:-1]:
                x = jax.nn.leaky_relu(x @ layer["W"], slope)
            return x

        def logits(params, x):
            return represent(params, x) @ params["layers"][-1]["W"]

        def shape(params):
            return params["layers"][-1]["W"].shape[1], params["layers"][0]["W"].shape[0]

        return Head(init, logits, represent, shape)
"""


def test_ones_own_head_is_trained_saved_and_used(run, build_table, tmp_path):
    table = build_table()
    table.save(tmp_path / "table.npz")
    result = run(
        "own_head",
        HEAD,
        """
        head = "own_head:bottleneck"
        [data]
        table = "table.npz"
        [head."own_head:bottleneck"]
        widths = [[6, 3]]
        slope = 0.2
        """,
    )
    (trial,) = result.trials
    assert trial.status == "ok" and trial.avg > 50
    model = Model.load(tmp_path / "run", custom=True)
    assert (model.head, model.parameters) == ("own_head:bottleneck", {"widths": [6, 3], "slope": 0.2})
    x = table.x
    for layer in model.params["layers"][:-1]:
        x = x @ layer["W"]
        x = np.where(x > 0, x, np.float32(0.2) * x)
    logits = x @ model.params["layers"][-1]["W"]
    np.testing.assert_array_equal(model.probabilities(table).argmax(axis=1), logits.argmax(axis=1))


# ---------------------------------------------------------------- an encoder

PICTURES = """
    import numpy as np

    from ggeur import ImageSet
    from ggeur.data.readers import Split, pixels

    def images(seed):
        rng = np.random.default_rng(seed)
        y = np.arange(60) % 3
        x = rng.integers(0, 60, (60, 8, 9, 3))
        x[np.arange(60), :, :, y] += 150  # red, green and blue ones
        return x.astype(np.uint8), y

    def colours():
        domains = {name: Split(pixels(*images(seed), name)) for seed, name in enumerate(["day", "night"])}
        return ImageSet.of(["red", "green", "blue"], domains)
"""

ENCODER = """
    from ggeur import Encoder

    class Mean(Encoder):
        name, dimension, preprocessing, weights_hash = "mean colour", 3, "none", "one"

        def prepare(self, image):
            return image.reshape(-1, 3).mean(axis=0, dtype="float32") / 255

        def forward(self, prepared):
            return prepared

    def mean():
        return Mean()

    def darker():
        found = Mean()
        found.weights_hash, found.forward = "another", lambda prepared: 0.01 * prepared
        return found
"""


@pytest.mark.filterwarnings("ignore:Embedding the:ggeur.GgeurWarning")
def test_ones_own_encoder_embeds_and_has_a_place_of_its_own_in_the_cache(run, tmp_path):
    (tmp_path / "own_pictures.py").write_text(dedent(PICTURES))
    result = run(
        "own_encoder",
        ENCODER,
        """
        [data]
        dataset = "own_pictures:colours"
        encoder = ["own_encoder:mean", "own_encoder:darker"]
        """,
    )
    usual, darker = result.trials
    assert usual.avg == 100 and darker.avg < usual.avg, "a hundredth of the light is learnt slowly"
    model = Model.load(tmp_path / "run" / "model" / "trial-001")
    assert model.encoder == {"encoder": "mean colour", "weights": "another", "preprocessing": "none"}
    assert len(list((tmp_path / "cache" / "embeddings").iterdir())) == 2


# ---------------------------------------------------------------- a dataset


@pytest.mark.filterwarnings("ignore:Embedding the:ggeur.GgeurWarning")
def test_ones_own_dataset_is_embedded_and_learnt(run, tmp_path):
    result = run(
        "own_dataset",
        PICTURES,
        """
        [data]
        dataset = "own_dataset:colours"
        encoder = "builtin"
        """,
    )
    (trial,) = result.trials
    assert trial.status == "ok" and set(trial.domains) == {"day", "night"}
    model = Model.load(tmp_path / "run")
    assert model.class_names == ("red", "green", "blue")
    assert isinstance(model.probabilities(EmbeddingTable(x=np.zeros((2, model.dimension)), y=[0, 1])), np.ndarray)


# ---------------------------------------------------------------- a finished run, and what a method returns


@pytest.mark.usefixtures("undrawn")
def test_a_finished_run_is_reported_and_resumed_without_what_it_was_made_of(run, build_table, tmp_path):
    build_table().save(tmp_path / "table.npz")
    (tmp_path / "own_gone_noise.py").write_text(dedent(AUGMENTATION))
    run(
        "own_gone",
        METHODS,
        """
        method = ["own_gone:anchored", "own_gone:centroids"]
        [data]
        table = "table.npz"
        """,
    )
    again = dedent(REST).replace('"none"', '"own_gone_noise:round_noise"') + '[data]\ntable = "table.npz"\n'
    (tmp_path / "noisy.toml").write_text(again)
    ggeur.run(Experiment.load("noisy.toml"), out=tmp_path / "noisy")
    for name in ("own_gone", "own_gone_noise"):
        (tmp_path / f"{name}.py").unlink()
        sys.modules.pop(name)
    for folder in (tmp_path / "run", tmp_path / "noisy"):
        write_report([folder], tmp_path / "report.html")
    code = """
        import sys
        from ggeur.cli import main
        for folder in ("run", "noisy"):
            sys.argv = ["ggeur", "run", "--resume", folder]
            try:
                main()
            except SystemExit as end:
                assert not end.code, folder
    """
    done = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.count("Results and trained heads") == 2, done.stderr
    assert "round_noise" in (tmp_path / "report.html").read_text()
    with refused("custom-load-failed: method...own_gone:anchored"):
        Experiment.load(tmp_path / "run" / "config.toml")


RETURNS = """
    import jax.numpy as jnp

    from ggeur import Method
    from ggeur.methods.method import cross_entropy_loss

    def alone(head):
        return Method(loss=lambda params, batch, context, carry, key: jnp.sum(batch.x))

    def by_row(head):
        return Method(loss=lambda params, batch, context, carry, key: (batch.x[:, 0], carry))

    def carries(head):
        return Method(loss=lambda params, batch, context, carry, key: (jnp.sum(batch.x), {"n": 1}))

    def sends(head):
        return Method(loss=cross_entropy_loss(head), upload=lambda work: {"params": work.end})

    def keeps(head):
        return Method(loss=cross_entropy_loss(head), upload=lambda work: ({"params": work.end}, work.start))

    def forgets(head):
        return Method(loss=cross_entropy_loss(head), aggregate=lambda server, total, facts: total["params"])

    def empty(head):
        return Method(loss=cross_entropy_loss(head), broadcast=lambda server: server["params"])

    def begins(head):
        return Method(loss=cross_entropy_loss(head), init=lambda params, prepared, n: {"params": params})

    def number(head):
        return Method(loss=3)

    def strange(head):
        return Method(loss=cross_entropy_loss(head), aggregate=lambda server, total, facts: {"params": print})

    def listed(head):
        return Method(loss=lambda params, batch, context, carry, key: ([1.0], carry))
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("alone", "custom-method-return: its loss...not float32[]"),
        ("by_row", "custom-method-return: its loss...not (float32[8], ())"),
        ("carries", "custom-method-return: its loss...not (float32[], {n"),
        ("sends", "custom-method-return: its upload...not {params: {W"),
        ("keeps", "custom-method-return: its upload...not ({params: {"),
        ("forgets", "custom-method-return: its aggregate...not {W: float32[4, 5]"),
        ("empty", "custom-method-return: its broadcast...not {W: "),
        ("begins", "custom-method-return: its init...not {params: "),
        ("number", "custom-method-part: its loss...not int"),
        ("strange", "custom-method-return: its aggregate...not dict."),
        ("listed", "custom-method-return: its loss...not ([float32"),
    ],
)
def test_what_a_method_returns_wrong_is_said_in_our_words(run, build_table, tmp_path, name, says):
    build_table().save(tmp_path / "table.npz")
    (tmp_path / "own_returns.py").write_text(dedent(RETURNS))
    (tmp_path / "e.toml").write_text(dedent(REST) + '[data]\ntable = "table.npz"\n')
    with refused(says.replace(": ", f": own_returns:{name}...", 1)) as told:
        ggeur.run(Experiment.load("e.toml", [f"train.method=own_returns:{name}"]))
    assert "\n" not in str(told.value)
