"""What `ggeur fit` costs as it is typed, start-up and report included: processor seconds, threads and memory.

Processor seconds are user and system time of the process and its children. Beside them stands scikit-learn's
LogisticRegression on the pooled training samples, with its accuracy on the same test samples. The tables are real ones,
in the folder `shared` beside the checkout; without it there is nothing to measure.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from benchmarks.timing import Fact

import ggeur

SHARED = Path(__file__).resolve().parents[2] / "shared"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
RATIO = 1.3  # what more threads may cost


class Cost(NamedTuple):
    """What a process took: processor seconds, the most memory it had, and what it printed."""

    seconds: float
    peak: int
    printed: str


class Fit(NamedTuple):
    """One fit: what is fitted, how, and the processor seconds that it may take."""

    name: str
    sites: Sequence[Path]
    options: Sequence[str]
    most: float
    pooled: bool = False  # whether LogisticRegression is fitted to the pooled samples, too


def cost(command: Sequence[str], threads: int | None, cache: Path) -> Cost:
    """Run `command` with so many threads for linear algebra, or with as many as the libraries take."""
    env = {k: v for k, v in os.environ.items() if k not in THREADS} | {"XDG_CACHE_HOME": str(cache)}
    env |= {} if threads is None else dict.fromkeys(THREADS, str(threads))
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {process.returncode}.")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, printed)


def sites_of(name: str, folder: Path) -> list[Path]:
    """Write a table for each domain of the embeddings `name` to `folder`."""
    with np.load(SHARED / "data" / "embeddings" / f"{name}.tinyvit.npz") as file:
        arrays = {key: file[key] for key in file.files}
    names = tuple(f"class {c}" for c in arrays["class_names"])
    domain = arrays.get("domain", np.zeros(len(arrays["y"]), int))
    paths = []
    for d, domain_name in enumerate(arrays.get("domain_names", [name])):
        own = domain == d
        x, y, test = (arrays[key][own] for key in ("x", "y", "test"))
        paths.append(folder / f"{domain_name}.npz")
        ggeur.EmbeddingTable(x=x, y=y.astype(int), test=test, class_names=names).save(paths[-1])
    return paths


def pictures(folder: Path) -> list[Path]:
    """Write eight pictures of each digit at two sites."""
    from PIL import Image

    for name in ("mnist", "svhn"):
        with np.load(SHARED / "data" / "images" / "digits" / f"{name}.npz") as file:
            x, y = file["x_train"], file["y_train"]
        for c in range(10):
            (folder / name / f"digit {c}").mkdir(parents=True)
            for i in np.flatnonzero(y == c)[:8]:
                Image.fromarray(x[i]).save(folder / name / f"digit {c}" / f"{i}.png")
    return [folder / "mnist", folder / "svhn"]


def fits(folder: Path) -> Iterator[Fit]:
    """Yield what is measured."""
    digits, tiny = sites_of("digits", folder), sites_of("tiny_imagenet", folder)
    yield Fit("auto: digits, 4 sites, 20,000 samples of 320 dimensions", digits, (), 10, True)
    two = pictures(folder / "pictures")
    yield Fit("auto: 160 pictures at 2 sites, embeddings cached, 488 dimensions", two, ("--encoder", "builtin"), 10)
    yield Fit("auto: Tiny-ImageNet, 200 classes, 20,000 samples, pooled", tiny, ("--covariance", "pooled"), 40, True)
    lda = "--method", "lda"
    yield Fit("lda: Tiny-ImageNet, 200 classes, 20,000 samples, pooled", tiny, (*lda, "--covariance", "pooled"), 3)
    yield Fit("lda: Tiny-ImageNet, 200 classes, 20,000 samples, per class", tiny, lda, 3)


def main() -> Iterator[Fact]:
    if not SHARED.is_dir():
        yield Fact("fit", "real tables", f"there is no {SHARED}")
        return
    with TemporaryDirectory() as made:
        folder = Path(made)
        for fit in fits(folder):
            command = [sys.executable, "-m", "ggeur", "fit", *map(str, fit.sites), *fit.options, "--quiet", "--out"]
            if "--encoder" in fit.options:  # so that all embeddings are cached
                cost([*command, str(folder / "first")], 1, folder / "cache")
            out = folder / f"{len(list(folder.iterdir()))} {fit.name[:4]}"
            one = cost([*command, str(out)], 1, folder / "cache")
            usual = cost([*command, f"{out} again"], None, folder / "cache")
            right = ggeur.load_model(out).metrics.get("avg")
            yield Fact(
                f"fit {fit.name}",
                f"at most {fit.most:g} processor seconds, and {RATIO} times as many with default threads",
                f"{one.seconds:.1f} s, {usual.seconds / one.seconds:.2f} times with default threads, peak "
                f"{one.peak / 2**20:.0f} MiB" + ("" if right is None else f", {right:.1f} % right"),
            )
            if fit.pooled:
                command = [sys.executable, "-m", "benchmarks.fit", *map(str, fit.sites)]
                found = cost(command, 1, folder / "cache")
                right = json.loads(found.printed)
                yield Fact(
                    f"scikit-learn's LogisticRegression: {fit.name.partition(': ')[2]}",
                    "the same samples, pooled and standardised, C 0.01",
                    f"{found.seconds:.1f} s, peak {found.peak / 2**20:.0f} MiB, {right:.1f} % right",
                )


def pooled_accuracy(paths: Sequence[str]) -> float:
    """Percent right of a LogisticRegression on the pooled samples of these tables, on average over them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    tables: list[Any] = [ggeur.EmbeddingTable.load(path) for path in paths]
    x = np.concatenate([t.x[~t.test] for t in tables]).astype(np.float64)
    y = np.concatenate([t.y[~t.test] for t in tables])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500)).fit(x, y)
    return float(np.mean([100 * model.score(t.x[t.test].astype(np.float64), t.y[t.test]) for t in tables]))


if __name__ == "__main__":
    print(json.dumps(pooled_accuracy(sys.argv[1:])))
