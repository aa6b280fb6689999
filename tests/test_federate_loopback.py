"""A SuperLink and SuperNodes as processes of their own, on loopback, with TLS and keys.

What takes minutes is marked slow: `make test-flower` runs it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment, to_toml
from ggeur.experiments.result import Result
from ggeur.experiments.runner import run
from ggeur.flower.server import journal
from ggeur.models.model import Model

pytestmark = pytest.mark.needs("flower")
GGEUR = [sys.executable, "-m", "ggeur"]
LIMIT = 1200  # seconds for a command, on a busy machine


def toy(path: Path, domains=2, classes=3, p=6, each=20) -> Path:
    rng = np.random.default_rng(0)
    y = np.tile(np.repeat(np.arange(classes), each), domains)
    domain = np.repeat(np.arange(domains), classes * each)
    x = 2 * rng.normal(size=(classes, p))[y] + rng.normal(size=(domains, p))[domain] + rng.normal(size=(len(y), p))
    EmbeddingTable(x=x.astype(np.float32), y=y, domain=domain).save(path)
    return path


def write(folder: Path, table: Path, *, method="fedavg", rounds=2, **federate) -> Path:
    tree = {
        "data": {"table": str(table)},
        "partition": {"kind": "domain"},
        "augment": {"target": 60, "per_prototype": 20},
        "train": {"method": method, "rounds": rounds, "local_epochs": 2},
        "federate": federate,
    }
    path = folder / "experiment.toml"
    path.write_text(to_toml({name: part for name, part in tree.items() if part}))
    return path


def federate(*words, expect=0, **options):
    """Run `ggeur federate ...` to its end."""
    done = subprocess.run(
        [*GGEUR, "federate", *map(str, words)], capture_output=True, text=True, timeout=LIMIT, check=False, **options
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


def python_path(first: Path) -> str:
    """Where Python looks for modules, a folder of the test's own before all others."""
    return os.pathsep.join(filter(None, [str(first), os.environ.get("PYTHONPATH")]))


def head(run_folder: Path, trial=0):
    return Model.load(run_folder / "model" / f"trial-{trial:03d}").params


def assert_like_simulation(out: Path, experiment: Path, trials=1):
    run(Experiment.load(experiment), out=out.with_name("simulated"))
    for trial in range(trials):
        simulated = head(out.with_name("simulated"), trial)
        for name, leaf in head(out, trial).items():
            assert np.abs(leaf - simulated[name]).max() < 1e-5 * max(np.abs(simulated[name]).max(), 1)


def left_over(private: Path) -> list[str]:
    """Processes that know of the private folder, by command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(private).encode() in words and int(process.name) != os.getpid():
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
    return found


def assert_nothing_runs(private: Path):
    end = time.monotonic() + 20
    while left_over(private) and time.monotonic() < end:
        time.sleep(0.5)
    assert left_over(private) == []


def wait_for(condition, seconds=900.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


def events(out: Path, kind: str):
    return [event for event in journal.read_events(out)[0] if event["event"] == kind]


def test_two_nodes_find_the_simulations_head_and_clean_up(tmp_path):
    experiment, out = write(tmp_path, toy(tmp_path / "t.npz"), method="scaffold"), tmp_path / "run"
    (tmp_path / "ggeur").mkdir()  # as in the parent of a checkout, which Flower took for the connection's name
    (tmp_path / "ggeur" / "pyproject.toml").write_text("")
    said = federate("up", experiment, "--nodes", 2, "--out", out, cwd=tmp_path)
    assert "client 0 has joined" in said and "AVG" in said
    assert_like_simulation(out, experiment)
    assert Result.load(out).trials[0].rounds == Result.load(tmp_path / "simulated").trials[0].rounds
    assert not (tmp_path / "run.federation").exists(), "keys, tables and logs are gone"
    assert_nothing_runs(tmp_path / "run.federation")


class Up:
    """`ggeur federate up` in the background, its nodes within reach."""

    def __init__(self, out: Path, *words):
        self.out, self.private = out, out.with_name(f"{out.name}.federation")
        self.process = subprocess.Popen(
            [*GGEUR, "federate", "up", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def end(self) -> str:
        said, _ = self.process.communicate(timeout=LIMIT)
        return said

    def node(self, k: int) -> tuple[int, list[str], dict[str, str]]:
        """Process id, command and environment of SuperNode k."""
        store = f"node-{k}/store".encode()

        def found():
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    words = (process / "cmdline").read_bytes()
                    if b"flower-supernode" in words and store in words and str(self.private).encode() in words:
                        pairs = (process / "environ").read_bytes().decode().split("\0")
                        env = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                        return int(process.name), words.decode().split("\0")[:-1], env
                except OSError:
                    continue
            return None

        return wait_for(found)

    def log(self, name: str) -> str:
        path = self.private / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def up():
    """Builder of `Up`; whatever it started is ended with the test."""
    made = []

    def build(out, *words):
        made.append(Up(out, *words))
        return made[-1]

    yield build
    for one in made:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.real
def test_four_nodes_on_office_caltech_find_the_simulations_heads(tmp_path, shared):
    experiment, out = tmp_path / "e.toml", tmp_path / "run"
    tree = {
        "data": {"table": str(shared / "data/embeddings/office_caltech10.tinyvit.npz")},
        "partition": {"kind": "domain"},
        "train": {"rounds": 5, "method": ["fedavg", "scaffold"]},
    }
    experiment.write_text(to_toml(tree))
    federate("up", experiment, "--nodes", 4, "--out", out)
    assert_like_simulation(out, experiment, trials=2)
    rounds = [e["waited"] for e in events(out, "round")]
    print("seconds of each round:", rounds)
    done = subprocess.run(
        [*GGEUR, "report", str(out), "--out", str(tmp_path / "page.html")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def ended_beside(running, command, env):
    """What the run says at its end, with one more node started for it."""
    node = subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        said = running.end()
    finally:
        node.terminate()
        node.wait(30)
    assert running.process.returncode == 0, said
    return said


@pytest.mark.slow
def test_a_node_killed_in_mid_round_is_missed_and_used_again_when_it_is_back(tmp_path, up):
    experiment = write(tmp_path, toy(tmp_path / "t.npz", domains=3), method="scaffold", rounds=6)
    running = up(tmp_path / "run", experiment, "--out", tmp_path / "run")
    wait_for(lambda: "ROUND 2]" in running.log("node-1"))
    pid, command, env = running.node(1)
    os.killpg(os.getpgid(pid), signal.SIGKILL)
    wait_for(lambda: events(running.out, "missing"))
    said = ended_beside(running, command, env)
    missing = events(running.out, "missing")
    assert {e["client"] for e in missing} == {1} and missing[0]["round"] == 2
    answered = {e["round"]: e["answered"] for e in events(running.out, "round")}
    assert answered[2] == [0, 2] and answered[6] == [0, 1, 2], (answered, said)
    assert Result.load(running.out).trials[0].message.startswith("Missing: client 1 in round")
    assert_nothing_runs(running.private)


@pytest.mark.slow
def test_too_few_nodes_stop_the_run_and_resume_goes_on(tmp_path, up):
    experiment = write(tmp_path, toy(tmp_path / "t.npz"), method="scaffold", rounds=4, min_sites=2, wait=60)
    running = up(tmp_path / "run", experiment, "--out", tmp_path / "run")
    wait_for(lambda: "ROUND 3]" in running.log("node-0"))
    os.killpg(os.getpgid(running.node(0)[0]), signal.SIGKILL)
    said = running.end()
    assert running.process.returncode == 2 and "min_sites = 2" in said and "--resume" in said, said
    assert_nothing_runs(running.private)
    assert not (running.private / "keys").exists()

    federate("up", "--resume", running.out)
    assert_like_simulation(running.out, experiment)
    simulated = (tmp_path / "simulated" / "metrics.jsonl").read_text().splitlines()
    lines = (running.out / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(a)["domains"] for a in lines] == [json.loads(b)["domains"] for b in simulated]
    assert not running.private.exists()


@pytest.mark.slow
def test_a_solved_head_is_gone_on_with_by_asking_only_the_site_that_was_lost(tmp_path, up):
    experiment = write(tmp_path, toy(tmp_path / "t.npz"), method="mixture", min_sites=2, wait=60)
    running = up(tmp_path / "run", experiment, "--out", tmp_path / "run")
    wait_for(lambda: len(events(running.out, "joined")) == 2)
    os.killpg(os.getpgid(running.node(0)[0]), signal.SIGKILL)
    said = running.end()
    assert running.process.returncode == 2 and "min_sites = 2" in said and "--resume" in said, said
    federate("up", "--resume", running.out)
    assert [event["client"] for event in events(running.out, "statistics")] == [1, 0]
    assert_like_simulation(running.out, experiment)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_nothing_runs_on(tmp_path, up, sign):
    experiment = write(tmp_path, toy(tmp_path / "t.npz"), rounds=50)
    running = up(tmp_path / "run", experiment, "--out", tmp_path / "run")
    wait_for(lambda: events(running.out, "round"))
    running.process.send_signal(sign)
    said = running.end()
    assert_nothing_runs(running.private)
    if sign != signal.SIGKILL:
        assert running.process.returncode == 130 and "federate up --resume" in said
        assert not (running.private / "keys").exists()


@pytest.mark.slow
def test_an_unregistered_node_is_refused(tmp_path, up):
    from ggeur.flower.machines.certificates import make_node_key

    experiment = write(tmp_path, toy(tmp_path / "t.npz"), rounds=2)
    running = up(tmp_path / "run", experiment, "--out", tmp_path / "run")
    _, command, env = running.node(1)
    make_node_key(tmp_path / "stranger")
    place = command.index("--auth-supernode-private-key") + 1
    command[place] = str(tmp_path / "stranger")
    port = command.index("--port") + 1
    command[port] = str(int(command[port]) + 1 if int(command[port]) < 65000 else 9999)
    with (tmp_path / "stranger.log").open("wb") as log:
        stranger = subprocess.Popen(
            command,
            env={**env, "FLWR_HOME": str(tmp_path / "home")},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = stranger.wait(300)
    finally:
        if stranger.poll() is None:
            os.killpg(stranger.pid, signal.SIGKILL)
    heard = (tmp_path / "stranger.log").read_text()
    assert code != 0 and "ref-exit-codes/305" in heard, heard
    said = running.end()
    assert running.process.returncode == 0, said
    assert len(events(running.out, "joined")) == 2
    assert_like_simulation(running.out, experiment)


@pytest.mark.slow
def test_the_steps_that_the_docs_give_for_two_laptops(tmp_path):
    """Certificates, SuperLink, keys, registration, nodes and app, each by its own command; nodes embed pictures."""
    from PIL import Image

    from ggeur.flower.machines.processes import Machines, environment, free_ports, program

    port, *ports = free_ports(3)
    federate("certificates", tmp_path / "keys", "--host", "127.0.0.1")
    env, rng = environment(tmp_path / "keys" / "link" / "home"), np.random.default_rng(0)
    with Machines(tmp_path / "logs") as machines:
        machines.start("link", [*GGEUR, "federate", "link", str(tmp_path / "keys"), "--port", str(port)], env)
        machines.wait_for_port("link", port)
        for k in range(2):
            federate("key", tmp_path / f"node-{k}")
            federate("admit", tmp_path / "keys", tmp_path / f"node-{k}.pub", "--name", f"node-{k}")
            (tmp_path / "keys" / "sites" / f"node-{k}.crt").rename(tmp_path / f"node-{k}.crt")
            register = [program("flwr"), "supernode", "register", str(tmp_path / f"node-{k}.pub")]
            machines.run({f"register-{k}": register}, env)
            for c, name in enumerate(("dark", "light")):
                folder = tmp_path / f"photos-{k}" / name
                folder.mkdir(parents=True)
                for i in range(8):
                    shade = rng.integers(0, 90, size=(28, 28)) + 150 * c
                    Image.fromarray(shade.astype(np.uint8)).save(folder / f"{i}.png")
            words = ["--ca", tmp_path / "keys" / "ca.crt", "--key", tmp_path / f"node-{k}", "--number", k]
            words += ["--images", tmp_path / f"photos-{k}", "--store", tmp_path / f"store-{k}", "--port", ports[k]]
            words += ["--min-count", 2 + k]  # what the second holds out for is more than it is first asked under
            command = [*GGEUR, "federate", "node", f"127.0.0.1:{port}", *map(str, words)]
            machines.start(f"node-{k}", command, environment(tmp_path / f"home-{k}"))
        experiment = tmp_path / "e.toml"
        tree = {
            "data": {"dataset": "our photographs", "encoder": "builtin"},
            "partition": {"kind": "domain"},
            "train": {"rounds": 2},
            "federate": {"sites": 2, "min_sites": 1, "wait": 60},
        }
        for min_count, run in ((2, "one"), (3, "both")):
            experiment.write_text(to_toml(tree | {"privacy": {"min_count": min_count}}))
            federate("app", experiment, tmp_path / f"app-{run}", "--out", tmp_path / run)
            words = [program("flwr"), "run", str(tmp_path / f"app-{run}"), "ours", "--stream"]
            machines.run({run: words}, env, patience=300)
    one, both = (Result.load(tmp_path / run).trials[0] for run in ("one", "both"))
    assert (one.status, both.status) == ("ok", "ok") and (tmp_path / "both" / "model" / "trial-000").is_dir()
    assert [*one.domains] == ["node-0"] and [*both.domains] == ["node-0", "node-1"]
    assert "started with --min-count 3" in str(events(tmp_path / "one", "silent"))


POISON = """\
import sys, importlib.abc, importlib.machinery
class Late(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "ggeur.flower.wire.packing":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            sound = module.pack_message
            def poisoned(message, prefix):
                packed = sound(message, prefix)
                packed[prefix + "second"][0, 0] = float("nan")
                return packed
            module.pack_message = poisoned
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Late())
"""


@pytest.mark.slow
def test_a_poisoned_node_is_refused_and_the_others_do_as_without_it(tmp_path, up):
    """Node 1 is started again with a Python that spoils its statistics; the others' head is that without node 1."""
    table = EmbeddingTable.load(toy(tmp_path / "t.npz", domains=3))
    experiment = write(tmp_path, tmp_path / "t.npz", rounds=2)
    running = up(tmp_path / "run", experiment, "--out", tmp_path / "run")
    pid, command, env = running.node(1)
    os.killpg(os.getpgid(pid), signal.SIGKILL)
    (tmp_path / "spoiled").mkdir()
    (tmp_path / "spoiled" / "sitecustomize.py").write_text(POISON)
    env |= {"PYTHONPATH": python_path(tmp_path / "spoiled")}
    said = ended_beside(running, command, env)
    (refused,) = events(running.out, "refused")
    assert refused["client"] == 1 and int(refused["node"]) > 0 and "NaN" in refused["why"]
    assert "refused" in said
    # Without it: its training samples are nobody's, as if its domain had test samples alone.
    split = table.split(0)
    without = EmbeddingTable(**{**vars(split), "test": split.test | (split.domains == 1)})
    without.save(tmp_path / "t.npz")
    assert_like_simulation(running.out, experiment)


SPY = """\
import atexit, resource, sys
def tell():
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with open(PEAK, "a") as file:
        file.write(f"{megabytes} {' '.join(sys.argv)[:60]}\\n")
atexit.register(tell)
"""


@pytest.mark.slow
def test_statistics_of_a_hundred_classes_in_512_dimensions(tmp_path):
    table = toy(tmp_path / "t.npz", domains=4, classes=100, p=512, each=12)
    experiment = write(tmp_path, table, rounds=1)
    tree = Experiment.load(experiment, ["train.local_epochs=1", "augment.target=9", "augment.per_prototype=1"]).tree
    experiment.write_text(to_toml(tree))
    peak = tmp_path / "peak"
    (tmp_path / "spy").mkdir()
    (tmp_path / "spy" / "sitecustomize.py").write_text(SPY.replace("PEAK", repr(str(peak))))
    began = time.monotonic()
    federate(
        "up", experiment, "--out", tmp_path / "run", env={**os.environ, "PYTHONPATH": python_path(tmp_path / "spy")}
    )
    print("seconds in all:", time.monotonic() - began)
    for event in journal.read_events(tmp_path / "run")[0]:
        print(event)
    print(peak.read_text())
    assert_like_simulation(tmp_path / "run", experiment)


RECORD = """\
import importlib.abc, importlib.util, sys
import numpy as np
WRAPPED = {"ggeur.flower.wire.ask": "_read", "ggeur.privacy.secure_aggregation.fixed_point": "decode"}
class Late(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in WRAPPED:
            return None
        what = WRAPPED.pop(name)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            sound = getattr(module, what)
            def recorded(*args):
                found = sound(*args)
                arrays = found.arrays if what == "_read" else found
                if "masked" in arrays or what == "decode":
                    np.savez(f"{FOLDER}/{what}-{getattr(found, 'node', 'total')}", **arrays)
                return found
            setattr(module, what, recorded)
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Late())
"""


@pytest.mark.slow
def test_four_nodes_add_up_under_masks_and_their_server_receives_noise(tmp_path):
    """What the server's process is sent and what it opens are recorded there; one domain has no row of a class."""
    from scipy.stats import chisquare

    from ggeur.stats.site_statistics import SiteStatistics

    whole = EmbeddingTable.load(toy(tmp_path / "t.npz", domains=4, p=48))
    table = whole.subset(np.flatnonzero(~((whole.y == 1) & (whole.domains == 2)))).split(0)
    table.save(tmp_path / "t.npz")
    experiment, out, seen = write(tmp_path, tmp_path / "t.npz", method="lda"), tmp_path / "run", tmp_path / "seen"
    tree = Experiment.load(experiment, ["privacy.secure_aggregation=true", "privacy.radius=50.0"]).tree
    experiment.write_text(to_toml(tree))
    (tmp_path / "record").mkdir()
    seen.mkdir()
    (tmp_path / "record" / "sitecustomize.py").write_text(RECORD.replace("{FOLDER}", str(seen)))
    env = {**os.environ, "PYTHONPATH": python_path(tmp_path / "record")}
    said = federate("up", experiment, "--nodes", 4, "--out", out, env=env)
    assert "secure aggregation of statistics: opened" in said
    assert_like_simulation(out, experiment)

    def p_value(vector):
        return chisquare(np.bincount(vector.view(np.uint8), minlength=256)).pvalue

    received = [np.load(path)["masked"] for path in seen.glob("_read-*.npz")]
    assert len(received) == 4 and min(map(p_value, received)) > 1e-4
    total = dict(np.load(seen / "decode-total.npz"))
    rows = table.subset(np.flatnonzero(~table.test))
    plain = SiteStatistics.from_embeddings(rows.x, rows.y, 3).of_kind("pooled")
    upper = plain.second[:, *np.triu_indices(48)]
    assert p_value(upper.ravel().view(np.uint64)) < 1e-4
    for name, expected in (("count", plain.count), ("sum", plain.sum), ("second", upper)):
        assert np.abs(total[name] - expected).max() <= 1e-7 * np.abs(expected).max(), name
