"""A stranger at every path of Flower's API while a run is in flight: nothing is taken, and the run ends as simulated.

Real processes, by the commands that the docs give; minutes, so marked slow.
"""

import multiprocessing
import os
import stat
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment, to_toml
from ggeur.experiments.runner import run
from ggeur.flower.server import journal
from ggeur.models.model import Model

pytestmark = [pytest.mark.needs("flower"), pytest.mark.slow]


GGEUR = [sys.executable, "-m", "ggeur", "federate"]


class Stranger:
    """Somebody with Flower's own client library, who tries every path that Flower answers, again and again."""

    def __init__(self, address: str, *, certificate: Path | None = None, node_key: Path | None = None, scheme="https"):
        self.address, self.scheme, self.certificate = address, scheme, certificate
        self.node_key = node_key
        self.heard: Counter[tuple[str, object]] = Counter()  # path and status, or the kind of a failed connection
        self.tokens: list[str] = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._poll), threading.Thread(target=self._grab)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self._end.set()
        for thread in self._threads:
            thread.join(60)

    @staticmethod
    def paths() -> dict[str, object]:
        """Every path of SuperLink and SuperNode, with the message that it takes, if any."""
        from flwr.proto.runtime_pb2 import AcquireTaskRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

        paths = {path: kind() for (_, path), kind in PROTOBUF_REQUEST_TYPES.items()}
        paths["/v1/runtime/acquire-task"] = AcquireTaskRequest(supported_task_types=list(TaskType))
        return paths | dict.fromkeys(["/health", "/docs", "/openapi.json", "/", "/v1/runtime/responses"])

    def client(self) -> httpx.Client:
        import ssl

        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self.certificate is not None:
            context.load_cert_chain(self.certificate)
        return httpx.Client(base_url=f"{self.scheme}://{self.address}", verify=context, timeout=10, trust_env=False)

    def headers(self) -> dict[str, str]:
        """A node's headers, signed with the key that the stranger holds."""
        from flwr.supercore.date import now
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
        from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata

        headers = dict(RuntimeVersionMetadata.from_local_component("SuperNode").as_metadata())
        headers["content-type"] = headers["accept"] = "application/protobuf"
        if self.node_key is not None:
            from cryptography.hazmat.primitives.serialization import load_ssh_private_key

            private, at = load_ssh_private_key(self.node_key.read_bytes(), None), now().isoformat()
            headers["flwr-public-key"] = b64encode(public_key_to_bytes(private.public_key())).decode()
            headers["flwr-timestamp"] = at
            headers["flwr-signature"] = b64encode(sign_message(private, at.encode())).decode()
        return headers

    def ask(self, client: httpx.Client, path: str, message) -> object:
        """The status of one try."""
        try:
            if message is None:
                answer = client.get(path)
            else:
                answer = client.post(path, content=message.SerializeToString(), headers=self.headers())
        except httpx.HTTPError as error:
            return type(error).__name__
        if path.endswith("acquire-task") and answer.status_code == 200:
            from flwr.proto.runtime_pb2 import AcquireTaskResponse

            if token := AcquireTaskResponse.FromString(answer.content).token:
                self.tokens.append(token)
        return answer.status_code

    def _poll(self):
        paths = self.paths()
        while not self._end.is_set():
            with self.client() as client:
                for path, message in paths.items():
                    if self._end.is_set():
                        return
                    self.heard[path, self.ask(client, path, message)] += 1
                    time.sleep(0.01)

    def _grab(self):
        """Faster than the SuperExec, which looks every 0.2 seconds."""
        path = "/v1/runtime/acquire-task"
        message = self.paths()[path]
        while not self._end.is_set():
            with self.client() as client:
                for _ in range(100):
                    if self._end.is_set():
                        return
                    self.heard[path, self.ask(client, path, message)] += 1
                    time.sleep(0.02)

    def statuses(self, prefix="/") -> set:
        return {status for path, status in self.heard if path.startswith(prefix)}


def ggeur(*words) -> str:
    """Run `ggeur federate ...` to its end."""
    done = subprocess.run([*GGEUR, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pem(folder: Path, name: str) -> Path:
    """A certificate and its key in one file, as TLS reads them."""
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_ssh_private_key((folder / name).read_bytes(), None)
    path = folder / f"{name}.pem"
    path.write_bytes(
        (folder / f"{name}.crt").read_bytes()
        + key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    )
    return path


def table_of_a_site(path: Path, seed: int) -> EmbeddingTable:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 40)
    x = 2 * np.random.default_rng(9).normal(size=(3, 8))[y] + rng.normal(size=(120, 8))
    test = rng.random(120) < 0.3
    table = EmbeddingTable(
        x=x.astype(np.float32), y=y, domain=np.zeros(120, int), domain_names=(f"site {seed}",), test=test
    )
    table.save(path)
    return table


def together(tables: list[EmbeddingTable], path: Path) -> None:
    EmbeddingTable(
        x=np.concatenate([t.x for t in tables]),
        y=np.concatenate([t.y for t in tables]),
        domain=np.repeat(np.arange(len(tables)), [len(t.y) for t in tables]),
        domain_names=tuple(t.domain_names[0] for t in tables),
        test=np.concatenate([t.test for t in tables]),
    ).save(path)


def command_lines() -> str:
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(line for line in lines if "flwr-" in line)


def modes(folder: Path) -> dict[str, str]:
    """What others than the owner may do with what is in a folder; nothing is what is wanted."""
    found = [folder, *folder.rglob("*")]
    return {str(p): oct(stat.S_IMODE(p.stat().st_mode)) for p in found if p.exists() and p.stat().st_mode & 0o077}


def test_strangers_take_nothing_while_a_run_is_in_flight_and_it_ends_as_simulated(tmp_path):
    from ggeur.flower.machines.processes import Machines, environment, free_ports, program

    another, theirs = AnotherUser(), set()
    port, *node_ports = free_ports(3)
    keys, sites = tmp_path / "keys", tmp_path / "sites"
    sites.mkdir()
    ggeur("certificates", keys, "--host", "127.0.0.1")
    for name in ("leeds", "york", "mallory"):
        ggeur("key", sites / name)
        ggeur("admit", keys, sites / f"{name}.pub", "--name", name)
        (sites / f"{name}.crt").write_bytes((keys / "sites" / f"{name}.crt").read_bytes())
    ggeur("revoke", keys, "mallory")
    experiment, env = tmp_path / "e.toml", environment(keys / "link" / "home")
    tree = {
        "data": {"dataset": "ours"},
        "partition": {"kind": "domain"},
        "train": {"method": "lda"},
        "federate": {"sites": 2},
    }
    experiment.write_text(to_toml(tree))
    began, lines = time.monotonic(), ""
    with Machines(tmp_path / "logs") as machines:
        machines.start("link", [*GGEUR, "link", str(keys), "--port", str(port)], {**env, "PYTHONUNBUFFERED": "1"})
        machines.wait_for_port("link", port)
        jobs = {
            n: [program("flwr"), "supernode", "register", str(sites / f"{n}.pub"), "ours"] for n in ("leeds", "york")
        }
        machines.run(jobs, env)
        tables = []
        for k, name in enumerate(("leeds", "york")):
            tables.append(table_of_a_site(tmp_path / f"{name}.npz", k))
            words = ["--ca", keys / "ca.crt", "--key", sites / name, "--number", k, "--port", node_ports[k]]
            words += ["--table", tmp_path / f"{name}.npz", "--store", tmp_path / f"store-{name}"]
            machines.start(f"node-{name}", [*GGEUR, "node", f"127.0.0.1:{port}", *map(str, words)], dict(os.environ))
        ggeur("app", experiment, tmp_path / "app", "--out", tmp_path / "run")
        front, superlink = f"127.0.0.1:{port}", superlink_address(keys)
        together(tables, tmp_path / "all.npz")
        for n in node_ports:
            machines.wait_for_port("node-leeds", n)
        started = time.monotonic()
        with (
            Stranger(front) as nobody,
            Stranger(front, certificate=pem(sites, "leeds"), node_key=sites / "york") as borrowed,
            Stranger(front, certificate=pem(sites, "mallory"), node_key=sites / "mallory") as revoked,
            Stranger(superlink) as local,
            Stranger(f"127.0.0.1:{node_ports[0]}") as beside_a_node,
        ):
            machines.start("run", [program("flwr"), "run", str(tmp_path / "app"), "ours", "--stream"], env)
            while not machines.ended("run") and time.monotonic() - started < 300:
                lines += command_lines()
                if not theirs and "flwr-serverapp" in lines:
                    theirs = another.statuses(superlink) or {403}
                time.sleep(0.05)
        print(f"start {started - began:.1f} s, run {time.monotonic() - started:.1f} s")
        for name, stranger in vars_of(nobody, borrowed, revoked, local, beside_a_node):
            print(name, Counter(status for _, status in stranger.heard.elements()))
        # The same again with nobody there.
        ggeur("app", experiment, tmp_path / "app-alone", "--out", tmp_path / "alone")
        machines.run({"alone": [program("flwr"), "run", str(tmp_path / "app-alone"), "ours", "--stream"]}, env, 300)
        # Who is revoked is told so, and ends; the others stay.
        ggeur("revoke", keys, "leeds")
        ended = time.monotonic()
        while not machines.ended("node-leeds") and time.monotonic() - ended < 60:
            time.sleep(0.2)
        print(f"revoked: ended after {time.monotonic() - ended:.1f} s")
        node_log = " ".join((tmp_path / "logs" / "node-leeds.log").read_text().split())
        assert machines.ended("node-leeds") and not machines.ended("node-york"), node_log
        assert "The certificate of leeds is revoked." in node_log and "Traceback" not in node_log, node_log
        assert not (tmp_path / "store-leeds" / "node-0" / "loopback").exists()
        run_log = (tmp_path / "logs" / "run.log").read_text()
    # From the network: no handshake, or 403, whatever is asked.
    assert nobody.statuses() <= {"ReadError", "ConnectError", "RemoteProtocolError", "WriteError"}, nobody.heard
    assert borrowed.statuses() == {403} == revoked.statuses()
    for stranger in (nobody, borrowed, revoked):
        assert {path for path, _ in stranger.heard} == set(stranger.paths())
    # On the machine: tasks are the SuperExec's alone, and no token can be read off a command line.
    for stranger in (nobody, borrowed, revoked, local, beside_a_node):
        assert stranger.tokens == []
    assert local.statuses("/v1/runtime/") & {200} == set() == beside_a_node.statuses("/v1/runtime/") & {200}
    assert local.statuses("/v1/fleet/") & {200} == set()
    assert "flwr-serverapp" in lines and "flwr-clientapp" in lines and "--token " not in lines
    assert theirs == {403}, theirs
    # The run: as if nobody had been there, and for its user alone.
    assert (tmp_path / "run" / "result.json").exists(), run_log
    run(Experiment.of(tree | {"data": {"table": str(tmp_path / "all.npz")}}), out=tmp_path / "simulated")
    simulated, alone, disturbed = (head(tmp_path / name) for name in ("simulated", "alone", "run"))
    for name, weights in disturbed.items():
        np.testing.assert_array_equal(weights, alone[name])
        np.testing.assert_allclose(weights, simulated[name], rtol=1e-12, atol=1e-12)
    assert [e["client"] for e in journal.read_events(tmp_path / "run")[0] if e["event"] == "refused"] == []
    assert modes(tmp_path / "run") == {} == modes(tmp_path / "store-leeds")
    assert modes(keys / "link" / "home") == {}


def connected(address: str) -> list[int]:
    """The other ends of open connections to an address of loopback, which everybody may list; three at most."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    server = f"0100007F:{int(address.rpartition(':')[2]):04X}"
    return [int(row[1].partition(":")[2], 16) for row in rows if row[2:4] == [server, "01"]][:3]


class AnotherUser:
    """A process of another user of this machine, where the tests may start one; forked while there are no threads."""

    def __init__(self):
        self._ours, theirs = multiprocessing.Pipe()
        self._process = None
        if os.geteuid() == 0:
            self._process = multiprocessing.get_context("fork").Process(target=self._ask, args=(theirs,), daemon=True)
            self._process.start()

    @staticmethod
    def _ask(pipe):
        paths = Stranger.paths()
        with Stranger("").client():
            Stranger("").headers()  # imports, which it may still read
        os.setuid(65534)
        stranger = Stranger(pipe.recv())
        with stranger.client() as client:
            found = {stranger.ask(client, path, message) for path, message in paths.items()}
            for port in connected(address=stranger.address):  # as if it were one of these connections
                client.headers["x-forwarded-for"] = f"127.0.0.1:{port}"
                found |= {stranger.ask(client, path, message) for path, message in paths.items()}
            pipe.send(found)

    def statuses(self, address: str) -> set:
        """The status of every path."""
        if self._process is None:
            return set()
        self._ours.send(address)
        found = self._ours.recv() if self._ours.poll(60) else {"silent"}
        self._process.join(10)
        return found


def head(run_folder: Path):
    return Model.load(run_folder / "model" / "trial-000").params


def vars_of(*strangers):
    return zip(("nobody", "another's key", "revoked", "local", "beside a node"), strangers, strict=True)


def superlink_address(keys: Path) -> str:
    import tomllib

    found = tomllib.loads((keys / "link" / "home" / "config.toml").read_text())["superlink"]
    return found[found["default"]]["address"]
