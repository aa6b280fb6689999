"""Start Flower's SuperExec so that tokens are not shown and a slow start is not taken for a lost one.

    python -m ggeur.flower.machines.superexec OPTIONS     as flower-superexec OPTIONS

A token is the right to act as a task: whoever has the ServerApp's can act as the server of the run. Flower starts
tasks with `--token TOKEN`; here the token is in a file without a name that the task inherits, `--token-file /dev/fd/N`.

A task that does not report within 30 seconds is started by Flower a second time, beside the first. On a machine that is
so slow this never ends. Here the SuperExec reports for a process that it has started, for as long as it starts.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_REPORT = 20.0  # seconds between two reports; without one Flower waits for 30
_STARTING = 600.0  # seconds that a process may take to start; then it must report by itself
_LEAVING = 10.0  # seconds that a site's process of the last message has to end
_CLIENT = "flwr-clientapp"
_ADDRESS = "--runtime-api-address"


class HiddenTokens:
    """Stand in for the module `subprocess` where Flower starts its tasks."""

    DEVNULL = subprocess.DEVNULL
    _client: "subprocess.Popen[Any] | None" = None  # a site's process: one at a time

    @classmethod
    def Popen(cls, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        """Start `command`, its `--token` handed over in a file that only the new process can open."""
        words = list(command)
        if "--token" not in words:
            return subprocess.Popen(words, **options)
        if words[0] == _CLIENT and cls._client is not None:
            _end(cls._client)
        place = words.index("--token")
        token = words[place + 1]
        with tempfile.TemporaryFile() as file:
            file.write(token.encode())
            file.seek(0)
            words[place : place + 2] = ["--token-file", f"/dev/fd/{file.fileno()}"]
            process = subprocess.Popen(words, pass_fds=[file.fileno()], **options)
        if words[0] == _CLIENT:
            cls._client = process
        if _ADDRESS in words:
            threading.Thread(target=report_start, args=(process, words, token), daemon=True).start()
        return process


def _end(process: "subprocess.Popen[Any]") -> None:
    """Give a process a little time to end, then kill it."""
    try:
        process.wait(_LEAVING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def report_start(process: "subprocess.Popen[Any]", words: Sequence[str], token: str) -> None:
    """Tell Flower that the task of `token` lives, as long as `process` is starting; `words` say where Flower is."""
    import httpx
    from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
    from flwr.supercore.runtime import RuntimeHttpClient

    def after(option: str) -> str:
        return words[words.index(option) + 1]

    client = RuntimeHttpClient.from_server_address(
        server_address=after(_ADDRESS),
        insecure="--insecure" in words,
        root_certificates=Path(after("--root-certificates")).read_bytes() if "--root-certificates" in words else None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), RuntimeTokenHttpInterceptor(token)],
    )
    end = time.monotonic() + _STARTING
    try:
        while time.monotonic() < end:
            try:
                process.wait(_REPORT)
                return
            except subprocess.TimeoutExpired:
                pass
            try:
                if not client.SendTaskHeartbeat(SendTaskHeartbeatRequest()).success:
                    return
            except httpx.TransportError:
                pass  # the next one may arrive
            except httpx.HTTPStatusError:  # the task has ended
                return
    finally:
        client.close()


def main() -> None:
    """Run the SuperExec."""
    from flwr.supercore.cli.flower_superexec import flower_superexec

    try:
        from flwr.supercore.superexec.executor import subprocess_executor

        subprocess_executor.subprocess  # noqa: B018  # there as we know it?
    except (ImportError, AttributeError):
        print("This version of Flower shows the tokens of tasks to local users.", file=sys.stderr, flush=True)
    else:
        subprocess_executor.subprocess = HiddenTokens
    flower_superexec()


if __name__ == "__main__":
    main()
