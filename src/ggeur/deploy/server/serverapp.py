"""The ServerApp: an experiment's cells one after the other over the same sites, into an ordinary run folder."""

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.seeding import stream
from ggeur.core.types import Tree
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.machines.processes import end_with_parent
from ggeur.deploy.server.agreement import Agreement
from ggeur.deploy.server.journal import Journal, forget
from ggeur.deploy.server.layout import Plan
from ggeur.deploy.server.opening import Opening, open_federation
from ggeur.deploy.server.record import Record
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.rounds import Rounds, Start
from ggeur.deploy.wire.packing import arrays_to_tree, tree_to_arrays
from ggeur.engine import lane
from ggeur.engine.compilation import keep_compiled_programs
from ggeur.engine.messages import add_prepared
from ggeur.engine.simulate import State
from ggeur.experiment.built import head_of, method_of
from ggeur.experiment.dealing import first_head
from ggeur.heads.head import Params
from ggeur.methods import kind_of, resolve_solved
from ggeur.methods.algorithm import Bound, Given, Solved, Task, Trained
from ggeur.runs.checkpoint import InFlight, Snapshot
from ggeur.runs.folder import RunFolder, check_same
from ggeur.runs.result import Cell, Result
from ggeur.settings.grid import Experiment
from ggeur.settings.schema import Settings

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp


def server_app(experiment: Path) -> "ServerApp":
    """The app that a SuperLink runs; its run configuration says where the run folder is and whether to resume it."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: "Grid", context: "Context") -> None:
        end_with_parent()
        out, resume = Path(str(context.run_config["out"])), bool(context.run_config.get("resume", False))
        run_over(grid, Experiment.load(experiment), out, resume=resume)

    app.main()(main)
    return app


def check_deployable(experiment: Experiment) -> None:
    """Raise for what real machines cannot do, in a sentence that says what to change."""
    first = experiment.points[0]
    if len(experiment.seeds) > 1:
        raise GgeurError("Real machines run one seed; choose one with --set run.seeds=[0].")
    if any(p.data != first.data or p.partition != first.partition for p in experiment.points):
        raise GgeurError("On real machines data lie where they lie: [data] and [partition] cannot vary.")
    if any(p.federate != first.federate for p in experiment.points):
        raise GgeurError("[federate] is the same for all cells of a run; give single values.")
    for p in experiment.points:
        if kind_of(p.train.method) in (Bound, Given):
            raise GgeurError(f"'{p.train.method}' is not a federation; compare with it by `ggeur run`.")
    f = first.federate
    if f.nodes is None:
        raise GgeurError("[federate] nodes is missing: say how many sites there are.")
    if f.min_nodes > f.nodes:
        raise GgeurError(f"[federate] min_nodes = {f.min_nodes} is more than the {f.nodes} nodes there are.")


def run_over(grid: "Grid", experiment: Experiment, out: Path, *, resume: bool) -> None:
    """Run every cell over the nodes of `grid`."""
    check_deployable(experiment)
    keep_compiled_programs()
    if resume and (out / "result.json").exists():
        return check_same(out, experiment)
    if not resume:
        forget(out)
    folder = RunFolder(out, experiment, resume=resume)
    journal = Journal(out)
    try:
        cells = []
        for number, (point, varied) in enumerate(zip(experiment.points, experiment.varied, strict=True)):
            cell = folder.finished.get(number)
            if cell is None:
                cell = Cell(point.train.method, point.augment.kind, experiment.seeds[0], varied)
                cell = _CellRun(grid, folder, journal, number, point, cell).run()
            cells.append(cell)
        folder.finish(Result(cells))
        journal("finished")
    except BaseException as error:
        kept = folder.abandon()
        if isinstance(error, GgeurError) and out.exists():
            journal("stopped", why=str(error), resumable=kept)
        raise
    finally:
        journal.close()


class _CellRun:
    """One cell, from hello to the last score."""

    def __init__(
        self, grid: "Grid", folder: RunFolder, journal: Journal, number: int, point: Settings, cell: Cell
    ) -> None:
        self._folder, self._journal, self._number, self._cell = folder, journal, number, cell
        self._closed = kind_of(point.train.method) is Solved
        if self._closed:  # a head that is solved needs no augmented set
            point = point.model_copy(update={"augment": point.augment.model_copy(update={"kind": "none"})})
        self._point, self._seed = point, cell.seed
        self._path = folder.path / "checkpoint" / f"plan-{number:05d}.npz"
        self._began, self._before = time.monotonic(), (0, 0)
        self._common: dict[str, Any] = {
            "run": secrets.token_hex(16),
            "cell": number,
            "seed": cell.seed,
            "point": point.model_dump(mode="json", exclude_unset=True),
        }
        self._roster = Roster(grid, point.federate, journal, self._common)

    def run(self) -> Cell:
        snapshot = self._folder.snapshot
        if snapshot is not None and snapshot.stack == self._number and self._path.exists():
            rounds, state, loss = self._resumed(snapshot)
            record = self._record(rounds.plan, snapshot.cells[0])
            record.trained(state.round, self._head(rounds, state), loss, [])
        else:
            rounds, state = self._opened()
            record = self._record(rounds.plan, None)
            rows = {client.index: rounds.plan.rows(k) for k, client in enumerate(rounds.plan.clients)}
            nodes = range(0 if self._closed else self._point.federate.nodes or 0)
            self._cell.local_steps = [rounds.training.steps(rows.get(k, 0)) for k in nodes]
        state = state if self._closed else self._train(rounds, state, record)
        params = self._head(rounds, state)
        if self._closed:
            record.trained(0, params, 0.0, [])
        scores, confusion = rounds.evaluate(params, last=True)
        record.scored(scores, state.round)
        self._cell.bytes_up, self._cell.bytes_down = self._traffic(rounds)
        record.finish(params, confusion, time.monotonic() - self._began)
        return record.cell

    def _train(self, rounds: Rounds, state: State, record: Record) -> State:
        for number in range(state.round + 1, self._point.train.rounds + 1):
            done = rounds.round(state, number)
            state = done.state
            record.scored(done.scores, number - 1)
            self._cell.bytes_up, self._cell.bytes_down = self._traffic(rounds)
            record.trained(number, self._head(rounds, state), done.loss, done.missing)
            # Rounds are counted as scored, so that lines of the metrics after this are written again on resuming.
            kept = State(number - 1, [(state.servers[0], np.int64(number), np.float64(done.loss))], state.clients, ())
            self._folder.checkpoint(self._number, kept, [record.memory()])
        return state

    def _head(self, rounds: Rounds, state: State) -> Params:
        return rounds.trained.method.broadcast(state.servers[0])["params"]

    def _traffic(self, rounds: Rounds) -> tuple[int, int]:
        """Bytes up and down per site, those before an interruption included."""
        sites, (up, down) = max(len(rounds.plan.clients), 1), self._before
        return up + self._roster.bytes_up // sites, down + self._roster.bytes_down // sites

    def _record(self, plan: Plan, memory: InFlight | None) -> Record:
        record = Record(
            self._number, self._cell, self._point, self._folder, like(plan.agreement), plan.agreement.domains
        )
        if memory is not None:
            record.recall(memory)
            self._cell = record.cell
            self._before = self._cell.bytes_up, self._cell.bytes_down
        return record

    def _trained(self) -> Trained:
        return method_of(self._point, "fedavg" if self._closed else None)

    def _opened(self) -> tuple[Rounds, State]:
        """Round 0: statistics, plan, training sets, and the server's first state."""
        self._roster.gather()
        opening = open_federation(self._roster, self._point)
        self._roster.closed = True
        params, trained, plan = self._first_params(opening), self._trained(), opening.plan
        unprepared = Start(*trained.method.init(params, self._stacked({}, trained, plan.agreement), len(plan.clients)))
        rounds = Rounds(self._roster, plan, self._point, self._seed, trained, unprepared)
        stacked = self._stacked(rounds.prepare_sites(0), trained, plan.agreement)
        rounds.start = Start(*trained.method.init(params, stacked, len(rounds.able)))
        tree, shape = tree_to_arrays({"params": params, "prepared": stacked}, "rest")
        plan.save(self._path, {**tree, "shape": np.array(shape), "run": np.array(self._common["run"])})
        return rounds, rounds.first_state()

    def _resumed(self, snapshot: Snapshot) -> tuple[Rounds, State, float]:
        """The plan as it was kept; sites say whether they still have their training sets."""
        plan, rest = Plan.load(self._path)
        self._common |= {"run": str(rest.pop("run")), "classes": plan.agreement.classes}
        self._common |= {"domains": plan.agreement.domains}
        kept = arrays_to_tree(rest, str(rest.pop("shape")), "rest")
        trained = self._trained()
        self._roster.clients = {client.index: client for client in plan.clients}
        self._roster.agreement, self._roster.closed = plan.agreement, True
        able = sum(plan.rows(k) > 0 for k in range(len(plan.clients)))
        start = Start(*trained.method.init(kept["params"], kept["prepared"], able))
        rounds = Rounds(self._roster, plan, self._point, self._seed, trained, start)
        first = rounds.first_state()
        template = State(0, [(start.server, np.int64(0), np.float64(0))], first.clients, ())
        server, number, loss = snapshot.state(template).servers[0]
        self._journal("resumed", round=int(number))
        self._roster.gather()
        return rounds, State(int(number), [server], snapshot.state(template).clients, ()), float(loss)

    def _first_params(self, opening: Opening) -> Params:
        name = self._point.train.method if self._closed else self._point.train.start
        if name == "random" or kind_of(name) is not Solved:
            return first_head(head_of(self._point), self._seed, like(opening.plan.agreement))
        assert opening.total is not None
        solved = resolve_solved(name, self._point.method.get(name, {}))
        key = jax.random.fold_in(jax.random.key(self._seed), stream(name))
        agreement = opening.plan.agreement
        task = Task(agreement.dimension, agreement.classes, None, key)
        return solved.solve(opening.total.unpacked(opening.center), task)

    def _stacked(self, prepared: dict[int, Tree], trained: Trained, agreement: Agreement) -> Tree:
        """The sites' first messages, zeros for clients that sent none, added up as the simulation does."""
        zero = lane.zero_preparation(trained, self._point.train.batch, agreement.dimension, len(agreement.classes))
        every = [prepared.get(k, zero) for k in range(self._point.federate.nodes or 1)]
        return add_prepared(trained.method, jax.tree.map(lambda *leaves: np.stack(leaves), *every))


def like(agreement: Agreement) -> EmbeddingTable:
    """A table without rows, for what only asks about classes, dimensions and the encoder."""
    return EmbeddingTable(
        np.zeros((0, agreement.dimension), np.float32),
        np.zeros(0, np.int64),
        class_names=agreement.classes,
        meta=agreement.encoder,
    )
