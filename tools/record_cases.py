"""The cases that record.py runs: grids on small tables, made on the spot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ggeur

Keys = dict[str, Any]  # "section.key": value, where a list spans a grid

TRAINED = (
    *("fedavg", "fedprox", "scaffold", "moon", "feddyn", "fedopt"),
    *("fedproto", "fedntd", "fedmix", "fedgen", "fedfa", "fedfa_gaussian"),
)
SOLVED = ("ncm", "lda", "ridge", "ccvr")
PARAMETERS: dict[str, Keys] = {  # numbers, which one program serves, and some choices, of which programs are made
    "fedavg": {"train.learning_rate": [0.02, 0.1], "train.momentum": [0.0, 0.5], "train.weight_decay": [0.0, 0.01]},
    "fedprox": {"method.fedprox.mu": [0.0, 0.1, 1.0]},
    "scaffold": {"method.scaffold.server_learning_rate": [0.5, 1.0]},
    "moon": {"method.moon.mu": [0.1, 5.0], "method.moon.tau": [0.2, 1.0]},
    "feddyn": {"method.feddyn.alpha": [0.1, 1.0]},
    "fedopt": {
        "method.fedopt.server": ["sgd", "adam", "yogi", "adagrad"],
        "method.fedopt.server_learning_rate": [0.1, 0.2],
    },
    "fedproto": {"method.fedproto.lam": [0.1, 5.0]},
    "fedntd": {"method.fedntd.beta": [0.3, 3.0], "method.fedntd.tau": [2.0, 3.0]},
    "fedmix": {"method.fedmix.lam": [0.1, 0.3], "method.fedmix.group": [2, 4], "method.fedmix.groups": 20},
    "fedgen": {"method.fedgen.a": [1.0, 5.0], "method.fedgen.hidden": 16, "method.fedgen.server_steps": 5},
    "fedfa": {"method.fedfa.probability": [0.2, 1.0]},
    "lda": {"method.lda.shrinkage": [0.0, 0.5]},
    "ridge": {"method.ridge.alpha": [0.01, 10.0]},
    "ccvr": {"method.ccvr.draws": [20, 50], "method.ccvr.epochs": 2, "method.ccvr.learning_rate": [0.01, 0.1]},
}
AUGMENTATIONS = {"augment.kind": ["none", "resample", "prototypes", "ggeur"]}
ENDS = {"augment.kind": ["none", "ggeur"]}  # with and without noise: as many programs
DIRICHLET = {"partition.kind": "dirichlet", "partition.clients": 4, "partition.beta": 0.5}
BOTH = {"partition.kind": "label-and-domain", "partition.beta": 0.3}
# As many clients of each kind, so that one program serves them all: compiling is nearly all of the time this takes.
EVERY = {"partition.kind": ["dirichlet", "domain", "label-and-domain"], "partition.clients": 3, "partition.beta": 0.5}
BASE = {
    "partition.kind": "domain",
    "augment.target": 12,
    "augment.per_prototype": 4,
    **{"train.rounds": 2, "train.local_epochs": 2, "train.batch_size": 8, "train.learning_rate": 0.05},
    **{"run.seeds": [0, 1], "run.checkpoint_every": 10},
    **{"method.ccvr.draws": 50, "method.ccvr.epochs": 2},  # 2000 draws would be most of the work
}
WIDE = {
    "augment.target": 600,
    "augment.bank_mib": 1,
    "train.rounds": 1,
    "train.local_epochs": 1,
    "train.batch_size": 64,
}
FAR = {"train.learning_rate": 1e-9}  # the loss is as steep as the embeddings are long
SETTINGS: dict[str, Keys] = {
    "partial participation": {"train.clients_per_round": 2, "train.method": list(TRAINED)},
    "partial participation everywhere": {**EVERY, **ENDS, "train.clients_per_round": 2},
    "protocol released": {**EVERY, "run.protocol": "released", "train.method": ["fedavg", "fedprox", "scaffold"]},
    "protocol paper": {**EVERY, "run.protocol": "paper"},
    "guided": {**EVERY, "augment.guided": [0.8, 0.5], "augment.covariance": ["per-class", "pooled"]},
    "per sample": {**EVERY, "augment.per_sample": [1, 3], "augment.steps": [1, 2]},
    "empty trial": {**BOTH, **AUGMENTATIONS, "augment.empty_group": ["all", "first"]},
    "weights": {**BOTH, **ENDS, "train.weights": ["samples", "original", "equal"]},
    "scale": {**EVERY, "augment.scale": ["eigenvalue", "sqrt-eigenvalue"]},
    "pooled": {**EVERY, "augment.covariance": "pooled", "augment.scale": ["eigenvalue", "sqrt-eigenvalue"]},
    "means dirichlet": {**DIRICHLET, "augment.covariance": "none", "augment.steps": [1, 2]},
    "means domain": {"augment.covariance": "none"},
    "means label-and-domain": {**BOTH, "augment.covariance": "none"},
    "steps": {**EVERY, "augment.kind": ["none", "resample", "ggeur"], "augment.steps": [1, 2]},
    "prototypes in one step": {"augment.kind": "prototypes", "augment.steps": 1},
    "start": {**EVERY, **ENDS, "train.start": list(SOLVED)},
    "start of others": {**ENDS, "train.start": "lda", "train.method": ["scaffold", "moon", "fedopt", "fedgen"]},
    "start of an mlp": {"train.start": "lda", "train.head": "mlp"},
    "storage": {**AUGMENTATIONS, "train.storage": ["float32", "float16"]},
    "local steps": {**EVERY, **ENDS, "train.local_steps": 7},
    "adam": {**EVERY, **ENDS, "train.optimiser": "adam"},
    "softmax": {**AUGMENTATIONS, "train.softmax": True},
    "standardise": {**EVERY, **ENDS, "data.standardise": True, "train.start": ["random", "lda"]},
    "no broadcast": {**ENDS, "train.broadcast": False, "train.method": ["fedavg", "fedprox", "moon", "fedopt"]},
    "share": {**ENDS, "partition.share": [0.3, 0.6]},
    "many clients": {**DIRICHLET, "partition.clients": 12, "partition.min_per_class": 0, **AUGMENTATIONS},
    "divergence": {"train.learning_rate": [0.05, 1e30]},
    "epochs": {**EVERY, **AUGMENTATIONS, "train.method": ["fedavg", "scaffold", "local", "central"]},
    "more clients drawn than there are": {"train.clients_per_round": 9},
    "unknown method": {"train.method": "fedup"},
}


ARMS = """
data.table = "small.npz"
partition = { kind = "label-and-domain", beta = 0.3 }
augment = { target = 12, per_prototype = 4 }
train = { rounds = 3, local_epochs = 1, batch_size = 8, learning_rate = [0.02, 0.05] }
arm = [
    { name = "plain", augment.kind = ["none", "resample"] },
    { name = "drawn", augment.steps = [1, 2], train.method = ["fedavg", "scaffold"] },
    { name = "from LDA", train.start = "lda" },
]
"""
COMMANDS = {
    "run": ("run", "arms.toml", "--set", "run.seeds=[0, 1]"),
    "run wrong": ("run", "arms.toml", "--set", "train.x=1"),
    "demo": ("demo", "--rounds", "2", "--seeds", "2"),
}


class Case(NamedTuple):
    name: str  # its first word is its kind
    keys: Keys
    table: str = "small"

    def tree(self) -> dict[str, Any]:
        """The experiment as `Experiment.of` takes it."""
        tree: dict[str, Any] = {"data": {"table": f"{self.table}.npz"}}
        for name, value in {**BASE, **self.keys}.items():
            *sections, key = name.split(".")
            place = tree
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = value
        return tree


def cases() -> Iterator[Case]:
    for method in (*TRAINED, *SOLVED, "local", "central", "zeroshot"):  # epochs would be a program per length of client
        yield Case(f"method {method}", {**EVERY, **AUGMENTATIONS, "train.method": method, "train.local_steps": 8})
    for method, values in PARAMETERS.items():
        yield Case(f"parameters {method}", {**BOTH, **values, "train.method": method})
    for method in TRAINED:
        mlp = {"train.head": "mlp", "train.hidden": 8, "train.method": method, "augment.kind": "none"}
        yield Case(f"mlp {method}", {**BOTH, **mlp, "train.local_epochs": 1})
    yield Case("mlp drawn", {**EVERY, **ENDS, "train.head": "mlp", "train.hidden": 8, "train.local_steps": 8})
    yield Case("mlp ncm", {"train.head": "mlp", "train.method": "ncm"})
    for name, keys in SETTINGS.items():
        yield Case(f"setting {name}", keys)
    yield Case("table bank wraps", {**EVERY, **WIDE, "augment.bank_mib": [1, 256]}, "wide")
    for table, keys in {"far": FAR, "float16": {}, "masked": {}}.items():
        yield Case(f"table {table}", {**EVERY, **AUGMENTATIONS, **keys}, table)
        yield Case(f"table {table} solved", {**EVERY, "train.method": [*SOLVED, "zeroshot"]}, table)
        yield Case(f"table {table} statistics", {**keys, "augment.covariance": ["per-class", "pooled"]}, table)
    yield Case("table far start", {**FAR, "train.start": list(SOLVED)}, "far")
    for case in deployments():
        yield Case(f"deployed {case.name}", {**case.keys, "run.seeds": [0]}, case.table)
    for name in COMMANDS:
        yield Case(f"command {name}", {})


def deployments() -> Iterator[Case]:
    """What sites compute one by one; how data is dealt out cannot vary within one of these."""
    yield Case("methods", {"train.method": list(TRAINED)})
    yield Case("kinds", AUGMENTATIONS)
    yield Case("kinds dirichlet", {**DIRICHLET, **AUGMENTATIONS})
    yield Case("kinds label-and-domain", {**BOTH, **AUGMENTATIONS})
    yield Case("solved", {"train.method": list(SOLVED)})
    yield Case("start", {**ENDS, "train.start": list(SOLVED)})
    yield Case("none", {**DIRICHLET, "augment.covariance": "none"})
    yield Case("guided", {"augment.guided": [1.0, 0.6], "augment.covariance": ["per-class", "pooled"]})
    yield Case("mlp", {"train.head": "mlp", "train.hidden": 8, "train.method": ["fedavg", "moon"]})
    yield Case("partial", {"train.clients_per_round": 2, "train.method": ["fedavg", "scaffold", "feddyn"]})
    yield Case("no broadcast", {"train.broadcast": False})
    yield Case("released", {"run.protocol": "released"})
    yield Case("weights", {**BOTH, "train.weights": ["samples", "original", "equal"]})
    yield Case("per sample", {"augment.per_sample": 2, "augment.steps": [1, 2], "augment.scale": "eigenvalue"})
    yield Case("bank wraps", WIDE, "wide")
    yield Case("far", {**FAR, **AUGMENTATIONS}, "far")
    yield Case("far solved", {"train.method": list(SOLVED)}, "far")
    yield Case("float16", {**AUGMENTATIONS, "train.storage": "float16"}, "float16")
    yield Case("masked", AUGMENTATIONS, "masked")
    yield Case("standardise", {**ENDS, "data.standardise": True}, "far")


def make_inputs() -> None:
    """In the current folder: four classes in three domains, ten rows of each, as several tables; a file of arms."""
    rng = np.random.default_rng(0)
    y, domain = np.tile(np.repeat(np.arange(4), 10), 3), np.repeat(np.arange(3), 40)
    names: Keys = {"class_names": ("ant", "bee", "cat", "dog"), "domain_names": ("art", "photo", "sketch")}

    def save(name: str, x: np.ndarray, **more: Any) -> None:
        more = {"text": None, **names, **more, "meta": {"encoder": "toy", "weights": "abc"}}
        ggeur.EmbeddingTable(x=x, y=y, domain=domain, **more).save(f"{name}.npz")

    def drawn(p: int) -> tuple[np.ndarray, np.ndarray]:
        text = 2 * rng.normal(size=(4, p))
        x = text[y] + rng.normal(size=(3, p))[domain] + rng.normal(size=(len(y), p))
        return x.astype(np.float32), text.astype(np.float32)

    x, text = drawn(5)
    save("small", x, text=text)
    save("far", x + np.float32(20_000), text=text + np.float32(20_000))  # thousands of times its spread
    save("float16", x.astype(np.float16), text=text)
    save("masked", x, test=(domain == 1) & (y == 0) | (np.arange(len(y)) % 3 == 0))  # and no text
    save("wide", drawn(64)[0])  # of which few draws fill the least bank
    Path("arms.toml").write_text(ARMS, encoding="utf-8")
