"""A whole federation on this machine: a SuperLink and a SuperNode per client, with TLS and keys, for one experiment."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.data.files import lock_file
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.machines.certificates import AUTHORITY, make_certificates, make_node_key
from ggeur.deploy.machines.flower_app import write_app
from ggeur.deploy.machines.processes import (
    CONNECTION,
    LOOPBACK,
    Machines,
    environment,
    free_ports,
    link_command,
    node_command,
    program,
    require_flower,
    write_connection,
)
from ggeur.deploy.server import journal
from ggeur.experiment.dealing import partition_rows
from ggeur.experiment.source import load_table
from ggeur.experiment.tracker import OnRound
from ggeur.runs.interrupt import check, uninterrupted
from ggeur.runs.result import Result
from ggeur.runs.resuming import check_same
from ggeur.settings.grid import Experiment, override
from ggeur.settings.schema import Settings

OnEvent = Callable[[dict[str, Any]], None]
_LOOK = 0.3  # seconds between two looks at what the server has written


def node_tables(table: EmbeddingTable, point: Settings, seed: int) -> list[EmbeddingTable]:
    """What each node holds: its client's training rows and a share of the test rows.

    Where clients are domains a node has its domain's test rows; otherwise they are dealt in turn. Scores add up.
    """
    table = table.split(seed)
    parts = partition_rows(table, point.partition, seed)
    assert table.test is not None
    tested = np.flatnonzero(table.test)
    by_domain = point.partition.kind != "dirichlet"
    owner = table.domains[tested] if by_domain else np.arange(len(tested)) % len(parts)
    return [table.subset(_sorted(own, tested[owner == k])) for k, own in enumerate(parts)]


def _sorted(own: NDArray[np.int64], tested: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.sort(np.concatenate([own, tested]))


def with_nodes(experiment: Experiment, nodes: int | None) -> Experiment:
    """The experiment for as many nodes as its partition makes clients."""
    point, seed = experiment.points[0], experiment.seeds[0]
    clients = len(partition_rows(load_table(point.data).split(seed), point.partition, seed))
    if nodes not in (None, clients):
        raise GgeurError(f"The partition makes {clients} clients, one for each node; use --nodes {clients}.")
    least = min(point.federate.min_nodes, clients)
    return Experiment.of(override(experiment.tree, [f"federate.nodes={clients}", f"federate.min_nodes={least}"]))


def private_folder(out: Path) -> Path:
    """Beside the run folder: what the nodes hold, keys, logs. It goes when the run is finished."""
    return out.with_name(f"{out.name}.federation")


def up(
    experiment: Experiment,
    out: Path,
    *,
    resume: bool = False,
    on_round: OnRound | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Run the experiment over real nodes on loopback and return its result."""
    require_flower()
    if resume:
        check_same(out, experiment)  # now, not when everything has been started
    if resume and (out / "result.json").exists():
        return Result.load(out)
    if not resume:
        journal.forget(out)
    if out.exists() and not out.is_dir():
        raise GgeurError(f"{out} is a file; name a new folder with --out.")
    if not resume and out.exists() and any(out.iterdir()):
        raise GgeurError(f"The folder {out} is not empty; name a new one with --out, or go on with --resume {out}.")
    out, private = out.absolute(), private_folder(out.absolute())
    if not resume and any(private.glob("node-*")):
        raise GgeurError(f"{private} is left of an earlier run; remove it, or name another folder with --out.")
    _, seen = journal.read(out)  # what an earlier process wrote is no news
    with federation(experiment, out, private, resume=resume) as machines:
        _follow(machines, experiment, out, private, seen, on_round, on_event)
    return Result.load(out)


@contextmanager
def federation(experiment: Experiment, out: Path, private: Path, *, resume: bool = False) -> Iterator[Machines]:
    """Everything started, the app submitted; at the end everything is stopped, and removed unless it can be resumed."""
    experiment = experiment if experiment.points[0].federate.nodes else with_nodes(experiment, None)
    write_app(private / "app", experiment, out, resume=resume)  # refuses what cannot be deployed, first of all
    os.chmod(private, 0o700)
    # Another process of ours would have its keys and its nodes' tables taken from under it.
    lock = lock_file(private / ".lock", f"Another process is running in {out}.")
    try:
        with Machines(private / "logs") as machines:
            try:
                start(machines, experiment, private)
                command = [program("flwr"), "run", str(private / "app"), CONNECTION, "--stream"]
                machines.start("run", command, environment(private / "home"))
                yield machines
            finally:
                with uninterrupted():  # a second Ctrl-C does not leave half of them running
                    machines.stop()
    finally:
        lock.close()
        _tidy(out, private)


def start(machines: Machines, experiment: Experiment, private: Path) -> None:
    """Keys, SuperLink, registration, SuperNodes."""
    point, seed = experiment.points[0], experiment.seeds[0]
    tables = node_tables(load_table(point.data), point, seed)
    keys = private / "keys"
    for old in (keys, private / "home"):
        shutil.rmtree(old, ignore_errors=True)
    make_certificates(keys, [LOOPBACK, "localhost"])
    port, *ports = free_ports(1 + len(tables))
    write_connection(private / "home", f"{LOOPBACK}:{port}", keys / AUTHORITY)
    env = environment(private / "home")
    machines.start("superlink", link_command(keys, LOOPBACK, port), env)
    for k, table in enumerate(tables):
        make_node_key(keys / f"node-{k}")
        (private / f"node-{k}").mkdir(exist_ok=True)
        table.save(private / f"node-{k}" / "table.npz")
    machines.wait_for_port("superlink", port)
    register = [program("flwr"), "supernode", "register"]
    machines.run(
        {f"register-{k}": [*register, str(keys / f"node-{k}.pub"), CONNECTION] for k in range(len(tables))}, env
    )
    for k in range(len(tables)):
        start_node(machines, private, k, port, ports[k])


def start_node(machines: Machines, private: Path, k: int, link_port: int, port: int, key: str | None = None) -> None:
    """SuperNode k, with its own table, store and Flower home."""
    folder, keys = private / f"node-{k}", private / "keys"
    config = {"partition-id": k, "table": str(folder / "table.npz"), "store": str(folder / "store")}
    config |= {"own-methods": True}  # the user's own machine, and experiment
    command = node_command(keys / AUTHORITY, keys / (key or f"node-{k}"), f"{LOOPBACK}:{link_port}", config, port)
    machines.start(f"node-{k}", command, environment(folder / "home"))


def _follow(
    machines: Machines,
    experiment: Experiment,
    out: Path,
    private: Path,
    seen: int,
    on_round: OnRound | None,
    on_event: OnEvent | None,
) -> None:
    """Pass on what the server writes until its run ends; a GgeurError if it did not end well."""
    rounds = [point.train.rounds for point in experiment.points]
    lines, stopped = 0, None
    while True:
        check()
        ended = machines.running["run"].poll() is not None
        events, seen = journal.read(out, seen)
        for event in events:
            stopped = event if event["event"] in ("stopped", "finished") else None
            if on_event is not None:
                on_event(event)
        metrics = _metrics(out)
        for event in metrics[lines:]:
            if on_round is not None:
                on_round({**event, "rounds": rounds[event["cell"]]})
        lines = len(metrics)
        if stopped is not None and stopped["event"] == "stopped":
            raise GgeurError(str(stopped["why"]))
        if stopped is not None or (ended and (out / "result.json").exists()):
            return
        if ended:
            raise GgeurError(f"The run failed; the logs in {private / 'logs'} say why.")
        if machines.running["superlink"].poll() is not None:
            raise GgeurError(f"The SuperLink has ended; {private / 'logs' / 'superlink.log'} says why.")
        time.sleep(_LOOK)


def _metrics(out: Path) -> Sequence[dict[str, Any]]:
    try:
        content = (out / "metrics.jsonl").read_bytes()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


def _tidy(out: Path, private: Path) -> None:
    """Keys go always; what nodes hold and the logs stay while there is something to resume or to look into."""
    for name in ("keys", "home", "app"):
        shutil.rmtree(private / name, ignore_errors=True)
    for home in private.glob("node-*/home"):
        shutil.rmtree(home, ignore_errors=True)
    if (out / "result.json").exists() or not (out / "config.toml").exists():
        for node in private.glob("node-*"):
            shutil.rmtree(node, ignore_errors=True)
    if (out / "result.json").exists():
        shutil.rmtree(private, ignore_errors=True)
