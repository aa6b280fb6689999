"""What heads of one message cost beside GGEUR's rounds, and how they are with many classes and dimensions."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from benchmarks.growth import peak
from benchmarks.timing import Fact, best, seconds

import ggeur
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import ClosedForm, Selection, Task
from ggeur.stats.features import FeatureMap, FeatureQuery
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics
from ggeur.stats.units import Units

HEADS = ("lda", "ridge", "ggeur-limit", "mixture", "blend", "kernel", "auto")
ROUNDS, NEAR = 50, 0.2  # points from the last round's accuracy
HEAD_BYTES = 4 * 10 * 489  # of a round, each way: ten classes of the built-in encoder's 488 dimensions
LARGE = {"classes": 200, "dim": 512, "rows": 40_000}


def experiment(**train: Any) -> ggeur.Experiment:
    kind = "ggeur" if "rounds" in train else "none"
    tree = {"data": {"dataset": "mini-digits"}, "partition": {"kind": "label-and-domain", "beta": 0.1}}
    return ggeur.Experiment.of(tree | {"augment": {"kind": kind}, "train": train})


def rounds() -> Iterator[tuple[str, float, float, int, int]]:
    """GGEUR at the first round near its last and at the last: accuracy, seconds, bytes up and down per site."""
    ours = experiment(method="fedavg", rounds=ROUNDS, local_epochs=2)
    ggeur.run(experiment(method="fedavg", rounds=2, local_epochs=2))  # compiled, and the table made
    seen: list[tuple[float, float]] = []
    began = time.perf_counter()
    trial = ggeur.run(ours, on_round=lambda event: seen.append((event["avg"], time.perf_counter() - began))).trials[0]
    last = seen[-1][0]
    near = next(i for i, (avg, _) in enumerate(seen) if abs(avg - last) <= NEAR)
    for i in (near, ROUNDS - 1):
        later = (ROUNDS - 1 - i) * HEAD_BYTES
        yield f"GGEUR, round {i + 1}", *seen[i], trial.bytes_up - later, trial.bytes_down - later


def solved(name: str) -> tuple[float, float, int, int]:
    """Accuracy of a head, seconds to sum up and solve it, bytes up and down per site."""
    asked = experiment(method=name)
    trial, setup, trial_data = ggeur.run(asked).trials[0], Setup.of(asked.points[0]), TrialData()
    trial_data.clients(setup, 0)  # the table is read

    def solve() -> None:
        assert isinstance(setup.algorithm, ClosedForm | Selection)
        trial_data.one_shot(setup.algorithm, name, setup, 0)

    assert trial.avg is not None
    return trial.avg, seconds(solve) if name == "auto" else best(solve), trial.bytes_up, trial.bytes_down


def large(kind: Any) -> dict[str, float]:
    """Seconds to sum up and solve `ggeur-limit` for many classes and dimensions, and the process's peak memory."""
    rng = np.random.default_rng(0)
    n, p, y = LARGE["classes"], LARGE["dim"], np.arange(LARGE["rows"]) % LARGE["classes"]
    mix = rng.normal(size=(p, p)) * np.geomspace(1, 0.03, p)
    x = (rng.normal(size=(n, p))[y] * 0.35 + rng.normal(size=(len(y), p)) @ mix / np.sqrt(p)).astype(np.float32)
    head = resolve_closed_form("ggeur-limit", {}, kind)
    began = time.perf_counter()
    total = FederationStatistics.of([(0, SiteStatistics.from_embeddings(x, y, n).of_kind(kind))], head.apart)
    summed = time.perf_counter()
    head.solve(total, Task(p, tuple(map(str, range(n)))))
    return {"sum": summed - began, "solve": time.perf_counter() - summed, "peak": peak()}


def kernel() -> Fact:
    """Processor seconds of a fit by `kernel` over 1.5 times those of its features' statistics, and `lda`'s fit."""
    rng, d = np.random.default_rng(0), 3000
    y = np.arange(20_000) % 10
    x = (rng.normal(size=(10, 320))[y] * 0.2 + rng.normal(size=(len(y), 320))).astype(np.float32)
    sites, units = [(x[k::4], y[k::4]) for k in range(4)], Units(np.zeros(320), 1.0)
    asked = FeatureQuery(FeatureMap(units, rng.normal(size=(d, 320)).astype(np.float32)))

    def processor(run: Callable[[], object]) -> float:
        began = time.process_time()
        run()
        return time.process_time() - began

    ggeur.fit(sites, method="lda", calibrate=False)
    lda = processor(lambda: ggeur.fit(sites, method="lda"))
    ours = processor(lambda: ggeur.fit(sites, method="kernel", parameters={"features": d}))
    summarise = processor(lambda: [asked.statistics(x[k::4], y[k::4], y[k::4] * 0, 10) for k in range(4)])
    return Fact(
        "one message: kernel, fit",
        f"20,000 x 320 made up, 4 sites, {d} landmarks",
        f"{ours:.1f} processor s; features {summarise:.1f}, fit of lda {lda:.1f}; "
        f"{ours / (1.5 * summarise + lda):.2f} of 1.5 times the first and the second",
    )


def main() -> Iterator[Fact]:
    work = "mini-digits, 4 sites, label and domain 0.1, one seed"
    *some, last = rounds()
    for what, avg, took, up, down in [*some, last]:
        yield Fact(f"one message: {what}", work, f"{avg:.1f} %, {took:.2f} s, {up:,} B up, {down:,} B down")
    for name in HEADS:
        avg, took, up, down = solved(name)
        short = "" if avg >= last[1] - NEAR else f" (below GGEUR's {last[1]:.1f})"
        yield Fact(f"one message: {name}", work, f"{avg:.1f} %{short}, {took:.2f} s, {up:,} B up, {down:,} B down")
    yield kernel()
    for kind in ("pooled", "per-class"):
        command = [sys.executable, "-m", "benchmarks.one_shot", kind]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        yield Fact(
            f"one message: limit, {kind}",
            f"{LARGE['classes']} classes, {LARGE['dim']} dimensions, {LARGE['rows']:,} rows, made up",
            f"{found['sum']:.1f} s to sum, {found['solve']:.1f} s to solve, peak {found['peak'] / 2**30:.2f} GiB",
        )


if __name__ == "__main__":
    print(json.dumps(large(sys.argv[1])))
