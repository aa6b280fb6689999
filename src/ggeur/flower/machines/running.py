"""Run an experiment over the sites of a running server, and wait for its end, whatever happens to the server."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ggeur.experiments.checkpoint import check_same
from ggeur.experiments.grid import Experiment, override
from ggeur.experiments.result import Result
from ggeur.experiments.tracker import OnRound
from ggeur.flower.machines import processes
from ggeur.flower.machines.control import Control
from ggeur.flower.machines.flower_app import write_app
from ggeur.flower.machines.kit import read_federation
from ggeur.flower.server import journal
from ggeur.flower.server.reopening import reopen
from ggeur.stats.errors import GgeurError
from ggeur.stats.long_jobs import check
from ggeur.stats.storage import lock_file

OnEvent = Callable[[dict[str, Any]], None]
_LOOK = 0.3  # seconds between two looks at what the run has written
_ASK = 5.0  # seconds between two questions to the SuperLink
_PATIENCE = 600.0  # seconds for a server that was lost to come back
_START = 120.0  # seconds for the server to take a run
_ENDED = "finished"
_OWN = "ours"  # the server's name in Flower's configuration


def with_sites(experiment: Experiment, server: Path) -> Experiment:
    """Return `experiment` with [federate] sites and min_sites of the federation, where it does not say."""
    facts, point = read_federation(server), experiment.points[0].federate
    if facts is None or point.sites is not None:
        return experiment
    least = min(point.min_sites, len(facts.sites))
    return Experiment.of(
        override(experiment.tree, [f"federate.sites={len(facts.sites)}", f"federate.min_sites={least}"])
    )


class ServerRun:
    """A run of `experiment` into the folder `out`, over the sites of the server's folder `server`."""

    def __init__(
        self,
        server: Path,
        experiment: Experiment,
        out: Path,
        on_round: OnRound = lambda event: None,
        on_event: OnEvent = lambda event: None,
    ) -> None:
        self._server, self._experiment = server, experiment
        self._out = Path(os.path.abspath(out))
        self._on_round, self._on_event = on_round, on_event
        self._seen = self._lines = 0
        self._heard = False  # the run has written something

    def finish(self, *, resume: bool = False, again: bool = False) -> Result:
        """Run to the end, and return the result; raise GgeurError if the run fails.

        A run whose server was lost goes on as soon as the server is back. With `resume` it goes on from what the folder
        holds; `again` reopens a finished run, to add sites.
        """
        out = self._out
        if resume:
            check_same(out, self._experiment)
            if again:
                reopen(out, self._experiment)
            if (out / "result.json").exists():
                return Result.load(out)
            _, self._seen = journal.read_events(out)
        else:
            journal.forget_events(out)
            if out.exists() and (not out.is_dir() or any(out.iterdir())):
                raise GgeurError(
                    f"The folder {out} is not empty; name a new one with --out, or go on with --resume {out}.",
                    code="folder-not-empty",
                )
        apps = self._server / "link" / "apps"
        apps.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock_file(apps / ".lock", f"Another run over {self._server} is in flight; wait for its end."):
            while True:
                number = self._start(apps, resume)
                try:
                    if self._follow(number):
                        return Result.load(out)
                except BaseException:
                    self._stop(number)
                    raise
                resume = (out / "config.toml").exists()
                self._on_event({"event": "note", "why": "The server was lost; the run goes on."})

    def _start(self, apps: Path, resume: bool) -> int:
        """Hand the app over to Flower, and return the run's number; a run that had begun waits for a lost server."""
        folder = apps / f"run-{time.time_ns()}"
        write_app(folder, self._experiment, self._out, resume=resume)
        end = time.monotonic() + (_PATIENCE if self._seen else 0.0)
        while True:
            check()
            try:
                with Control(self._server) as control:
                    control.nodes()
                break
            except GgeurError:
                if time.monotonic() >= end:
                    raise
                time.sleep(1.0)
        command = [processes.program("flwr"), "run", str(folder), _OWN, "--format", "json"]
        env = processes.environment(self._server.absolute() / "link" / "home")
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_START, check=False)
        except subprocess.TimeoutExpired as error:
            raise GgeurError("The SuperLink does not take the run; look at its log.", code="run-not-taken") from error
        found = re.search(r"\{.*\}", done.stdout, re.DOTALL)
        facts = json.loads(found.group()) if found else {}
        if not facts.get("run-id"):
            why = facts.get("error-message") or done.stderr or done.stdout
            raise GgeurError(f"The SuperLink does not take the run: {' '.join(why.split())}", code="run-not-taken")
        return int(facts["run-id"])

    def _follow(self, number: int) -> bool:
        """Pass on what the run writes; return whether it has finished, False where it was lost with the server."""
        self._heard, gone, asked, away = False, False, 0.0, 0.0
        while True:
            check()
            over = self._pass_on()
            if over is not None:
                if "why" in over:
                    raise GgeurError(str(over["why"]), code="run-failed")
                return True
            if gone:  # and its last words have been read
                if not self._heard and not away:
                    raise GgeurError(
                        "The run ended before it began; look at the log of `ggeur federate link`.", code="run-failed"
                    )
                self._stop(number)
                return False
            if time.monotonic() - asked > _ASK:
                asked = time.monotonic()
                try:
                    with Control(self._server) as control:
                        run = control.run(number)
                    gone = run is None or run.status.status == _ENDED
                except GgeurError:
                    away = away or asked
                    if asked - away > _PATIENCE:
                        raise
                # Until it has been heard of it may not have started yet, and must find the folder free.
                gone = gone or (self._heard and not self._alive())
            time.sleep(_LOOK)

    def _alive(self) -> bool:
        """Return whether a process is at work in the run folder."""
        try:
            lock_file(self._out / ".lock", "taken").close()
        except GgeurError:
            return True
        return False

    def _pass_on(self) -> dict[str, Any] | None:
        """Pass on new lines of the metrics and the journal; return the event that ended the run, if one did."""
        events, self._seen = journal.read_events(self._out, self._seen)
        over, self._heard = None, self._heard or bool(events)
        for event in events:
            self._on_event(event)
            if event["event"] in ("finished", "stopped"):
                over = event
        metrics, _ = journal.read_events(self._out, name="metrics.jsonl")
        rounds = [point.train.rounds for point in self._experiment.points]
        for event in metrics[self._lines :]:
            self._on_round({**event, "rounds": rounds[event["trial"]]})
        self._lines = max(self._lines, len(metrics))
        return over

    def _stop(self, number: int) -> None:
        try:
            with Control(self._server) as control:
                control.stop(number)
        except GgeurError:
            pass  # it ended with the server
