"""What takes minutes: many kills of one run, and many trials in one process."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import ggeur
from ggeur.experiments.grid import Experiment

pytestmark = pytest.mark.slow
KILLS = 50


def experiment(folder: Path, **sections) -> Experiment:
    rng = np.random.default_rng(0)
    y = np.arange(360) % 3
    x = rng.normal(size=(360, 16)) + 2 * np.eye(16)[y]
    ggeur.EmbeddingTable(x=x, y=y, domain=np.arange(360) // 120).save(folder / "table.npz")
    return Experiment.of(
        {
            "data": {"table": str(folder / "table.npz")},
            "partition": {"kind": "label-and-domain", "beta": 0.5},
            "train": {"method": ["fedavg", "scaffold", "moon", "fedopt", "lda"], "rounds": 80, "batch_size": 16},
            "augment": {"kind": ["none", "ggeur"]},
            "run": {"seeds": [0, 1]},
            **sections,
        }
    )


def outcome(run: Path):
    result = json.loads((run / "result.json").read_text())
    del result["sha256"]  # seconds are in it
    for trial in result["trials"]:
        del trial["seconds"], trial["round_seconds"]
    heads = {p.relative_to(run).as_posix(): p.read_bytes() for p in sorted((run / "model").rglob("*.npz"))}
    return result, heads, sorted((run / "metrics.jsonl").read_text().splitlines())


def test_fifty_kills_at_random_times_lose_nothing(tmp_path):
    (tmp_path / "e.toml").write_text(experiment(tmp_path).to_toml(), encoding="utf-8")
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "ggeur", "run", "e.toml", "--out", "whole"], cwd=tmp_path, check=True)
    whole = time.monotonic() - began
    rng, kills, run = random.Random(0), 0, tmp_path / "run"
    while kills < KILLS and not (run / "result.json").exists():
        start = ["--resume", "run"] if (run / "config.toml").exists() else ["e.toml", "--out", "run"]
        process = subprocess.Popen(
            [sys.executable, "-m", "ggeur", "run", *start], cwd=tmp_path, stdout=subprocess.DEVNULL
        )
        rounds = size(run)
        deadline = time.monotonic() + 10 * whole
        while size(run) <= rounds and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)  # let it get to work, or fifty kills would all hit the start
        time.sleep(rng.uniform(0, whole / KILLS / 4))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    subprocess.run([sys.executable, "-m", "ggeur", "run", "--resume", "run"], cwd=tmp_path, check=True)
    assert kills == KILLS
    assert outcome(run) == outcome(tmp_path / "whole")


def size(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    return os.path.getsize(metrics) if metrics.exists() else 0


def test_memory_does_not_grow_with_the_number_of_trials(tmp_path):
    """500 short trials in one process: at most 1.1 times the memory after 50, plus 50 MB."""
    grid = experiment(
        tmp_path,
        train={
            "rounds": 1,
            "batch_size": 16,
            "local_epochs": 1,
            "learning_rate": [round(0.001 * i, 3) for i in range(1, 26)],
        },
        run={"seeds": list(range(10))},
    )
    (tmp_path / "e.toml").write_text(grid.to_toml(), encoding="utf-8")
    script = """
        import json
        import ggeur
        from ggeur.experiments.grid import Experiment
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096
        memory = {}
        def on_round(event):
            memory[event["trial"]] = resident()
        ggeur.run(Experiment.load("e.toml"), out="run", on_round=on_round)
        print(json.dumps([len(memory), memory[49], memory[499]]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    trials, after_50, after_500 = json.loads(done.stdout.splitlines()[-1])
    print(f"after 50 trials {after_50 / 2**20:.0f} MiB, after 500 {after_500 / 2**20:.0f} MiB")
    assert trials == 500 and after_500 <= 1.1 * after_50 + 50 * 2**20
