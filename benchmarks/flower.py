"""Flower's simulation engine on the same head and data: torch clients that slice, two of them at a time.

Its workers are Ray's, and Ray listens on all interfaces. So it runs in a network namespace that has nothing but
loopback, and is left out where there can be none.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.federation import DECAY, MOMENTUM, RATE, Shape, our_round, run_of
from benchmarks.timing import Line, best

ROUNDS, EPOCHS = 4, 2

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@cache
def client_set(folder: str, k: int) -> tuple[Any, Any]:
    """One client's set, read once by each worker process."""
    import torch

    with np.load(Path(folder) / f"{k}.npz") as held:
        return torch.from_numpy(held["x"]), torch.from_numpy(held["y"])


def train(message: Any, context: Any) -> Any:
    """The local epochs of one client, from the global head."""
    import torch
    from flwr.app import ArrayRecord, MetricRecord, RecordDict, SiteStatistics

    torch.set_num_threads(1)  # two clients share two cores
    x, y = client_set(message.content["config"]["folder"], int(context.node_config["partition-id"]))
    state = message.content["arrays"].to_torch_state_dict()
    net = torch.nn.Linear(*reversed(state["weight"].shape))
    net.load_state_dict(state)
    optimiser = torch.optim.SGD(net.parameters(), RATE, MOMENTUM, weight_decay=DECAY)
    for _ in range(EPOCHS):
        for at in torch.randperm(len(y)).split(int(message.content["config"]["batch_size"])):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x[at]), y[at]).backward()
            optimiser.step()
    content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
    return SiteStatistics(content=RecordDict(content), reply_to=message)


def simulated(shape: Shape, folder: str) -> float:
    """Seconds of the fastest round after the first, in which Ray's workers start and read their data."""
    import torch
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    ends: list[float] = []

    class Timed(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            replies = list(replies)
            if failed := [reply.error for reply in replies if reply.has_error()]:
                raise RuntimeError(f"{len(failed)} clients failed: {failed[0]}")
            found = super().aggregate_train(server_round, replies)
            ends.append(time.perf_counter())
            return found

    client, server = ClientApp(), ServerApp()
    client.train()(train)

    @server.main()
    def main(grid: Any, context: Any) -> None:
        strategy = Timed(fraction_evaluate=0.0)
        first = ArrayRecord(torch.nn.Linear(shape.dim, shape.classes).state_dict())
        settings = ConfigRecord({"folder": folder, "batch_size": shape.batch_size})
        strategy.start(grid, first, num_rounds=ROUNDS, train_config=settings)

    run_simulation(
        server,
        client,
        shape.clients,
        backend_config={
            "init_args": {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "num_cpus": 2},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    return float(np.diff(ends).min())


def shut_in(folder: str) -> float:
    """`simulated` with the sets in `folder`, in a process that reaches no network."""
    program = "import sys, benchmarks.flower as f; print(f.simulated(f.Shape(), sys.argv[1]))"  # workers import it too
    inside = 'ip link set lo up && exec "$0" -c "$1" "$2"'
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", inside, sys.executable, program, folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return float(done.stdout.split()[-1])


def main() -> Iterator[Line]:
    shape = Shape()
    run = run_of(shape)
    one_round = our_round(shape, run, EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        try:
            import flwr  # noqa: F401
            import ray  # noqa: F401

            subprocess.run(["unshare", "--map-root-user", "--net", "ip", "link", "set", "lo", "up"], check=True)
        except ImportError as missing:
            print(f"Flower's simulation is left out: {missing}; `make bench GGEUR_EXTRAS=simulation` brings it.")
            return
        except (OSError, subprocess.CalledProcessError):
            print("Flower's simulation is left out: `unshare --net` and `ip` do not work here, and Ray would listen.")
            return
        for k, s in enumerate(run.sets):
            x = s.materialise(run.table, run.bank)
            np.savez(Path(folder) / f"{k}.npz", x=x, y=s.y.astype(np.int64))
        before = best(one_round)
        other = shut_in(folder)
        ours = min(before, best(one_round))
    yield Line("training: Flower's simulation engine", f"a round of {EPOCHS} epochs; {shape}", ours, other)
