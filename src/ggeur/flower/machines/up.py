"""Run a whole federation on this machine: a SuperLink and a SuperNode per client, with TLS and keys."""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.checkpoint import check_same
from ggeur.experiments.grid import Experiment, override
from ggeur.experiments.partitions import load_table, partition_samples
from ggeur.experiments.result import Result
from ggeur.experiments.settings import Settings
from ggeur.experiments.tracker import OnRound
from ggeur.flower.machines import processes
from ggeur.flower.machines.certificates import (
    AUTHORITY,
    ROSTER,
    SITES,
    make_certificates,
    make_node_key,
    make_site_certificate,
)
from ggeur.flower.machines.flower_app import write_app
from ggeur.flower.machines.loopback import LOOPBACK
from ggeur.flower.machines.processes import CONNECTION, Machines
from ggeur.flower.server import journal
from ggeur.flower.server.reopening import reopen
from ggeur.stats.errors import GgeurError
from ggeur.stats.long_jobs import check
from ggeur.stats.storage import lock_file, write_bytes

OnEvent = Callable[[dict[str, Any]], None]
_LOOK = 0.3  # seconds between two looks at what the server has written


def node_tables(table: EmbeddingTable, point: Settings, seed: int) -> list[EmbeddingTable]:
    """Return each node's table: its client's training samples, as `point` and `seed` partition them, and test samples.

    Where clients are domains a node has its domain's test samples; otherwise they are divided evenly. Scores add up.
    """
    table = table.split(seed)
    parts = partition_samples(table, point.partition, seed)
    assert table.test is not None
    tested = np.flatnonzero(table.test)
    mixed = point.partition.kind == "dirichlet"
    owner = np.arange(len(tested)) % len(parts) if mixed else table.domains[tested]
    return [table.subset(np.sort(np.concatenate([own, tested[owner == k]]))) for k, own in enumerate(parts)]


def with_nodes(experiment: Experiment, sites: int | None) -> Experiment:
    """Return `experiment` with one node per client of its partition; raise where `sites` is another number."""
    point, seed = experiment.points[0], experiment.seeds[0]
    if point.partition.validation:
        raise GgeurError(
            "[partition] validation is for simulations; on real machines the test samples are scored.",
            code="deployment-validation-split",
        )
    if point.method.get("auto", {}).get("cv") == "samples":
        raise GgeurError(
            '[method.auto] cv = "samples" is for simulations; on real machines samples stay at their sites.',
            code="deployment-auto-samples",
        )
    clients = len(partition_samples(load_table(point.data).split(seed), point.partition, seed))
    if sites not in (None, clients):
        raise GgeurError(
            f"The partition makes {clients} clients, one for each node; use --sites {clients}.",
            code="partition-sites-mismatch",
        )
    least = min(point.federate.min_sites, clients)
    return Experiment.of(override(experiment.tree, [f"federate.sites={clients}", f"federate.min_sites={least}"]))


def private_folder(out: Path) -> Path:
    """Return the folder beside `out` for the nodes' data, keys and logs, which is removed when the run is finished."""
    whole = Path(os.path.abspath(out))  # `..` has no name to go by
    return whole.with_name(f"{whole.name}.federation")


def up(
    experiment: Experiment,
    out: Path,
    *,
    resume: bool = False,
    again: bool = False,
    on_round: OnRound = lambda event: None,
    on_event: OnEvent = lambda event: None,
) -> Result:
    """Run `experiment` over real nodes on loopback, into `out`, and return its result; with `resume`, continue there.

    `again` reopens a finished run, to add nodes that its one-shot classifiers lack. `on_round` is given each line of
    the metrics, and `on_event` each of the journal. At the end everything is stopped, and removed unless it can be
    resumed.
    """
    processes.require_flower()
    if not resume:
        check_new_run(out)
    else:
        check_same(out, experiment)  # before everything is started
        if again:
            reopen(out, experiment)
        if (out / "result.json").exists():
            return Result.load(out)
    out, private = Path(os.path.abspath(out)), private_folder(out)
    experiment = experiment if experiment.points[0].federate.sites else with_nodes(experiment, None)
    _, seen = journal.read_events(out)  # what an earlier process wrote is no news
    write_app(private / "app", experiment, out, resume=resume)  # refuses what cannot be deployed, first of all
    os.chmod(private, 0o700)
    # Otherwise another process would lose its keys and its nodes' tables.
    lock = lock_file(private / ".lock", f"Another process is running in {out}.")
    try:
        with ExitStack() as doors, Machines(private / "logs") as machines:  # nodes leave by doors that are still open
            _start(machines, doors, experiment, private)
            rounds = [point.train.rounds for point in experiment.points]
            _follow(machines, out, seen, lambda event: on_round({**event, "rounds": rounds[event["trial"]]}), on_event)
    finally:
        lock.close()
        _tidy(out, private)
    return Result.load(out)


def check_new_run(out: Path) -> None:
    """Raise unless a federation can be started into the folder `out`."""
    private = private_folder(out)
    journal.forget_events(out)
    if out.exists() and not out.is_dir():
        raise GgeurError(f"{out} is a file; name a new folder with --out.", code="folder-is-file")
    if out.exists() and any(out.iterdir()):
        raise GgeurError(
            f"The folder {out} is not empty; name a new one with --out, or go on with --resume {out}.",
            code="folder-not-empty",
        )
    if any(private.glob("node-*")):
        raise GgeurError(
            f"{private} is left of an earlier run; remove it, or name another folder with --out.",
            code="folder-leftover",
        )


def _start(machines: Machines, doors: ExitStack, experiment: Experiment, private: Path) -> None:
    """Make keys and certificates, start the server, register and start nodes, and run the app in `private`.

    Nodes go through a site's door and the server's, as on real machines; these threads end with `doors`.
    """
    from ggeur.flower.door.listening import bound
    from ggeur.flower.machines.link import running_link
    from ggeur.flower.machines.node import Identity, site_node

    point, seed = experiment.points[0], experiment.seeds[0]
    tables = node_tables(load_table(point.data), point, seed)
    keys, flwr = private / "keys", processes.program("flwr")
    for old in (keys, private / "link"):
        shutil.rmtree(old, ignore_errors=True)
    make_certificates(keys, [LOOPBACK, "localhost"])

    def notice(sentence: str) -> None:
        with (private / "logs" / "door.log").open("a", encoding="utf-8") as log:
            log.write(f"{sentence}\n")

    register = {}
    for k, table in enumerate(tables):
        make_node_key(keys / f"node-{k}")
        make_site_certificate(keys, keys / f"node-{k}.pub", f"node-{k}")
        register[f"register-{k}"] = [flwr, "supernode", "register", str(keys / f"node-{k}.pub"), CONNECTION]
        (private / f"node-{k}").mkdir(exist_ok=True, mode=0o700)
        table.save(private / f"node-{k}" / "table.npz")
    secure = point.privacy.secure_aggregation
    if secure:
        lines = [f"{k} {(keys / f'node-{k}.pub').read_text(encoding='utf-8')}" for k in range(len(tables))]
        write_bytes(keys / ROSTER, "".join(lines).encode())
    link = doors.enter_context(
        running_link(machines, keys, private / "link", bound(LOOPBACK, 0), notice, name=CONNECTION)
    )
    env = processes.environment(link.home)
    machines.run(register, env)
    for k, port in enumerate(processes.free_ports(len(tables))):
        folder, key = private / f"node-{k}", keys / f"node-{k}"
        config = {"partition-id": k, "table": str(folder / "table.npz"), "store": str(folder / "store")}
        config |= {"custom-methods": True}  # the user's own machine, and experiment
        if secure:
            config |= {"roster": str(keys / ROSTER), "key": str(key)}
        identity = Identity(keys / AUTHORITY, key, keys / SITES / f"node-{k}.crt")
        door = f"{LOOPBACK}:{link.port}"
        node = site_node(machines, f"node-{k}", identity, folder, door, config, port, notice)
        doors.enter_context(node).start()
    machines.start("run", [flwr, "run", str(private / "app"), CONNECTION, "--stream"], env)


def _follow(machines: Machines, out: Path, seen: int, on_round: OnRound, on_event: OnEvent) -> None:
    """Pass on the server's metrics and journal until its run ends; raise GgeurError if it failed."""
    from ggeur.flower.machines.link import SUPEREXEC, SUPERLINK

    lines = 0
    while True:
        check()
        ended = machines.running["run"].poll() is not None
        events, seen = journal.read_events(out, seen)
        for event in events:
            on_event(event)
        metrics, _ = journal.read_events(out, name="metrics.jsonl")
        for event in metrics[lines:]:
            on_round(event)
        lines = len(metrics)
        last = events[-1] if events else {"event": "none"}
        if last["event"] == "stopped":
            raise GgeurError(str(last["why"]), code="run-failed")
        if last["event"] == "finished" or (ended and (out / "result.json").exists()):
            return
        if ended:
            raise GgeurError(f"The run failed{machines.last_words('run')}", code="run-failed")
        for name in (SUPERLINK, SUPEREXEC):
            if machines.ended(name):
                raise GgeurError(f"The {name} has ended{machines.last_words(name)}", code="process-ended")
        time.sleep(_LOOK)


def _tidy(out: Path, private: Path) -> None:
    """Remove the keys; keep the nodes' data and the logs while the run can be resumed or has failed."""
    unneeded = [private / "keys", private / "link", private / "app"]
    unneeded += [*private.glob("node-*/home"), *private.glob("node-*/loopback")]
    if (out / "result.json").exists():
        unneeded = [private]
    elif not (out / "config.toml").exists():
        unneeded += private.glob("node-*")
    for folder in unneeded:
        shutil.rmtree(folder, ignore_errors=True)
