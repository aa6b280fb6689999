"""Nodes that are killed, cut off, or start slowly: they come back by themselves. Real processes; minutes, so slow."""

import os
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from ggeur.experiments.result import Result
from real_machines import Sites, children, commands, wait_for

pytestmark = [pytest.mark.needs("flower"), pytest.mark.slow]


class Forwarder:
    """A port of loopback that passes bytes on to another one, until it is told to pass none, and no word of it."""

    def __init__(self, port: int) -> None:
        self._to, self.passing = port, threading.Event()
        self.passing.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                inner, _ = self._server.accept()
                self.passing.wait()  # nobody is told that nobody is there
                outer = socket.create_connection(("127.0.0.1", self._to))
                for pair in ((inner, outer), (outer, inner)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source, target):
        with suppress(OSError):
            while data := source.recv(65536):
                self.passing.wait()
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_killed_nodes_come_back_and_one_that_is_cut_off_for_three_minutes_too(tmp_path):
    """Node 0 is killed and started again after 0, 4 and 90 seconds; node 1 loses its link for three minutes."""
    from ggeur.flower.machines.processes import Machines

    with Machines(tmp_path / "logs") as machines:
        sites = Sites(tmp_path, machines)
        link = Forwarder(sites.port)
        sites.start_node(1, address=link.address)
        sites.start_node(0)
        for n, pause in enumerate((0, 4, 90), start=1):
            wait_for(lambda n=n: sites.connected(0) == n)
            sites.kill("node-0")
            if pause == 90:
                wait_for(lambda: sites.connected(1))
                link.passing.clear()
                cut = time.monotonic()
            time.sleep(pause)
            began = time.monotonic()
            sites.start_node(0)
            wait_for(lambda n=n: sites.connected(0) == n + 1)
            print(f"killed, started again after {pause} s: connected {time.monotonic() - began:.1f} s later")
        assert "does another machine use its key" not in sites.log("node-0")
        while time.monotonic() - cut < 180:
            time.sleep(0.5)
        assert "has not answered for 2 minutes" in sites.log("node-1")
        before = sites.connected(1)
        link.passing.set()
        began = time.monotonic()
        wait_for(lambda: sites.connected(1) > before)
        print(f"cut off for 180 s: connected {time.monotonic() - began:.1f} s after the link was back")
        machines.run({"run": sites.app("out")}, sites.env, patience=300)
        started = [process.pid for process in machines.running.values()]
        everybody = [*started, *(pid for one in started for pid in children(one))]
    assert sorted(Result.load(tmp_path / "out").trials[0].domains) == ["site 0", "site 1"]
    wait_for(lambda: not [pid for pid in everybody if os.path.exists(f"/proc/{pid}")], 20)


SLOW = """\
import sys, time
if sys.argv[0].endswith("flwr-clientapp"):
    time.sleep(40)
"""


def test_client_processes_that_need_forty_seconds_to_start_are_one_per_node(tmp_path):
    from ggeur.flower.machines.processes import Machines

    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW)
    path = os.pathsep.join([str(tmp_path / "slow"), *filter(None, [os.environ.get("PYTHONPATH")])])
    most: Counter[str] = Counter()
    with Machines(tmp_path / "logs") as machines:
        sites = Sites(tmp_path, machines)
        for k in range(2):
            sites.start_node(k, env={"PYTHONPATH": path})
        command = sites.app("out")
        for k in range(2):
            wait_for(lambda k=k: sites.connected(k))
        began = time.monotonic()
        machines.start("run", command, sites.env)
        while not machines.ended("run") and time.monotonic() - began < 500:
            for k in range(2):
                lines = commands(children(machines.running[f"node-{k}"].pid)).values()
                now = sum("flwr-clientapp" in line.split(" --", maxsplit=1)[0] for line in lines)
                most[f"node-{k}"] = max(most[f"node-{k}"], now)
            time.sleep(0.2)
        print(f"the run took {time.monotonic() - began:.0f} s; processes at a time: {dict(most)}")
        log = sites.log("run")
    assert (Path(tmp_path) / "out" / "result.json").exists(), log
    assert most == {"node-0": 1, "node-1": 1}
