"""`python -m benchmarks [--write] [name ...]`: every comparison, measured in this run; above 1, ours is ahead."""

import datetime
import importlib
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Fact, Line

ALL = (
    *("sampling", "training", "images", "sweep", "one_shot", "fit", "secure_aggregation"),
    *("flower", "growth", "embedding", "text", "tables"),
)
README = Path(__file__).with_name("README.md")
PLACE = "<!-- table: {} -->\n"
END = "<!-- end -->\n"


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def table(name: str) -> Iterator[str]:
    """The lines of one table: when and where, and a row for each comparison."""
    import jax
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    day = datetime.datetime.now(datetime.UTC).date()
    yield (
        f"{day}, {processor()}, {psutil.cpu_count()} cores, {memory:.0f} GiB; Python {platform.python_version()}, "
        f"jax {jax.__version__}; load {psutil.getloadavg()[0]:.1f} at the start.\n"
    )
    yield "| what | work | ours | other | ratio |\n|---|---|---|---|---|"
    for line in importlib.import_module(f"benchmarks.{name}").main():
        match line:
            case Line():
                yield f"| {line.what} | {line.work} | {line.ours:.3g} s | {line.other:.3g} s | {line.ratio:.2f} |"
            case Fact():
                yield f"| {line.what} | {line.work} | {line.found} | | |"


def written(page: str, name: str, lines: list[str]) -> str:
    """The `page` with these lines as the table of that name, and all others as they were."""
    before, place, rest = page.partition(PLACE.format(name))
    if not place:
        raise SystemExit(f"{README} has no place for the table of {name}.")
    return before + place + "".join(f"{line}\n" for line in lines) + END + rest.partition(END)[2]


def main(arguments: list[str]) -> None:
    names = [name for name in arguments if name != "--write"] or list(ALL)
    for name in names:
        lines = []
        for line in table(name):
            print(line, flush=True)
            lines.append(line)
        if "--write" in arguments:
            README.write_text(written(README.read_text(), name, lines))


main(sys.argv[1:])
