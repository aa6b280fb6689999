"""[run] track: a real MLflow file store, real TensorBoard event files and an offline run of Weights & Biases."""

import json
from pathlib import Path

import pytest

from ggeur import Experiment
from ggeur import run as ggeur_run
from ggeur.report import tracking
from refusal import refused

SEEDS, ROUNDS = (3, 5), 2


@pytest.fixture
def followed(tree, tmp_path, monkeypatch):
    """follow(tool): a small run with it; (run folder, the lines of its metrics by trial)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def follow(tool):
        sections = tree(train={"rounds": ROUNDS, "method": "fedprox"}, run={"seeds": list(SEEDS), "track": tool})
        experiment, out, events = Experiment.of({**sections, "method": {"fedprox": {"mu": 0.25}}}), tmp_path / "run", []
        with tracking.tracked(experiment, out, events.append) as on_round:
            ggeur_run(experiment, out=out, on_round=on_round)
        assert len(events) == len(SEEDS) * ROUNDS, "who follows already still does"
        return out, {trial: [e for e in events if e["trial"] == trial] for trial in range(len(SEEDS))}

    return follow


def curves(events):
    """Each number of a trial by its name, in the order of rounds."""
    found = {"avg": [e["avg"] for e in events], "loss": [e["loss"] for e in events]}
    return found | {f"domain/{name}": [e["domains"][name] for e in events] for name in events[0]["domains"]}


@pytest.mark.needs("track")
def test_mlflow_keeps_parameters_curves_report_and_models(followed):
    import mlflow.tracking as tracking_of

    out, trials = followed("mlflow")
    client = tracking_of.MlflowClient(Path("mlruns").absolute().as_uri())
    runs = client.search_runs([client.get_experiment_by_name("run").experiment_id])
    assert {r.info.run_name for r in runs} == {f"FedProx, seed {seed}" for seed in SEEDS}
    for one in runs:
        assert one.info.status == "FINISHED"
        assert one.data.params["method.fedprox.mu"] == "0.25" and one.data.params["train.rounds"] == str(ROUNDS)
        trial = SEEDS.index(int(one.data.params["seed"]))
        for name, values in curves(trials[trial]).items():
            kept = client.get_metric_history(one.info.run_id, name)
            assert [m.step for m in kept] == [1, 2] and [m.value for m in kept] == pytest.approx(values)
        files = {f.path for f in client.list_artifacts(one.info.run_id)}
        assert files == {"report.html", "config.toml", "result.json", f"trial-{trial:03d}"}
        model = Path(client.download_artifacts(one.info.run_id, f"trial-{trial:03d}/head.npz"))
        assert model.read_bytes() == (out / "model" / f"trial-{trial:03d}" / "head.npz").read_bytes()


@pytest.mark.needs("track")
def test_tensorboard_reads_our_event_files(followed):
    from tensorboard.backend.event_processing import event_accumulator as accumulators

    out, trials = followed("tensorboard")
    for trial, seed in enumerate(SEEDS):
        read = accumulators.EventAccumulator(str(out / "tensorboard" / f"FedProx, seed {seed}"))
        read.Reload()
        for name, values in curves(trials[trial]).items():
            kept = read.Scalars(name)
            assert [s.step for s in kept] == [1, 2] and [s.value for s in kept] == pytest.approx(values, rel=1e-6)
        parameters, files = (
            read.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in ("parameters", "files")
        )
        assert "method.fedprox.mu = 0.25" in parameters and f"seed = {seed}" in parameters
        assert str(out / "model" / f"trial-{trial:03d}") in files and str(out / "report.html") in files


@pytest.mark.needs("track")
def test_wandb_keeps_an_offline_run_of_each_trial(followed):
    """Its log has no reader of its own, but holds names and numbers as text."""
    import wandb

    out, trials = followed("wandb")
    wandb.teardown()  # its service writes the end of a log after the run is told to be finished
    logs = [path.read_bytes() for path in (out / "wandb").glob("offline-run-*/*.wandb")]
    assert len(logs) == len(SEEDS)
    for trial, seed in enumerate(SEEDS):
        (log,) = (one for one in logs if f"FedProx, seed {seed}".encode() in one)
        for name, values in curves(trials[trial]).items():
            texts = [name, *(json.dumps(value).removesuffix(".0") for value in values)]  # it writes 25.0 as 25
            assert [text for text in texts if text.encode() not in log] == []


def test_what_is_not_there_is_said_before_the_run(tree, monkeypatch):
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with refused("extra-missing"):
        tracking.check_tracking(Experiment.of(tree(run={"track": "mlflow"})))
    tracking.check_tracking(Experiment.of(tree()))
    with refused("settings-invalid: track"):
        Experiment.of(tree(run={"track": "excel"}))


@pytest.mark.needs("track")
def test_a_run_that_fails_is_closed_without_files(followed, tree, tmp_path):
    experiment = Experiment.of(tree(run={"seeds": [0], "track": "tensorboard"}))
    event = {"trial": 0, "round": 1, "avg": 50.0, "loss": 1.0, "domains": {"art": 50.0}}
    with pytest.raises(ZeroDivisionError), tracking.tracked(experiment, tmp_path / "run", lambda e: None) as on_round:
        on_round(event)
        raise ZeroDivisionError
    assert not (tmp_path / "run" / "report.html").exists() and list((tmp_path / "run" / "tensorboard").iterdir())
