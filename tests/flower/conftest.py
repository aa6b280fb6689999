"""A grid without a network: questions go straight to the ClientApp's functions, in this process, site by site."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from ggeur.experiments.grid import Experiment
from ggeur.experiments.partitions import load_table
from ggeur.experiments.result import Result
from ggeur.experiments.runner import run
from ggeur.flower.machines.up import node_tables, with_nodes
from ggeur.flower.server.serverapp import run_over

FIRST_NODE = 10**15  # far from partition indices, and in another order


class Site:
    """One SuperNode: its configuration, and how it misbehaves, if it does."""

    def __init__(self, config):
        self.config = config
        self.asked = []  # message types
        self.online = True
        self.deaf = set()  # rounds in which no message reaches it
        self.change = lambda kind, number, reply: reply  # may return another reply, or None for silence


class Grid:
    """What of Flower's Grid is used; `before` is called with (kind, group) before a question reaches its site."""

    def __init__(self, sites):
        from flwr.supercore.task_identity import TaskIdentity

        from ggeur.flower.site.clientapp import client_app

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # set by the process of a ServerApp
        self.app, self.before = client_app(), lambda kind, group: None
        self.sites = {FIRST_NODE - 7 * k: site for k, site in enumerate(sites)}
        self._replies = {}

    def get_node_ids(self):
        return [node for node, site in self.sites.items() if site.online]

    def push_messages(self, messages):
        from flwr.app import Context, Error, Message, RecordDict

        ids = []
        for message in messages:
            node, kind = message.metadata.dst_node_id, message.metadata.message_type
            message.metadata.__dict__["_message_id"] = f"m{len(self._replies)}"
            self.before(kind, message.metadata.group_id)
            site = self.sites.get(node)
            reply = None
            if site is not None and site.online and int(message.metadata.group_id) not in site.deaf:
                site.asked.append(kind)
                context = Context(run_id=1, node_id=node, node_config=site.config, state=RecordDict(), run_config={})
                reply = site.change(kind, int(message.metadata.group_id), self.app(message, context))
            if reply is None:
                reply = Message(Error(3, "Node Unavailable"), reply_to=message)
            ids.append(message.metadata.message_id)
            self._replies[ids[-1]] = reply
        return ids

    def pull_messages(self, message_ids):
        return [self._replies.pop(i) for i in message_ids if i in self._replies]


@pytest.fixture
def grid_of(needs_flower):
    """The builder: grid_of(configs) -> a Grid of sites that were started with these configurations."""
    return lambda configs: Grid([Site(config) for config in configs])


@pytest.fixture
def deploy(tmp_path, build_table, needs_flower):
    """The builder: deploy(tree, table=None) -> a Deployment of that experiment in a folder of its own."""

    def build(tree=None, table=None, name="one"):
        folder = tmp_path / name
        folder.mkdir()
        (table or build_table()).save(folder / "all.npz")
        tree = {"partition": {"kind": "domain"}} | (tree or {})
        tree["data"] = {"table": str(folder / "all.npz")} | tree.get("data", {})
        return Deployment(Experiment.of(tree), folder)

    return build


class Deployment:
    def __init__(self, experiment, folder: Path):
        self.simulated, self.folder = experiment, folder
        self.experiment = with_nodes(experiment, None)
        point, seed = experiment.points[0], experiment.seeds[0]
        sites = []
        for k, table in enumerate(node_tables(load_table(point.data), point, seed)):
            table.save(folder / f"node-{k}.npz")
            config = {"partition-id": k, "table": str(folder / f"node-{k}.npz"), "store": str(folder / f"store-{k}")}
            sites.append(Site(config))
        self.sites, self.grid, self.out = sites, Grid(sites), folder / "run"

    def run(self, *, resume=False, again=False):
        run_over(self.grid, self.experiment, self.out, resume=resume or again, again=again)
        return self.result()

    def result(self):
        return Result.load(self.out)

    def head(self, trial=0, out=None):
        with np.load((out or self.out) / "model" / f"trial-{trial:03d}" / "head.npz") as file:
            return dict(file)

    def events(self, kind):
        from ggeur.flower.server import journal

        return [event for event in journal.read_events(self.out)[0] if event["event"] == kind]

    def without(self, k):
        """The same deployment in which node k was never started."""
        self.sites[k].online = False
        tree = self.experiment.tree
        tree = {**tree, "federate": {**tree["federate"], "wait": 0.1}}
        return dataclasses.replace(self.experiment, **vars(Experiment.of(tree)))


@pytest.fixture
def changing(needs_flower):
    """The builder: changing(kind, change) -> what changes a site's replies, by change(facts, arrays)."""
    from flwr.app import Message

    from ggeur.flower.wire.records import from_records, to_records

    def build(kind, change):
        def changed(asked, number, reply):
            if asked != kind or reply is None:
                return reply
            facts, arrays = from_records(reply.content)
            arrays = {name: array.copy() for name, array in arrays.items()}
            change(facts, arrays)
            new = Message.__new__(Message)
            new.__dict__.update(reply.__dict__)
            new.content = to_records(facts, arrays)
            return new

        return changed

    return build


@pytest.fixture
def both():
    """Run deployed and simulated, both(deployment, trials=1); heads agree to 1e-5 and accuracies exactly."""

    def compare(deployment, trials=1):
        deployed = deployment.run()
        simulated = run(deployment.simulated, out=deployment.folder / "simulated")
        for trial in range(trials):
            assert_same_heads(deployment.head(trial), deployment.head(trial, deployment.folder / "simulated"))
            a, b = deployed.trials[trial], simulated.trials[trial]
            np.testing.assert_allclose(a.rounds, b.rounds)
            for name in ("domains", "avg", "std", "recall", "macro_f1", "local_steps", "rounds_to_95", "start_avg"):
                assert getattr(a, name) == pytest.approx(getattr(b, name)), name
            assert a.status == "ok"
        return deployed

    return compare


def assert_same_heads(deployed, simulated):
    assert deployed.keys() == simulated.keys()
    for name in simulated:
        scale = np.abs(simulated[name]).max()
        np.testing.assert_allclose(deployed[name], simulated[name], rtol=0, atol=1e-5 * max(scale, 1e-3))


@pytest.fixture(scope="session")
def node_keys(tmp_path_factory, needs_flower):
    """Keys of four nodes, and the roster of them."""
    from ggeur.flower.machines.certificates import make_node_key

    folder = tmp_path_factory.mktemp("keys")
    for k in range(4):
        make_node_key(folder / f"node-{k}")
    (folder / "roster").write_text("".join(f"{k} {(folder / f'node-{k}.pub').read_text()}" for k in range(4)))
    return folder


@pytest.fixture
def secure(deploy, node_keys):
    """The builder: as `deploy`, with up to four sites that know each other's public keys."""

    def build(*args, **kwargs):
        deployment = deploy(*args, **kwargs)
        for k, site in enumerate(deployment.sites):
            site.config |= {"roster": str(node_keys / "roster"), "key": str(node_keys / f"node-{k}")}
        return deployment

    return build
