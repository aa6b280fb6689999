"""A federation of real processes on loopback, by the commands that the docs give."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import to_toml

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
GGEUR = [sys.executable, "-m", "ggeur", "federate"]


def ggeur(*words, code=0, timeout=300, **options) -> str:
    """Run `ggeur federate ...` to its end, and return what it says in one line."""
    done = subprocess.run(
        [*GGEUR, *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False, **options
    )
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def wait_for(what, seconds=180.0):
    """What `what` returns as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)
    return found


def children(pid: int) -> list[int]:
    """The processes that `pid` started, and those that they did."""
    try:
        own = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return own + [grandchild for one in own for grandchild in children(one)]


def commands(pids) -> dict[int, str]:
    """The command lines of processes."""
    found = {}
    for pid in pids:
        try:
            found[pid] = (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def table_of_a_site(path: Path, seed: int, classes: int = 3) -> EmbeddingTable:
    """A site's table: three classes in eight dimensions, shifted for each site."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), 40)
    x = 2 * np.random.default_rng(9).normal(size=(classes, 8))[y] + rng.normal(size=(len(y), 8))
    domain = np.zeros(len(y), int)
    test = rng.random(len(y)) < 0.3
    table = EmbeddingTable(x=x.astype(np.float32), y=y, domain=domain, domain_names=(f"site {seed}",), test=test)
    table.save(path)
    return table


class Sites:
    """A server and `n` sites of real processes in `folder`, started and ended by name within `machines`."""

    def __init__(self, folder: Path, machines, n: int = 2) -> None:
        from ggeur.flower.machines.processes import environment, free_ports, program

        self.folder, self.machines, self.n = folder, machines, n
        self.port, *self.ports = free_ports(n + 1)
        self.address = f"127.0.0.1:{self.port}"
        self.keys = folder / "keys"
        ggeur("certificates", self.keys, "--host", "127.0.0.1")
        self.env = {**environment(self.keys / "link" / "home"), "PYTHONUNBUFFERED": "1"}
        self.start_link()
        jobs = {}
        for k in range(n):
            key = folder / f"node-{k}"
            ggeur("key", key)
            ggeur("admit", self.keys, f"{key}.pub", "--name", f"node-{k}")
            (folder / f"node-{k}.crt").write_bytes((self.keys / "sites" / f"node-{k}.crt").read_bytes())
            jobs[f"register-{k}"] = [program("flwr"), "supernode", "register", f"{key}.pub"]
            table_of_a_site(folder / f"{k}.npz", k)
        machines.run(jobs, self.env)

    def start_link(self) -> None:
        """Start the server and wait until it listens."""
        self.machines.start("link", [*GGEUR, "link", str(self.keys), "--port", str(self.port)], self.env)
        self.machines.wait_for_port("link", self.port)

    def start_node(self, k: int, address: str | None = None, env=None) -> None:
        """Start a node, whose log says what it says."""
        words = ["--ca", self.keys / "ca.crt", "--key", self.folder / f"node-{k}", "--number", k]
        words += ["--port", self.ports[k], "--table", self.folder / f"{k}.npz", "--store", self.folder / f"store-{k}"]
        command = [*GGEUR, "node", address or self.address, *map(str, words)]
        own = {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})}
        self.machines.start(f"node-{k}", command, own)

    def log(self, name: str) -> str:
        """What a process has said, in one line."""
        path = self.folder / "logs" / f"{name}.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return " ".join(_COLOUR.sub("", text).split())

    def connected(self, k: int) -> int:
        """How many times a node has said that it is connected."""
        return self.log(f"node-{k}").count("Connected to")

    def kill(self, name: str) -> None:
        """End a process and all that it started, with no word of goodbye."""
        process = self.machines.running.pop(name)
        for pid in [process.pid, *children(process.pid)]:
            os.kill(pid, 9)
        process.wait()

    def app(self, name: str, **sections) -> list[str]:
        """Write an app, and return the command that runs it into `folder / name`."""
        from ggeur.flower.machines.processes import program

        tree = {
            "data": {"dataset": "ours"},
            "partition": {"kind": "domain"},
            "train": {"method": "lda"},
            "federate": {"sites": self.n, "min_sites": self.n, "wait": 240.0, "timeout": 240.0},
        }
        tree |= {key: tree.get(key, {}) | value for key, value in sections.items()}
        (self.folder / f"{name}.toml").write_text(to_toml(tree))
        folder = self.folder / f"app-{name}"
        ggeur("app", self.folder / f"{name}.toml", folder, "--out", self.folder / name)
        return [program("flwr"), "run", str(folder), "ours", "--stream"]
