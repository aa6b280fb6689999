"""Three sites from nothing to a classifier with `ggeur federate kit`, each command typed as its page has it; slow."""

import json
import os
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment, to_toml
from ggeur.experiments.runner import run
from ggeur.models.model import Model
from real_machines import GGEUR, ggeur, table_of_a_site, wait_for

pytestmark = [pytest.mark.needs("flower"), pytest.mark.slow]
NAMES = ("leeds", "york", "hull")
PATH = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p),
    "PYTHONUNBUFFERED": "1",
}


class People:
    """What each person types, in a shell, counted."""

    def __init__(self, folder, machines):
        self.folder, self.machines, self.typed = folder, machines, dict.fromkeys(("server", *NAMES), 0)

    def types(self, who, line, code=0):
        """Type a command that ends."""
        self.typed[who] += 1
        done = subprocess.run(
            shlex.split(line), cwd=self.folder, env=PATH, capture_output=True, text=True, timeout=400, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def leaves_running(self, who, line):
        """Type a command that goes on."""
        self.typed[who] += 1
        command = ["/bin/sh", "-c", f"cd {shlex.quote(str(self.folder))} && exec {line}"]
        self.machines.start(who, command, PATH)

    def log(self, who):
        path = self.folder / "logs" / f"{who}.log"
        return " ".join(path.read_text(errors="replace").split()) if path.exists() else ""


def test_three_sites_from_nothing_to_a_classifier(tmp_path):
    from ggeur.flower.machines.processes import Machines, free_ports

    port, metrics, *ports = free_ports(5)
    tables = [table_of_a_site(tmp_path / f"{name}.npz", k) for k, name in enumerate(NAMES)]
    tree = {
        "data": {"dataset": "ours"},
        "partition": {"kind": "domain"},
        "train": {"method": "lda"},
        "federate": {"min_sites": 3},
    }
    (tmp_path / "exp.toml").write_text(to_toml(tree))
    with Machines(tmp_path / "logs") as machines:
        people = People(tmp_path, machines)
        people.types(
            "server", f"ggeur federate kit federation --sites {','.join(NAMES)} --host 127.0.0.1 --port {port}"
        )
        for name, own in zip(NAMES, ports, strict=True):  # before there is a server: they wait for it
            people.leaves_running(name, f"./federation/{name}/start --table {name}.npz --store s-{name} --port {own}")
        wait_for(lambda: all("does not answer" in people.log(name) for name in NAMES))
        people.leaves_running("server", f"ggeur federate link federation/server --metrics {metrics}")
        asked = tmp_path / "federation" / "server" / "asked"
        wait_for(lambda: len(list(asked.glob("*.pub"))) == 3)
        states = json.loads(ggeur("status", tmp_path / "federation" / "server", "--json"))
        assert [(one["name"], one["state"]) for one in states] == [(name, "asked") for name in NAMES]
        said = people.types("server", "ggeur federate register federation/server")
        prints = [line.rpartition(" ")[2] for line in said.splitlines()]
        assert all(any(one in people.log(name) for one in prints) for name in NAMES), said
        said = people.types("server", "ggeur federate run federation/server exp.toml --out runs/one")
        assert "lda" in said and "Traceback" not in said
        print("typed:", people.typed)
        assert people.typed["server"] <= 4 and all(people.typed[name] <= 2 for name in NAMES)

        states = json.loads(ggeur("status", tmp_path / "federation" / "server", "--json"))
        assert [(one["name"], one["state"]) for one in states] == [(name, "online") for name in NAMES]
        assert all(one["since"] for one in states)
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30) as page:
            assert 'ggeur_site_online{site="york"} 1' in page.read().decode()
        # A run that fails ends with 2 and a sentence: a fourth site never comes.
        (tmp_path / "four.toml").write_text(to_toml(tree | {"federate": {"sites": 4, "min_sites": 4, "wait": 40.0}}))
        said = people.types("server", "ggeur federate run federation/server four.toml --out runs/four", code=2)
        assert "3 of 4 sites are there" in " ".join(said.split()) and "Traceback" not in said
        # Who is revoked is shown with the reason.
        ggeur("revoke", tmp_path / "federation" / "server", "york")
        wait_for(lambda: machines.ended("york"))
        assert "revoked" in people.log("york") and "Traceback" not in people.log("york")
        states = json.loads(ggeur("status", tmp_path / "federation" / "server", "--json"))
        assert "revoked" in states[1]["error"], states
    whole = EmbeddingTable(
        x=np.concatenate([t.x for t in tables]),
        y=np.concatenate([t.y for t in tables]),
        domain=np.repeat(np.arange(3), [len(t.y) for t in tables]),
        domain_names=tuple(t.domain_names[0] for t in tables),
        test=np.concatenate([t.test for t in tables]),
    )
    whole.save(tmp_path / "all.npz")
    run(Experiment.of(tree | {"data": {"table": str(tmp_path / "all.npz")}}), out=tmp_path / "simulated")
    ours, simulated = (
        Model.load(tmp_path / folder / "model" / "trial-000").params for folder in ("runs/one", "simulated")
    )
    for name, weights in ours.items():
        np.testing.assert_allclose(weights, simulated[name], rtol=1e-12, atol=1e-12)


def test_wrong_hosts_and_ports_in_use_are_a_sentence_each(tmp_path):
    """By the commands themselves; `flower/machines/test_checks.py` has every fault of the way to the server."""
    from ggeur.flower.machines.processes import Machines, free_ports

    port, own = free_ports(2)
    table_of_a_site(tmp_path / "t.npz", 0)
    ggeur("kit", tmp_path / "f", "--sites", "leeds", "--host", "no-such-host.invalid", "--port", port)
    kit = ["--kit", tmp_path / "f" / "leeds", "--table", tmp_path / "t.npz", "--store", tmp_path / "s"]
    with Machines(tmp_path / "logs") as machines:
        machines.start("node", [*GGEUR, "node", *map(str, [*kit, "--port", own])], PATH)
        log = tmp_path / "logs" / "node.log"
        wait_for(lambda: "There is no machine called no-such-host.invalid" in " ".join(log.read_text().split()))
        said = ggeur("link", tmp_path / "f" / "server", "--host", "127.0.0.1", "--port", taken(machines), code=2)
        assert "Cannot listen on" in said and "Traceback" not in said


def taken(machines) -> int:
    """A port that something listens at, for as long as the test lasts."""
    import socket

    machines.held = socket.create_server(("127.0.0.1", 0))
    return int(machines.held.getsockname()[1])
