"""A server in a process of its own, on loopback, for tests that need a real one."""

import subprocess
import sys

import numpy as np
import pytest

from ggeur.encoders.builtin import BuiltinEncoder
from ggeur.encoders.encoder import about
from ggeur.models.model import Model

P = BuiltinEncoder.dimension


class Running:
    """Its address, its process, and what it has said on either stream once it has ended."""

    def __init__(self, process, address):
        self.process, self.address = process, address

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096

    def end(self):
        self.process.terminate()
        return self.process.communicate(timeout=60)[0]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """`ggeur serve` of a small model with the built-in encoder."""
    folder = tmp_path_factory.mktemp("served") / "model"
    params = {"W": np.random.default_rng(0).normal(size=(3, P)).astype(np.float32), "b": np.zeros(3, np.float32)}
    Model(params, "linear", P, ("ant", "bee", "cat"), about(BuiltinEncoder())).save(folder)
    command = [sys.executable, "-u", "-m", "ggeur", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    line = process.stdout.readline()
    assert "answers" in line, line + process.stdout.read()
    one = Running(process, line.split()[0])
    yield one
    if process.poll() is None:
        one.end()
