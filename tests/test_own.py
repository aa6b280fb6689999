"""A user's own things, from outside the package: each named in an experiment file and run to a result."""

import sys
from textwrap import dedent

import numpy as np
import pytest

import ggeur
from ggeur import EmbeddingTable, Experiment, Model

REST = """
    [partition]
    kind = "domain"
    [augment]
    kind = "none"
    [train]
    rounds = 2
    local_epochs = 5
    batch = 8
    rate = 0.1
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


# ---------------------------------------------------------------- a head

HEAD = """
    import jax

    from ggeur.heads.head import Head

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
    (cell,) = result.cells
    assert cell.status == "ok" and cell.avg > 50
    model = Model.load(tmp_path / "run", own=True)
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

    from ggeur.data.readers import ImageSet, Split, pixels

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
    from ggeur.encode.encoder import Encoder

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
    usual, darker = result.cells
    assert usual.avg == 100 and darker.avg < usual.avg, "a hundredth of the light is learnt slowly"
    model = Model.load(tmp_path / "run" / "model" / "cell-001")
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
    (cell,) = result.cells
    assert cell.status == "ok" and set(cell.domains) == {"day", "night"}
    model = Model.load(tmp_path / "run")
    assert model.class_names == ("red", "green", "blue")
    assert isinstance(model.probabilities(EmbeddingTable(x=np.zeros((2, model.dimension)), y=[0, 1])), np.ndarray)
