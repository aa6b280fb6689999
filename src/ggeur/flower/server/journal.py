"""Write `federation.jsonl`: sites that joined, were refused or missing and why, and the time of each step."""

import json
import os
import time
from pathlib import Path
from typing import Any

NAME = "federation.jsonl"


class Journal:
    """One line per event in a file of `folder`, on disk at once, so that whoever watches it sees it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def __call__(self, event: str, **facts: Any) -> None:
        """Write the `event` and the `facts` about it."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": round(time.time(), 3), "event": event, **facts}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        print(event, json.dumps(facts), flush=True)  # for `flwr log` and the SuperLink's own log


def forget_events(folder: Path) -> None:
    """Remove the journal of a run that ended before there was anything to keep, if `folder` holds nothing else."""
    if folder.is_dir() and [path.name for path in folder.iterdir()] == [NAME]:
        (folder / NAME).unlink()


def read_events(folder: Path, since: int = 0, name: str = NAME) -> tuple[list[dict[str, Any]], int]:
    """Return the events in the file `name` of `folder` from byte `since` on, and the byte after the last whole line."""
    try:
        with (folder / name).open("rb") as file:
            file.seek(since)
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return [], since
    whole = content[: content.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()], since + len(whole)
