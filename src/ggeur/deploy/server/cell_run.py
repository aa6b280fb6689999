"""One cell of an experiment on real machines, from hello to the last score."""

import secrets
import time
from dataclasses import replace
from typing import Any

import numpy as np

from ggeur.core.message import Total
from ggeur.core.types import Tree
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.server.agreement import Agreement
from ggeur.deploy.server.journal import Journal
from ggeur.deploy.server.opening import TrainingSets, open_federation
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.round_zero import RoundZero
from ggeur.deploy.server.rounds import Rounds
from ggeur.deploy.server.scores import LateScores
from ggeur.deploy.wire.ask import Grid
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


class CellRun:
    """One cell, which `tracker` follows, over the sites of Flower's `grid`, kept in `folder` and told in `journal`."""

    def __init__(self, grid: Grid, folder: RunFolder, journal: Journal, tracker: Tracker) -> None:
        self._folder, self._journal, self._tracker = folder, journal, tracker
        setup = Setup.of(tracker.point)
        self._solved = setup.algorithm if isinstance(setup.algorithm, Solved) else None
        self._setup = setup if self._solved is None else replace(setup, augmentation=none())
        # A head that is solved has no rounds, only scores; FedAvg's forms carry it to the sites.
        self._trained: Trained = setup.trained or resolve_trained("fedavg", setup.head, {})
        self._path = folder.path / "checkpoint" / f"plan-{tracker.number:05d}.npz"
        self._began = time.monotonic()
        common: dict[str, Any] = {
            "run": secrets.token_hex(16),
            "cell": tracker.number,
            "seed": tracker.seed,
            "point": tracker.point.model_dump(mode="json", exclude={"privacy"}),  # whole: a site adds no defaults
        }
        self._roster = Roster(grid, tracker.point.federate, journal, common)

    def run(self) -> Cell:
        """From hello, or from where an earlier process stopped, to the end."""
        snapshot, tracker = self._folder.snapshot, self._tracker
        if snapshot is not None and snapshot.stack == tracker.number and self._path.exists():
            rounds, state, scores = self._resume(snapshot)
        else:
            rounds, state, scores = self._open()
        if self._solved is None:
            state = self._train(rounds, state, scores)
        else:
            tracker.trained(0, [rounds.head(state)], 0.0)
            scores.expect(rounds.head(state), 0.0)
        head = rounds.head(state)
        last, confusion = rounds.evaluate_last(head)
        scores.add(last, state.round)
        self._note_traffic()
        assert self._roster.agreement is not None
        about = _table_without_rows(self._roster.agreement)
        tested = {name: sum(site[name][1] for site in last if name in site) for name in self._roster.agreement.domains}
        tracker.finish(head, by_class(confusion), time.monotonic() - self._began, about, rounds.units, tested)
        return tracker.cell

    def _train(self, rounds: Rounds, state: State, scores: LateScores) -> State:
        for number in range(state.round + 1, self._setup.training.rounds + 1):
            done = rounds.round(state, number)
            state = done.state
            scores.add(done.scores, number - 1)
            self._note_traffic()
            self._tracker.trained(number, [rounds.head(state)], done.loss, done.missing)
            scores.expect(rounds.head(state), done.loss, done.missing)
            # Rounds are counted as scored, so that lines of the metrics after this are written again on resuming.
            kept = State(number - 1, [(state.servers[0], np.int64(number), np.float64(done.loss))], state.clients, ())
            self._folder.checkpoint(self._tracker.number, kept, [self._tracker.memory()])
        return state

    def _note_traffic(self) -> None:
        """Bytes up and down per site."""
        cell, sites = self._tracker.cell, max(len(self._roster.clients), 1)
        cell.bytes_up, cell.bytes_down = self._roster.bytes_up // sites, self._roster.bytes_down // sites

    def _open(self) -> tuple[Rounds, State, LateScores]:
        """Round 0: statistics, layout, training sets, and the server's first state."""
        roster, train, nodes = self._roster, self._tracker.point.train, self._tracker.point.federate.nodes or 1
        roster.gather()
        solving = self._solved or self._setup.start
        standardise, needs = self._setup.standardise, solving and solving.needs
        round_zero, total = open_federation(roster, self._setup.augmentation, needs, standardise=standardise)
        as_they_lie = self._solved is None and not standardise
        if as_they_lie and total is not None and len(total.second) and (note := total.units.note("the sites")):
            roster.journal("note", why=note)
        roster.closed = True
        task, seed = Task(round_zero.agreement.dimension, round_zero.agreement.classes), self._tracker.seed
        if solving is None:
            params = random_head(self._setup.head, task, seed)
        else:
            assert total is not None
            params = solved_head(
                solving, train.method if self._solved else train.start, Total.of([(0, total)]), task, seed
            )
            params = params if self._solved else to_train(params)
        sets = TrainingSets(roster, round_zero, self._trained, train.batch)
        prepared = sets.add(sets.make(0), nodes)
        rounds = self._rounds(sets, params, prepared)
        round_zero.save(self._path, {"params": params, "prepared": prepared, "run": np.array(roster.common["run"])})
        if self._solved is None:
            rows = {client.index: n for client, n in zip(round_zero.clients, round_zero.rows, strict=True)}
            self._tracker.cell.local_steps = [self._setup.training.steps(rows.get(k, 0)) for k in range(nodes)]
        return rounds, rounds.first_state, LateScores(self._tracker, self._setup, round_zero)

    def _resume(self, snapshot: Snapshot) -> tuple[Rounds, State, LateScores]:
        """What round 0 came to, as it was kept; sites say whether they still have their training sets."""
        round_zero, kept = RoundZero.load(self._path)
        agreement, roster, cell = round_zero.agreement, self._roster, snapshot.cells[0].cell
        roster.common |= {"run": str(kept["run"]), "classes": agreement.classes, "domains": agreement.domains}
        roster.clients = {client.index: client for client in round_zero.clients}
        roster.agreement, roster.closed = agreement, True
        roster.bytes_up, roster.bytes_down = (n * len(roster.clients) for n in (cell.bytes_up, cell.bytes_down))
        sets = TrainingSets(roster, round_zero, self._trained, self._setup.training.batch)
        rounds = self._rounds(sets, kept["params"], kept["prepared"])
        first = rounds.first_state
        template = first._replace(servers=[(first.servers[0], np.int64(0), np.float64(0))])
        restored = snapshot.state(template)
        server, number, loss = restored.servers[0]
        state = restored._replace(round=int(number), servers=[server])
        self._journal("resumed", round=state.round)
        roster.gather()
        self._tracker.recall(snapshot.cells[0])
        scores = LateScores(self._tracker, self._setup, round_zero)
        scores.expect(rounds.head(state), float(loss))
        return rounds, state, scores

    def _rounds(self, sets: TrainingSets, params: Params, prepared: Tree) -> Rounds:
        """The rounds that start with the head `params`, and what the sites sent before round 1, added up."""
        start = self._trained.method.init(params, prepared, len(sets.round_zero.trainable))
        return Rounds(sets, self._setup, self._trained, start, self._tracker.seed)


def _table_without_rows(agreement: Agreement) -> EmbeddingTable:
    """For what only asks about classes, dimensions and the encoder."""
    x, y = np.zeros((0, agreement.dimension), np.float32), np.zeros(0, np.int64)
    return EmbeddingTable(x, y, class_names=agreement.classes, meta=agreement.encoder)
