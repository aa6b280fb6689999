"""A SuperLink that is killed and started again finds its sites by itself: real processes, minutes, so marked slow."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import to_toml
from ggeur.experiments.result import Result

pytestmark = [pytest.mark.needs("flower"), pytest.mark.slow]

GGEUR = [sys.executable, "-m", "ggeur", "federate"]


def test_a_killed_link_knows_its_sites_when_it_is_started_again(tmp_path):
    """Registered once; after `kill -9` of the link with all its processes, one command, and a run has both sites."""
    from ggeur.flower.machines.processes import Machines, environment, free_ports, program

    port, *ports = free_ports(3)
    subprocess.run([*GGEUR, "certificates", str(tmp_path / "keys"), "--host", "127.0.0.1"], check=True)
    env, rng = environment(tmp_path / "keys" / "link" / "home"), np.random.default_rng(0)
    link = [*GGEUR, "link", str(tmp_path / "keys"), "--port", str(port)]
    with Machines(tmp_path / "logs") as machines:
        machines.start("link", link, env)
        machines.wait_for_port("link", port)
        for k in range(2):
            key = tmp_path / f"node-{k}"
            subprocess.run([*GGEUR, "key", str(key)], check=True)
            subprocess.run([*GGEUR, "admit", str(tmp_path / "keys"), f"{key}.pub", "--name", f"node-{k}"], check=True)
            (tmp_path / "keys" / "sites" / f"node-{k}.crt").rename(tmp_path / f"node-{k}.crt")
            machines.run({f"register-{k}": [program("flwr"), "supernode", "register", f"{key}.pub"]}, env)
            x, y = rng.normal(size=(40, 5)), np.arange(40) % 2
            x[y == 1] += 3
            EmbeddingTable(x=x, y=y, test=np.arange(40) < 8).save(tmp_path / f"{k}.npz")
            words = ["--ca", tmp_path / "keys" / "ca.crt", "--key", key, "--number", k, "--port", ports[k]]
            words += ["--table", tmp_path / f"{k}.npz", "--store", tmp_path / f"store-{k}"]
            command = [*GGEUR, "node", f"127.0.0.1:{port}", *map(str, words)]
            machines.start(f"node-{k}", command, environment(tmp_path / f"home-{k}"))
        run(machines, env, tmp_path, "before")
        killed = machines.running.pop("link")
        for pid in [killed.pid, *children(killed.pid)]:
            os.kill(pid, signal.SIGKILL)
        killed.wait()
        time.sleep(2)
        began = time.perf_counter()
        machines.start("again", link, env)
        machines.wait_for_port("again", port)
        run(machines, env, tmp_path, "after")
        print(f"{time.perf_counter() - began:.0f} s from the second start to the end of the run")
    assert [sorted(Result.load(tmp_path / name).trials[0].domains) for name in ("before", "after")] == [
        ["node-0", "node-1"]
    ] * 2
    state = tmp_path / "keys" / "link" / "state.db"
    assert state.stat().st_mode & 0o077 == 0 and state.parent.stat().st_mode & 0o077 == 0


def children(pid: int) -> list[int]:
    """The processes that `pid` started, and those that they did."""
    own = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return own + [grandchild for one in own for grandchild in children(one)]


def run(machines, env, folder, name):
    """A one-shot run that waits for both sites."""
    from ggeur.flower.machines.processes import program

    tree = {
        "data": {"dataset": "ours", "encoder": "builtin"},
        "partition": {"kind": "domain"},
        "train": {"method": "lda"},
        "federate": {"sites": 2, "min_sites": 2, "wait": 120.0},
    }
    (folder / "e.toml").write_text(to_toml(tree))
    subprocess.run(
        [*GGEUR, "app", str(folder / "e.toml"), str(folder / f"app-{name}"), "--out", str(folder / name)], check=True
    )
    machines.run({name: [program("flwr"), "run", str(folder / f"app-{name}"), "ours", "--stream"]}, env, patience=300)
