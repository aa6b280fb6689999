"""Start Flower's SuperLink and SuperNodes as processes, on real machines or all on loopback.

Telemetry, update checks and installing packages at run time are off.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from ggeur.experiments.grid import to_toml
from ggeur.flower.machines.loopback import LOOPBACK, Loopback
from ggeur.stats.errors import GgeurError, how_to_install
from ggeur.stats.long_jobs import check, uninterrupted
from ggeur.stats.storage import write_bytes

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",  # Flower's own is a second, twice in every round
}
# Name of the SuperLink in Flower's configuration. Flower takes the name for an app where a folder of it lies beside us.
CONNECTION = f"ggeur-{uuid4().hex}"
_PATIENCE = 60.0  # seconds for a SuperLink to listen, or a command to end
# Linux can send a process SIGTERM when the one that started it dies, even of SIGKILL; it is asked before the command.
_ASK = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])"
_WITH_PARENT = (sys.executable, "-c", _ASK) if sys.platform == "linux" else ()
_FRAME = " │╭╮╰╯─"  # around what Flower says
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PRIVATE = 0o077  # the umask of what holds statistics, states or keys
_LOOK = 1.0  # seconds between two looks at processes that run
_QUICKLY, _TRIES = 30.0, 3  # a process that lives for less than these seconds is started as often again
_GRACE = 5.0  # seconds between asking a process to end and ending it


def require_flower() -> None:
    """Raise GgeurError where the extra is not installed."""
    from importlib.util import find_spec

    if find_spec("flwr") is None:
        raise GgeurError(f"Real machines need Flower: {how_to_install('flower')}.", code="extra-missing")


def program(name: str) -> str:
    """Return the path of Flower's command `name` in this environment."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise GgeurError(f"The command {name} is not there: {how_to_install('flower')}.", code="command-missing")
    return found


def environment(home: Path | None = None) -> dict[str, str]:
    """Return the environment variables of Flower's processes; `home` is the folder of their own files."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {} if home is None else {"FLWR_HOME": str(home)}
    for name in ("NO_PROXY", "no_proxy"):  # of the machine's processes among each other
        own[name] = ",".join(filter(None, [os.environ.get(name), LOOPBACK]))
    return {**os.environ, **QUIET, **own, "PATH": path}


def superlink_command(loopback: Loopback, port: int, database: Path) -> list[str]:
    """Return the command of a SuperLink at `port` of loopback that admits registered nodes, and its own user.

    It keeps its state in the file `database`, so that one that is started again knows its nodes.
    """
    command = [
        sys.executable,
        "-m",
        "ggeur.flower.machines.superlink",
        "--host",
        LOOPBACK,
        "--port",
        str(port),
        "--enable-supernode-auth",
        "--database",
        str(database),
    ]
    return [*command, *loopback.options(), "--disable-runtime-dependency-installation"]


def supernode_command(
    loopback: Loopback, key: Path, door: str, config: Mapping[str, Any], port: int, trusted: Path | None = None
) -> list[str]:
    """Return the command of a SuperNode that authenticates with `key` and connects through the site's `door`.

    `config` is known to this site only: its partition, its data. `port` of loopback is for the node's own processes.
    With `trusted`, Flower's file of public keys, it runs only apps that were signed by one of them.
    """
    pairs = " ".join(f"{name}={_toml_value(value)}" for name, value in config.items())
    command = [program("flower-supernode"), "--root-certificates", str(loopback.authority), "--superlink", door]
    command += [] if trusted is None else ["--trusted-entities", str(trusted)]
    command += ["--auth-supernode-private-key", str(key), "--port", str(port), "--node-config", pairs]
    return [*command, "--host", LOOPBACK, *loopback.options()]


def superexec_command(loopback: Loopback, address: str) -> list[str]:
    """Return the command of the SuperExec that takes the tasks of Flower's server at `address` of loopback."""
    command = [sys.executable, "-m", "ggeur.flower.machines.superexec", "--runtime-api-address", address]
    command += ["--root-certificates", str(loopback.authority)]
    return [*command, "--superexec-auth-secret-file", str(loopback.secret)]


def _toml_value(value: Any) -> str:
    if isinstance(value, int):
        return str(value).lower()  # true, as TOML has it
    if set("'\"\n\\") & set(str(value)):
        raise GgeurError(
            f"Flower cannot take {value!r}: quotes and backslashes are not allowed in paths here.",
            code="process-value-quotes",
        )
    return f'"{value}"'


def write_connection(home: Path, name: str, address: str, authority: Path) -> None:
    """Write Flower's configuration in `home`: `flwr` finds, as `name`, the SuperLink at `address`, by `authority`."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    link = {"address": address, "root-certificates": str(authority.absolute())}
    write_bytes(home / "config.toml", to_toml({"superlink": {"default": name, name: link}}).encode())


def free_ports(n: int) -> list[int]:
    """Return `n` free ports of loopback."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(n)]
        return [int(one.getsockname()[1]) for one in sockets]


def end_with_parent() -> None:
    """End this process soon after its parent: Flower's exit may wait for a SuperLink that has ended."""

    def watch(parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        time.sleep(_GRACE)
        os._exit(1)

    threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()


class Machines:
    """Processes that end with the block, however it ends, and with this process, even if it is killed.

    Their output goes to the folder `logs`, a file for each, or to this process's own. Only their user can read the
    files that they write.
    """

    def __init__(self, logs: Path | None = None) -> None:
        self._logs = logs
        self._started: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Machines":
        if self._logs is not None:
            self._logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self

    def __exit__(self, *exc: object) -> None:
        """Ask all processes to end, and kill those that do not."""
        with uninterrupted():  # a second Ctrl-C does not leave half of them running
            self.end(*self.running)

    def end(self, *names: str) -> None:
        """Ask these processes to end, and kill those that do not, with everything that they started."""
        ending = [self.running.pop(name) for name in names if name in self.running]
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for process in ending:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, sign)  # the group it leads: itself and what it started
            end = time.monotonic() + _GRACE
            while any(process.poll() is None for process in ending) and time.monotonic() < end:
                time.sleep(0.05)

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start `command` with the variables `env`; its log is called `name`.

        It gets a group of its own, so that a Ctrl-C reaches it only through us.
        """
        self._started[name] = (command, env)
        with ExitStack() as stack:
            log = None if self._logs is None else stack.enter_context((self._logs / f"{name}.log").open("ab"))
            self.running[name] = subprocess.Popen(
                [*_WITH_PARENT, *command],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=None if log is None else subprocess.STDOUT,
                start_new_session=True,
                umask=PRIVATE,
            )

    def ended(self, name: str) -> bool:
        """Return whether the process `name` has ended."""
        return self.running[name].poll() is not None

    def keep(self, name: str) -> bool:
        """Start the process `name` again if it has ended, and return whether it had."""
        if not self.ended(name):
            return False
        self.start(name, *self._started[name])
        return True

    def watch(self, names: Sequence[str], notice: Callable[[str], None]) -> NoReturn:
        """Restart these processes whenever one ends; raise GgeurError where one ends again and again at once."""
        started, quickly = dict.fromkeys(names, time.monotonic()), dict.fromkeys(names, 0)
        while True:
            check()
            for name in names:
                if self.ended(name):
                    quickly[name] = quickly[name] + 1 if time.monotonic() - started[name] < _QUICKLY else 0
                    if quickly[name] >= _TRIES:
                        raise GgeurError(f"The {name} has ended{self.last_words(name)}", code="process-ended")
                    started[name] = time.monotonic()
                    self.keep(name)
                    notice(f"The {name} had ended and is started again.")
            time.sleep(_LOOK)

    def run(self, jobs: Mapping[str, Sequence[str]], env: Mapping[str, str], patience: float = 2 * _PATIENCE) -> None:
        """Run the commands of `jobs`, by name, in parallel to their end; raise GgeurError if one fails.

        They get the variables `env`, and `patience` seconds, five more for each.
        """
        for name, command in jobs.items():
            self.start(name, command, env)
        end = time.monotonic() + patience + 5 * len(jobs)
        for name in jobs:
            try:
                code = self.running[name].wait(max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                raise GgeurError(f"'{name}' does not end{self.last_words(name)}", code="process-not-ending") from None
            del self.running[name]
            if code:
                raise GgeurError(f"'{name}' failed{self.last_words(name)}", code="process-failed")

    def last_words(self, name: str) -> str:
        """Return the end of a sentence: the last line with words in the log of `name`, and the log's path."""
        if self._logs is None:
            return "; its output is above."
        path = self._logs / f"{name}.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        lines = [line.strip(_FRAME) for line in _COLOUR.sub("", text).splitlines()]
        last = next((line for line in reversed(lines) if re.search(r"\w", line)), "")
        return f': "{last}" is the last line of {path}.' if last else f"; {path} is empty."

    def wait_for_port(self, name: str, port: int) -> None:
        """Wait until the process `name` listens at `port`."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self.running[name].poll() is None:
            try:
                with socket.create_connection((LOOPBACK, port), timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        raise GgeurError(f"The {name} does not listen{self.last_words(name)}", code="process-not-listening")
