"""Make the tables of docs/images.md anew, from runs on the digits: pictures, and embeddings beside them.

    python tools/images_page.py ../shared/data FOLDER

The first folder holds `images/digits/{mnist,usps,svhn,mnist_m}.npz` and `embeddings/digits.tinyvit.npz`. Image tables
and runs lie in FOLDER: a finished run is read, any other begun or gone on with. What the page shows is also kept, as
docs/results/images/digits.json.
"""

import argparse
import json
import re
import time
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import ggeur
from ggeur.cli.screen import progress
from ggeur.data.image_set import ImageSet, Split, pixels
from ggeur.data.readers_native import as_benchmark
from ggeur.encoders.encoder import load_encoder
from ggeur.encoders.job import embed
from ggeur.experiments.result import Trial

PAGE = Path(__file__).resolve().parents[1] / "docs" / "images.md"
RESULTS = PAGE.parent / "results" / "images" / "digits.json"
DOMAINS = ("mnist", "usps", "svhn", "mnist_m")
METHODS = {
    "FedAvg": "fedavg",
    "FedProto": "fedproto",
    "MOON": "moon",
    "FedNTD": "fedntd",
    "FedDyn": "feddyn",
    "FedOPT": "fedopt",
    "SCAFFOLD": "scaffold",
}
GARBLED = "FedAvg (images), SVHN as benchmark"
FASTER = {  # what the numbers of two slow methods cost them: plain steps with a small server's, and a strong pull back
    "SCAFFOLD (images), rate 0.1, server_learning_rate 1": (
        "scaffold",
        {"learning_rate": 0.1},
        {"server_learning_rate": 1.0},
    ),
    "FedDyn (images), alpha 0.01": ("feddyn", {}, {"alpha": 0.01}),
}
TRAIN = {"rounds": 10, "local_epochs": 1, "batch_size": 16, "learning_rate": 0.01}
RESNET = {**TRAIN, "head": "resnet18"}
HALF_HOUR = 1800  # seconds that it is given


def image_tables(data: Path, folder: Path) -> None:
    """The digits at 32 pixels: read rightly, and with SVHN as the benchmark reads it."""
    if (folder / "digits32b.npz").exists():
        return
    domains = {}
    for name in DOMAINS:
        a = np.load(data / "images" / "digits" / f"{name}.npz")
        domains[name] = Split(*(pixels(a[f"x_{part}"], a[f"y_{part}"], name) for part in ("train", "test")))
    images = ImageSet.of(tuple("0123456789"), domains, dataset="digits")
    for name, one in (("digits32", images), ("digits32b", as_benchmark(images))):
        embed(one, load_encoder("pixels:32")).table.save(folder / f"{name}.npz")


def finished(tree: dict[str, Any], out: Path, seconds: float = float("inf")) -> list[Trial]:
    """The trials of an experiment, whose run lies in `out`; none where `seconds` were too few for another round."""
    experiment, began = ggeur.Experiment.of(tree), time.monotonic()
    last = began

    def on_round(event: dict[str, Any]) -> None:
        nonlocal last
        show(event)
        now = time.monotonic()
        if now + (now - last) > began + seconds:
            raise TimeoutError
        last = now

    with suppress(TimeoutError), progress(experiment, out) as show:
        return ggeur.run(experiment, out=out, resume=(out / "config.toml").exists(), on_round=on_round).trials
    return []


def digits(data: Path, folder: Path) -> dict[str, Trial]:
    """Every method on embeddings and on pictures, each a run of its own."""
    shared = {"partition": {"kind": "domain"}, "augment": {"kind": "none"}}
    embedded, pictures = data / "embeddings" / "digits.tinyvit.npz", folder / "digits32.npz"
    arms = {f"{name} (embeddings)": (embedded, "linear", method) for name, method in METHODS.items()}
    arms |= {f"{name} (images)": (pictures, "simplecnn", method) for name, method in METHODS.items()}
    arms[GARBLED] = folder / "digits32b.npz", "simplecnn", "fedavg"
    arms |= {name: (pictures, "simplecnn", method) for name, (method, _, _) in FASTER.items()}
    trials = {}
    for name, (table, head, method) in arms.items():
        _, numbers, own = FASTER.get(name, ("", {}, {}))
        train = {**TRAIN, "head": head, "method": method, **numbers}
        tree = {**shared, "data": {"table": str(table.resolve())}, "train": train, "method": {method: own}}
        (trials[name],) = finished(tree, folder / "runs" / name)
    return trials


def resnet(folder: Path) -> dict[str, Any]:
    """As many rounds as half an hour allows; a run that is there is read, and not gone on with."""
    tree = {"data": {"table": str((folder / "digits32.npz").resolve())}, "partition": {"kind": "domain"}}
    out = folder / "resnet18"
    if not out.exists():
        finished({**tree, "train": RESNET}, out, HALF_HOUR)
    rounds = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    domains = {d: round(fmean(one["domains"][d] for one in rounds[-5:]), 2) for d in DOMAINS}
    avg = [round(one["avg"], 2) for one in rounds]
    return {"domains": domains, "avg": round(fmean(avg[-5:]), 2), "rounds": avg}


def kept(trial: Trial) -> dict[str, Any]:
    rounded = {name: round(value, 2) for name, value in trial.domains.items()}
    rounds = [round(value, 2) for value in trial.rounds]
    return {"domains": rounded, "avg": round(trial.avg or 0.0, 2), "rounds": rounds, "seconds": round(trial.seconds)}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Mean of the last five rounds in each domain and over them; AVG after the first round and the last."""
    lines = [f"| method | {' | '.join(DOMAINS)} | AVG | round 1 | last |", "|---" * (len(DOMAINS) + 4) + "|"]
    for name, row in rows.items():
        figures = [*(row["domains"][d] for d in DOMAINS), row["avg"], row["rounds"][0], row["rounds"][-1]]
        lines.append(f"| {name} | {' | '.join(f'{figure:.2f}' for figure in figures)} |")
    return "\n".join(lines) + "\n"


def write(found: dict[str, Any]) -> None:
    """Keep what was `found`, and put its tables into the page."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    for name, rows in shown(found).items():
        marked, made = rf"(<!-- images: {name} -->\n).*?(<!-- end -->)", table(rows)
        text = re.sub(marked, rf"\g<1>{made}\g<2>", text, flags=re.S)
    PAGE.write_text(text, encoding="utf-8")


def shown(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of each table of the page."""
    resnet = {"resnet18": {"FedAvg (images), ResNet-18": found["resnet18"]}} if "resnet18" in found else {}
    return {"digits": found["digits"], **resnet}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resnet", action="store_true", help="ResNet-18 too, for half an hour")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    image_tables(given.data, given.folder)
    rows = {name: kept(trial) for name, trial in digits(given.data, given.folder).items()}
    found: dict[str, Any] = {"train": TRAIN, "digits": rows}
    if given.resnet:
        found |= {"resnet": RESNET, "resnet18": resnet(given.folder)}
    write(found)


if __name__ == "__main__":
    main()
