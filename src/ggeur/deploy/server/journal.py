"""`federation.jsonl` in the run folder: who joined, who was refused or missing and why, and where the time went."""

import json
import os
import time
from pathlib import Path
from typing import Any

NAME = "federation.jsonl"


class Journal:
    """One line per event, flushed at once, so that whoever watches the file sees it."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / NAME).open("a", encoding="utf-8")

    def __call__(self, event: str, **facts: Any) -> None:
        line = {"time": round(time.time(), 3), "event": event, **facts}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        print(event, json.dumps(facts), flush=True)  # for `flwr log` and the SuperLink's own log

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


def forget(folder: Path) -> None:
    """Remove the journal of a run that ended before there was anything to keep, if nothing else is in the folder."""
    if folder.is_dir() and [path.name for path in folder.iterdir()] == [NAME]:
        (folder / NAME).unlink()


def read(folder: Path, since: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The events from byte `since` on, whole lines only, and where the next begin."""
    try:
        with (folder / NAME).open("rb") as file:
            file.seek(since)
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return [], since
    whole = content[: content.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()], since + len(whole)
