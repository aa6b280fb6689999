"""A run that is killed, cut off, interrupted or damaged goes on to the very same result."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import ggeur
from ggeur.engine.simulate import State
from ggeur.experiments.checkpoint import Checkpoints
from ggeur.experiments.grid import Experiment
from refusal import refused

ROUNDS = 3


def tree(folder: Path, **train):
    return {
        "data": {"table": str(folder / "table.npz")},
        "partition": {"kind": "label-and-domain", "beta": 0.5},
        "augment": {"kind": ["none", "ggeur"], "target": 20, "per_prototype": 5},
        "train": {
            "method": ["fedavg", "scaffold", "lda"],
            "rounds": ROUNDS,
            "local_epochs": 1,
            "batch_size": 8,
            **train,
        },
        "run": {"seeds": [0, 1]},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small table and an uninterrupted run of it."""
    folder = tmp_path_factory.mktemp("resume")
    rng = np.random.default_rng(0)
    y = np.arange(180) % 3
    x = rng.normal(size=(180, 6)) + 2 * np.eye(6)[y]
    ggeur.EmbeddingTable(x=x, y=y, domain=np.arange(180) // 60).save(folder / "table.npz")
    experiment = Experiment.of(tree(folder))
    (folder / "e.toml").write_text(experiment.to_toml(), encoding="utf-8")
    ggeur.run(experiment, out=folder / "whole")
    return folder


def outcome(run: Path):
    """Everything that must not depend on interruptions: results without seconds, heads bit for bit, metrics."""
    result = json.loads((run / "result.json").read_text())
    del result["sha256"]  # seconds are in it
    for trial in result["trials"]:
        del trial["seconds"], trial["round_seconds"]
    heads = {p.relative_to(run).as_posix(): p.read_bytes() for p in sorted((run / "model").rglob("*.npz"))}
    metrics = sorted((run / "metrics.jsonl").read_text().splitlines())
    return result, heads, metrics


def killed(folder: Path, out: Path, at: int, *, function: str, resume: bool) -> int:
    """Run in a process of its own that kills itself at the `at`-th call of an os function; its exit code."""
    script = f"""
        import os, signal
        import ggeur
        from ggeur.experiments.grid import Experiment
        real, calls = os.{function}, 0
        def deadly(*args, **kwargs):
            global calls
            calls += 1
            if calls == {at}:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)
        os.{function} = deadly
        ggeur.run(Experiment.load({str(folder / "e.toml")!r}), out={str(out)!r}, resume={resume})
    """
    return subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, timeout=120).returncode


def test_kills_at_write_points_lose_nothing(folder, tmp_path):
    out = tmp_path / "run"
    points = [("replace", 3), ("fsync", 4), ("replace", 2), ("fsync", 3), ("replace", 5)]
    for i, (function, at) in enumerate(points):
        assert killed(folder, out, at, function=function, resume=i > 0) == -signal.SIGKILL
    ggeur.run(Experiment.load(folder / "e.toml"), out=out, resume=True)
    assert outcome(out) == outcome(folder / "whole")


def stopped_after(folder: Path, out: Path, rounds: int) -> None:
    """A run whose callback gives up after so many events, as a user's Ctrl-C would."""
    seen = []

    def on_round(event):
        seen.append(event)
        if len(seen) == rounds:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ggeur.run(Experiment.load(folder / "e.toml"), out=out, on_round=on_round)


def test_a_finished_trial_is_never_redone(folder, tmp_path):
    stopped_after(folder, tmp_path / "run", 2 * ROUNDS + 3)
    events = []
    ggeur.run(Experiment.load(folder / "e.toml"), out=tmp_path / "run", resume=True, on_round=events.append)
    assert min(e["trial"] for e in events) == 2  # trials 0 and 1 were done
    assert outcome(tmp_path / "run") == outcome(folder / "whole")


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(folder, tmp_path, damage):
    stopped_after(folder, tmp_path / "run", 2 * ROUNDS)
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoint")
    newest = checkpoints.newest()
    assert newest is not None
    path = max((tmp_path / "run" / "checkpoint").glob("state-?"), key=lambda p: p.stat().st_mtime_ns)
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        path.unlink()
    before = checkpoints.newest()
    assert before is not None and before.round == newest.round - 1
    ggeur.run(Experiment.load(folder / "e.toml"), out=tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == outcome(folder / "whole")


def test_torn_and_doubled_metrics_are_mended(folder, tmp_path):
    stopped_after(folder, tmp_path / "run", 2 * ROUNDS + 3)
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes() + metrics.read_bytes().splitlines()[0] + b'\n{"trial": 3, "rou')
    ggeur.run(Experiment.load(folder / "e.toml"), out=tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == outcome(folder / "whole")


def test_another_experiment_is_refused_with_the_difference(folder, tmp_path):
    stopped_after(folder, tmp_path / "run", 4)
    other = Experiment.of(tree(folder, learning_rate=0.5))
    with refused("run-other-experiment: train.learning_rate is 'not set' there and 0.5 here"):
        ggeur.run(other, out=tmp_path / "run", resume=True)


def test_changed_embeddings_are_noticed(folder, tmp_path):
    table = ggeur.EmbeddingTable.load(folder / "table.npz")
    table.save(tmp_path / "table.npz")
    (tmp_path / "e.toml").write_text(Experiment.of(tree(tmp_path)).to_toml(), encoding="utf-8")
    stopped_after(tmp_path, tmp_path / "run", 4)
    y = table.y.copy()
    y[0] = (y[0] + 1) % 3
    ggeur.EmbeddingTable(x=table.x, y=y, domain=table.domain).save(tmp_path / "table.npz")
    with refused("run-inputs-changed"):
        ggeur.run(Experiment.load(tmp_path / "e.toml"), out=tmp_path / "run", resume=True)


def test_resuming_a_finished_run_returns_its_result(folder):
    events = []
    again = ggeur.run(Experiment.load(folder / "e.toml"), out=folder / "whole", resume=True, on_round=events.append)
    assert not events and [c.avg for c in again.trials] == [c.avg for c in ggeur.Result.load(folder / "whole").trials]


def test_nothing_to_resume_is_said(folder, tmp_path):
    with refused("run-missing"):
        ggeur.run(Experiment.load(folder / "e.toml"), out=tmp_path / "nowhere", resume=True)


def command(*arguments: object, **options) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "ggeur", "run", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_for_rounds(run: Path, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 60
    while not (run / "checkpoint" / "state-1").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_process_is_refused_and_a_signal_stops_the_first_cleanly(folder, tmp_path, number):
    long = ("--set", "train.rounds=100000", "--set", "augment.kind=none", "--set", "train.method=fedavg")
    process = command(folder / "e.toml", "--out", tmp_path / "run", *long)
    try:
        wait_for_rounds(tmp_path / "run", process)
        with refused("folder-locked: Another process is running"):
            ggeur.run(Experiment.load(tmp_path / "run" / "config.toml"), out=tmp_path / "run", resume=True)
    except BaseException:
        process.kill()
        raise
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"ggeur run --resume {tmp_path / 'run'}" in output.replace("\n", "")
    assert "Traceback" not in output + errors


def test_a_file_that_may_not_grow_stops_the_run_and_it_goes_on_when_it_may(folder, tmp_path):
    """RLIMIT_FSIZE, as a full disk would: writes fail, the run stops in a sentence, and resumes to the same result."""
    script = f"""
        import resource, signal, sys
        import ggeur
        from ggeur.experiments.grid import Experiment
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        events = []
        def on_round(event):
            events.append(event)
            if len(events) == 3:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        try:
            ggeur.run(Experiment.load({str(folder / "e.toml")!r}), out={str(tmp_path / "run")!r}, on_round=on_round)
        except ggeur.GgeurError as error:
            sys.exit(str(error))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1 and "File too large" in done.stderr and "Traceback" not in done.stderr
    ggeur.run(Experiment.load(folder / "e.toml"), out=tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == outcome(folder / "whole")


def test_a_full_disk_during_a_checkpoint_stops_the_run_and_it_goes_on(folder, tmp_path, monkeypatch):
    real, calls = os.fsync, []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 6:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with refused("run-not-finished: No space left on device"):
        ggeur.run(Experiment.load(folder / "e.toml"), out=tmp_path / "run")
    monkeypatch.undo()
    ggeur.run(Experiment.load(folder / "e.toml"), out=tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == outcome(folder / "whole")


def test_a_run_folder_that_vanishes_stops_the_run_in_a_sentence(folder, tmp_path):
    import shutil

    def on_round(event):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)

    with refused("file-unwritable"):
        ggeur.run(Experiment.load(folder / "e.toml"), out=tmp_path / "run", on_round=on_round)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_two_states_are_kept_however_often_they_are_written(tmp_path, every):
    (tmp_path / "c").mkdir()
    checkpoints = Checkpoints(tmp_path / "c")
    for round_ in range(every, 7 * every, every):
        state = State(round_, [{"W": np.full(3, round_)}], (), ())
        checkpoints.save(0, state, [])
        if round_ == 3 * every:
            checkpoints = Checkpoints(tmp_path / "c")  # as a new process would
    newest = checkpoints.newest()
    assert newest is not None and newest.round == 6 * every
    newer = max((tmp_path / "c").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    newer.write_bytes(b"damaged")
    before = Checkpoints(tmp_path / "c").newest()
    assert before is not None and before.round == 5 * every


def test_a_process_that_goes_on_writes_over_the_older_state_also_where_rounds_are_alike(tmp_path):
    """With checkpoint_every >= rounds every stack is kept once, after the same round."""
    (tmp_path / "c").mkdir()
    for stack in range(4):
        Checkpoints(tmp_path / "c").save(stack, State(ROUNDS, [np.full(2, stack)], (), ()), [])
        (tmp_path / "c" / f"state-{stack % 2}").stat()
        held = sorted(s.stack for s in (Checkpoints(tmp_path / "c").newest(),) if s is not None)
        assert held == [stack]
        kept = {int(np.load(io.BytesIO(path.read_bytes()[32:]))["leaf0"][0]) for path in (tmp_path / "c").iterdir()}
        assert kept == {stack, max(stack - 1, 0)}, "the newest two"
