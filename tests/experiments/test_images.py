"""Runs on pictures: every part of the house does with them what it does with embeddings, or refuses in a sentence."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import ggeur
from ggeur.data.image_table import ImageTable
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment
from ggeur.flower.server.serverapp import check_deployable
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError


def squares():
    """Two domains, dark and bright, of pictures with a red or a green square."""
    rng = np.random.default_rng(0)
    y, domain = np.arange(80) % 2, np.arange(80) // 40
    x = rng.integers(0, 40, (80, 16, 16, 3)) + 100 * domain[:, None, None, None]
    for picture, label in zip(x, y, strict=True):
        picture[3:13, 3:13, label] += 110
    return ImageTable(
        x=x.astype(np.uint8), y=y, domain=domain, class_names=("red", "green"), meta={"encoder": "pixels:16"}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    squares().save(folder / "table.npz")
    return folder


def experiment(folder, **train):
    values = {"head": "simplecnn", "rounds": 3, "local_epochs": 4, "batch_size": 8, "learning_rate": 0.05, **train}
    return Experiment.of(
        {"data": {"table": str(folder / "table.npz")}, "partition": {"kind": "domain"}, "train": values}
    )


@pytest.fixture(scope="module")
def whole(folder):
    """An uninterrupted run of two methods."""
    ggeur.run(experiment(folder, method=["fedavg", "fedproto"], rounds=4), out=folder / "whole")
    return folder / "whole"


def heads(run):
    return {path.relative_to(run): path.read_bytes() for path in sorted((run / "model").rglob("*.npz"))}


def test_networks_learn_and_their_models_predict(whole, folder):
    for trial in ggeur.Result.load(whole).trials:
        assert trial.status == "ok" and trial.rounds[-1] > 90
    model, table = Model.load(whole, trial=0), squares()
    right = (model.probabilities(table).argmax(axis=1) == table.y).mean()
    assert right > 0.9
    samples = EmbeddingTable(x=table.x.astype(np.float32), y=table.y)  # as an encoder of pixels makes them
    np.testing.assert_array_equal(model.probabilities(samples), model.probabilities(table))


def test_a_killed_run_goes_on_to_the_very_same_networks(whole, folder):
    kill = textwrap.dedent("""
        import os, signal, sys, tomllib
        import ggeur
        from ggeur.experiments.grid import Experiment
        def on_round(event):
            if (event["trial"], event["round"]) == (1, 2):
                os.kill(os.getpid(), signal.SIGKILL)
        ggeur.run(Experiment.load(sys.argv[1]), out=sys.argv[2], on_round=on_round)
    """)
    wanted = experiment(folder, method=["fedavg", "fedproto"], rounds=4)
    (folder / "e.toml").write_text(wanted.to_toml(), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(ggeur.__file__).parents[1])}
    command = [sys.executable, "-c", kill, str(folder / "e.toml"), str(folder / "killed")]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    ggeur.run(wanted, out=folder / "killed", resume=True)
    assert heads(folder / "killed") == heads(whole)


def test_training_starts_from_a_model_and_another_layout_is_refused(whole, folder, tmp_path):
    start = str(whole / "model" / "trial-000")
    further = ggeur.run(experiment(folder, rounds=1, start=start))
    assert further.trials[0].start_avg == ggeur.Result.load(whole).trials[0].rounds[-1]
    for train, why in (
        ({"head": "resnet10"}, "its head is 'simplecnn'"),
        ({"start": str(folder / "nothing")}, "no trained model"),
    ):
        with pytest.raises(GgeurError, match=why):
            ggeur.run(experiment(folder, **({"start": start} | train)))
    other = ImageTable(x=squares().x, y=squares().y, domain=squares().domain, class_names=("up", "down"))
    other.save(tmp_path / "table.npz")
    with pytest.raises(GgeurError, match="its classes are not"):
        ggeur.run(experiment(tmp_path, start=start))


@pytest.mark.parametrize(
    "sections, why",
    [
        ({"train": {"method": "lda"}}, "a one-shot solver needs embeddings"),
        ({"train": {"start": "lda"}}, "a one-shot solver needs embeddings"),
        ({"train": {"method": "fedmix"}}, "'fedmix' changes embeddings"),
        ({"augment": {"kind": "ggeur"}}, "draws embeddings"),
        ({"data": {"dataset": "mini-digits"}}, 'encoder = "pixels:32"'),
        ({"data": {"dataset": "mini-digits", "encoder": "pixels:32", "standardise": True}}, "normalises itself"),
    ],
)
def test_what_pictures_leave_no_room_for_is_refused_before_anything_runs(folder, sections, why):
    tree = experiment(folder).tree
    tree = {**tree, **{name: tree.get(name, {}) | values for name, values in sections.items()}}
    if "data" in sections:
        tree["data"] = sections["data"]
    with pytest.raises(GgeurError, match=why):
        Experiment.of(tree)


def test_rows_and_head_must_go_together(folder, tmp_path):
    with pytest.raises(GgeurError, match="The table holds pictures"):
        ggeur.run(experiment(folder, head="linear"))
    EmbeddingTable(x=np.zeros((8, 3 * 16**2)), y=np.arange(8) % 2, domain=np.arange(8) // 4).save(
        tmp_path / "table.npz"
    )
    with pytest.raises(GgeurError, match="the table holds embeddings"):
        ggeur.run(experiment(tmp_path))


def test_real_machines_are_not_there_yet(folder):
    with pytest.raises(GgeurError, match="'simplecnn' is not there yet on real machines"):
        check_deployable(experiment(folder))
