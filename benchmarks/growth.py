"""How a client-step and the memory of a process grow: clients, classes, dimensions, batch; each in its own process."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Fact

BASE = {"clients": 10, "classes": 10, "target": 2000, "dim": 512, "batch_size": 64}
CASES = [
    {},
    {"clients": 100},
    {"clients": 500},
    {"classes": 65, "target": 500},
    {"classes": 200, "target": 200},
    {"dim": 768},
    {"batch_size": 16},
    {"clients": 10_000, "classes": 10, "target": 20},
]


def measure(shape_values: dict[str, int], rounds: int, epochs: int) -> dict[str, float]:
    """Seconds of a client-step, and the process's peak memory in bytes."""
    from benchmarks.federation import Shape, our_round, run_of
    from benchmarks.timing import best

    shape = Shape(**shape_values)
    one_round = our_round(shape, run_of(shape), epochs)
    step = best(one_round, rounds - 1) / (epochs * shape.steps)
    return {"step": step, "peak": peak()}


def peak() -> float:
    """Of this process, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):  # elsewhere, and there it may be the parent's, if that was larger
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def in_own_process(shape_values: dict[str, int], rounds: int, epochs: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", json.dumps([shape_values, rounds, epochs])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> Iterator[Fact]:
    from benchmarks.federation import Shape

    for case in CASES:
        values = BASE | case
        shape = Shape(**values)
        found = in_own_process(values, rounds=4, epochs=1)
        gigaflops = 4e-9 * shape.batch_size * shape.dim * shape.classes / found["step"]
        yield Fact(
            "growth: a client-step of FedAvg",
            str(shape),
            f"{1e6 * found['step']:.1f} µs, {gigaflops:.0f} GFLOP/s, peak {found['peak'] / 2**30:.2f} GiB",
        )
    many = BASE | {"clients": 500}
    found = in_own_process(many, rounds=5, epochs=1)
    samples = Shape(**many).samples * 500 / 1e6
    yield Fact(
        f"memory: {samples:.0f} million virtual samples, 5 rounds",
        str(Shape(**many)),
        f"peak {found['peak'] / 2**30:.2f} GiB of the whole process",
    )


if __name__ == "__main__":
    print(json.dumps(measure(*json.loads(sys.argv[1]))))
