"""`ggeur federate`: its words, its refusals, the app it writes."""

import os
import socket
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable


def ggeur(*words, code=0, **options):
    done = subprocess.run(
        [sys.executable, "-m", "ggeur", *map(str, words)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + " ".join(done.stderr.split())


@pytest.fixture
def experiment(tmp_path):
    rng = np.random.default_rng(0)
    table = EmbeddingTable(
        x=rng.normal(size=(40, 4)).astype(np.float32), y=np.tile([0, 1], 20), domain=np.repeat([0, 1], 20)
    )
    table.save(tmp_path / "t.npz")
    path = tmp_path / "e.toml"
    path.write_text('[data]\ntable = "t.npz"\n[partition]\nkind = "domain"\n[federate]\nsites = 2\n')
    return path


def test_without_flower_the_extra_is_named(experiment, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nreal = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'flwr' else real(name, *a)\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    said = ggeur("federate", "up", experiment, code=2, env={**os.environ, "PYTHONPATH": path})
    assert "[flower]" in said and "Traceback" not in said


flower = pytest.mark.needs("flower")


@flower
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--nodes", "3"], "The partition makes 2 clients"),
        (["--set", "run.seeds=[0,1]"], "one seed"),
        (["--set", "train.method=central"], "not a federation"),
        (["--set", "partition.share=[0.5,1.0]"], "cannot vary"),
        (["--set", "federate.min_sites=0"], "min_sites"),
        (["--set", "data.table=absent.npz"], "no file"),
    ],
    ids=str,
)
def test_what_cannot_be_deployed_is_refused_in_a_sentence(experiment, tmp_path, words, complaint):
    said = ggeur("federate", "up", experiment, "--out", tmp_path / "run", *words, code=2, cwd=tmp_path)
    assert complaint in said and "Traceback" not in said
    assert not (tmp_path / "run").exists() and not (tmp_path / "run.federation").exists()


@flower
def test_the_app_is_one_that_flower_takes(experiment, tmp_path):
    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.config_utils import load_and_validate

    said = ggeur("federate", "app", experiment, tmp_path / "app", "--out", tmp_path / "run")
    assert "Small groups are not protected" in " ".join(said.split())
    config, _ = load_and_validate(tmp_path / "app" / "pyproject.toml")
    assert config["tool"]["flwr"]["app"]["config"] == {"out": str(tmp_path / "run"), "resume": False, "reopen": False}
    assert build_fab_from_disk(tmp_path / "app")
    inner = tomllib.loads((tmp_path / "app" / "ggeur_app" / "experiment.toml").read_text())
    assert inner["data"]["table"] == str(tmp_path / "t.npz")
    assert "not empty" in ggeur("federate", "app", experiment, tmp_path / "app", "--out", "r", code=2)


@flower
def test_a_node_is_checked_before_it_starts(tmp_path):
    ggeur("federate", "key", tmp_path / "node")
    ggeur("federate", "certificates", tmp_path / "c", "--host", "127.0.0.1")
    start = ["federate", "node", "127.0.0.1:1", "--ca", tmp_path / "c" / "ca.crt", "--key", tmp_path / "node"]
    missing = ggeur(*start, "--number", "0", code=2)
    said = ggeur("federate", "admit", tmp_path / "c", tmp_path / "node.pub", "--name", "leeds")
    assert "neither is secret" in said
    (tmp_path / "node.crt").write_bytes((tmp_path / "c" / "sites" / "leeds.crt").read_bytes())
    assert "either table" in ggeur(*start, "--number", "0", code=2)
    assert "no file" in ggeur(*start[:-1], tmp_path / "other", "--number", "0", code=2)
    assert "no file" in missing and "federate admit" in missing
    (tmp_path / "roster").write_text(f"1 {(tmp_path / 'node.pub').read_text()}")
    known = ["--table", tmp_path / "t.npz", "--roster", tmp_path / "roster"]
    assert "does not have this node's key as site 0's" in ggeur(*start, "--number", "0", *known, code=2)
    assert "There is no" in ggeur(*start, "--number", "1", *known, code=2), "the roster is right, the table missing"
    assert "federate certificates" in ggeur("federate", "link", tmp_path / "nowhere", code=2)
    (tmp_path / "t.npz").write_bytes(b"")
    start[2], alone = "127.0.0.1", ["--number", "0", "--table", tmp_path / "t.npz", "--store", tmp_path / "s"]
    assert "give HOST:PORT" in ggeur(*start, *alone, code=2)
    ggeur("federate", "key", tmp_path / "another")
    start[2] = "127.0.0.1:1"
    other = ["--certificate", tmp_path / "node.crt"]
    assert "another node key" in ggeur(*start[:-1], tmp_path / "another", *alone, *other, code=2)
    assert "revoked has the certificate" in ggeur("federate", "revoke", tmp_path / "c", "leeds")
    assert "There is no" in ggeur("federate", "revoke", tmp_path / "c", "leeds", code=2)


@flower
def test_a_port_in_use_is_told_before_anything_is_started(tmp_path):
    ggeur("federate", "certificates", tmp_path / "c", "--host", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = ggeur("federate", "link", tmp_path / "c", "--port", taken.getsockname()[1], code=2)
    assert "Cannot listen on 127.0.0.1" in said and "Traceback" not in said
    assert not (tmp_path / "c" / "link").exists()


@flower
def test_commands_of_a_server_that_does_not_run_say_so(experiment, tmp_path):
    ggeur("federate", "kit", tmp_path / "f", "--sites", "leeds,york", "--host", "localhost")
    server = tmp_path / "f" / "server"
    for words in (["status", server], ["run", server, experiment, "--out", tmp_path / "run"]):
        said = ggeur("federate", *words, code=2)
        assert "is not running; start it with `ggeur federate link" in said and "Traceback" not in said
    assert not (tmp_path / "run").exists()
    assert "No site has asked to join" in ggeur("federate", "register", server, code=2)
    assert "no kit" not in ggeur("federate", "node", "--kit", tmp_path / "f" / "leeds", code=2)
    assert "site.toml" in ggeur("federate", "node", "--kit", tmp_path, "--table", "t.npz", code=2)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x").touch()
    assert "not empty" in ggeur("federate", "run", server, experiment, "--out", tmp_path / "run", code=2)
