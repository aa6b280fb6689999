"""Start Flower's SuperExec so that the tokens of tasks do not appear on command lines, which every user can read.

    python -m ggeur.flower.machines.superexec OPTIONS     as flower-superexec OPTIONS

A token is the right to act as a task: whoever has the ServerApp's can act as the server of the run. Flower starts
tasks with `--token TOKEN`; here the token is in a file without a name that the task inherits, `--token-file /dev/fd/N`.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any


class HiddenTokens:
    """Stand in for the module `subprocess` where Flower starts its tasks."""

    DEVNULL = subprocess.DEVNULL

    @staticmethod
    def Popen(command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        """Start `command`, its `--token` handed over in a file that only the new process can open."""
        words = list(command)
        if "--token" not in words:
            return subprocess.Popen(words, **options)
        place = words.index("--token")
        with tempfile.TemporaryFile() as file:
            file.write(words[place + 1].encode())
            file.seek(0)
            words[place : place + 2] = ["--token-file", f"/dev/fd/{file.fileno()}"]
            return subprocess.Popen(words, pass_fds=[file.fileno()], **options)


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
