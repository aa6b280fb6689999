"""One cell of an experiment on real machines, from hello to the last score."""

import secrets
import time
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ggeur.core.types import Tree
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.server.agreement import Agreement
from ggeur.deploy.server.journal import Journal
from ggeur.deploy.server.opening import Opening, open_federation
from ggeur.deploy.server.record import LateScores
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.round_zero import RoundZero
from ggeur.deploy.server.rounds import Rounds, Start
from ggeur.deploy.wire.packing import arrays_to_tree, tree_to_arrays
from ggeur.engine import lane
from ggeur.engine.messages import add_prepared
from ggeur.engine.simulate import State
from ggeur.experiment.evaluation import by_class
from ggeur.experiment.setup import Setup
from ggeur.experiment.tracker import Tracker
from ggeur.federation.augmentation import none
from ggeur.federation.start import random_head, solved_head, to_train
from ggeur.heads.head import Params
from ggeur.methods import resolve_trained
from ggeur.methods.algorithm import Solved, Task, Trained
from ggeur.runs.checkpoint import Snapshot
from ggeur.runs.folder import RunFolder
from ggeur.runs.result import Cell

if TYPE_CHECKING:
    from flwr.serverapp import Grid


class CellRun:
    """One cell over the sites of a grid."""

    def __init__(self, grid: "Grid", folder: RunFolder, journal: Journal, tracker: Tracker) -> None:
        self._folder, self._journal, self._tracker = folder, journal, tracker
        setup = Setup.of(tracker.point)
        self._solved = setup.algorithm if isinstance(setup.algorithm, Solved) else None
        self._setup = setup if self._solved is None else replace(setup, augmentation=none())
        # A head that is solved has no rounds, only scores; FedAvg's forms carry it to the sites.
        self._trained: Trained = setup.trained or resolve_trained("fedavg", setup.head, {})
        self._path = folder.path / "checkpoint" / f"plan-{tracker.number:05d}.npz"
        self._began, self._before = time.monotonic(), (0, 0)
        self._common: dict[str, Any] = {
            "run": secrets.token_hex(16),
            "cell": tracker.number,
            "seed": tracker.seed,
            "point": tracker.point.model_dump(
                mode="json", exclude={"privacy"}
            ),  # all of it: versions differ in defaults
            "ggeur": version("ggeur"),
        }
        self._roster = Roster(grid, tracker.point.federate, journal, self._common)

    def run(self) -> Cell:
        snapshot, tracker = self._folder.snapshot, self._tracker
        if snapshot is not None and snapshot.stack == tracker.number and self._path.exists():
            rounds, state, loss = self._resumed(snapshot)
            tracker.recall(snapshot.cells[0])
            self._before = tracker.cell.bytes_up, tracker.cell.bytes_down
            scores = LateScores(tracker, self._setup, rounds.settled.agreement)
            scores.resumed(self._head(rounds, state), loss)
        else:
            rounds, state = self._opened()
            scores = LateScores(tracker, self._setup, rounds.settled.agreement)
            rows = {client.index: rounds.settled.rows(k) for k, client in enumerate(rounds.settled.clients)}
            nodes = range(0 if self._solved else tracker.point.federate.nodes or 0)
            tracker.cell.local_steps = [rounds.training.steps(rows.get(k, 0)) for k in nodes]
        state = state if self._solved else self._train(rounds, state, scores)
        params = self._head(rounds, state)
        if self._solved:
            scores.trained(0, params, 0.0, [])
        last, confusion = rounds.evaluate(params, last=True)
        scores.scored(last, state.round)
        tracker.cell.bytes_up, tracker.cell.bytes_down = self._traffic(rounds)
        head = jax.tree.map(np.asarray, params)
        tracker.finish(head, by_class(confusion), time.monotonic() - self._began, like(rounds.settled.agreement))
        return tracker.cell

    def _train(self, rounds: Rounds, state: State, scores: LateScores) -> State:
        tracker = self._tracker
        for number in range(state.round + 1, rounds.training.rounds + 1):
            done = rounds.round(state, number)
            state = done.state
            scores.scored(done.scores, number - 1)
            tracker.cell.bytes_up, tracker.cell.bytes_down = self._traffic(rounds)
            scores.trained(number, self._head(rounds, state), done.loss, done.missing)
            # Rounds are counted as scored, so that lines of the metrics after this are written again on resuming.
            kept = State(number - 1, [(state.servers[0], np.int64(number), np.float64(done.loss))], state.clients, ())
            self._folder.checkpoint(tracker.number, kept, [tracker.memory()])
        return state

    def _head(self, rounds: Rounds, state: State) -> Params:
        return rounds.trained.method.broadcast(state.servers[0])["params"]

    def _traffic(self, rounds: Rounds) -> tuple[int, int]:
        """Bytes up and down per site, those before an interruption included."""
        sites, (up, down) = max(len(rounds.settled.clients), 1), self._before
        return up + self._roster.bytes_up // sites, down + self._roster.bytes_down // sites

    def _opened(self) -> tuple[Rounds, State]:
        """Round 0: statistics, layout, training sets, and the server's first state."""
        self._roster.gather()
        solving = self._solved or self._setup.start
        opening = open_federation(self._roster, self._setup.augmentation, None if solving is None else solving.needs)
        self._roster.closed = True
        params, method, settled = self._first_params(opening), self._trained.method, opening.settled
        unprepared = Start(*method.init(params, self._prepared({}, settled.agreement), len(settled.clients)))
        rounds = self._rounds(settled, unprepared)
        prepared = self._prepared(rounds.prepare_sites(0), settled.agreement)
        rounds.start = Start(*method.init(params, prepared, len(rounds.able)))
        tree, shape = tree_to_arrays({"params": params, "prepared": prepared}, "rest")
        settled.save(self._path, {**tree, "shape": np.array(shape), "run": np.array(self._common["run"])})
        return rounds, rounds.first_state()

    def _resumed(self, snapshot: Snapshot) -> tuple[Rounds, State, float]:
        """What round 0 settled, as it was kept; sites say whether they still have their training sets."""
        settled, rest = RoundZero.load(self._path)
        agreement = settled.agreement
        self._common |= {"run": str(rest.pop("run")), "classes": agreement.classes, "domains": agreement.domains}
        kept = arrays_to_tree(rest, str(rest.pop("shape")), "rest")
        self._roster.clients = {client.index: client for client in settled.clients}
        self._roster.agreement, self._roster.closed = agreement, True
        able = sum(settled.rows(k) > 0 for k in range(len(settled.clients)))
        start = Start(*self._trained.method.init(kept["params"], kept["prepared"], able))
        rounds = self._rounds(settled, start)
        first = rounds.first_state()
        template = State(0, [(start.server, np.int64(0), np.float64(0))], first.clients, ())
        server, number, loss = snapshot.state(template).servers[0]
        self._journal("resumed", round=int(number))
        self._roster.gather()
        return rounds, State(int(number), [server], snapshot.state(template).clients, ()), float(loss)

    def _rounds(self, settled: RoundZero, start: Start) -> Rounds:
        return Rounds(self._roster, settled, self._setup, self._tracker.seed, self._trained, start)

    def _first_params(self, opening: Opening) -> Params:
        train, agreement = self._tracker.point.train, opening.settled.agreement
        task, seed = Task(agreement.dimension, agreement.classes), self._tracker.seed
        solving = self._solved or self._setup.start
        if solving is None:
            return random_head(self._setup.head, task, seed)
        assert opening.total is not None
        name = train.method if self._solved else train.start
        params = solved_head(solving, name, opening.total, task, seed)
        return params if self._solved else to_train(params)

    def _prepared(self, each: dict[int, Tree], agreement: Agreement) -> Tree:
        """The sites' first messages, added up as the method says; of clients that sent none zeros."""
        batch, nodes = self._tracker.point.train.batch, self._tracker.point.federate.nodes or 1
        zero = lane.zero_preparation(self._trained, batch, agreement.dimension, len(agreement.classes))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *(each.get(k, zero) for k in range(nodes)))
        return add_prepared(self._trained.method, stacked)


def like(agreement: Agreement) -> EmbeddingTable:
    """A table without rows, for what only asks about classes, dimensions and the encoder."""
    return EmbeddingTable(
        np.zeros((0, agreement.dimension), np.float32),
        np.zeros(0, np.int64),
        class_names=agreement.classes,
        meta=agreement.encoder,
    )
