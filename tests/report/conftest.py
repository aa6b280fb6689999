"""Run folders without training: made-up accuracies on a small table, in the form that a run leaves behind."""

import json

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.checkpoint import installed_versions
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result, Trial
from ggeur.paper.paper_tables import PartEmbeddings, Table
from ggeur.paper.reproduce import prepare_table


def make_table(classes, domains, per_group=8, p=6, seed=0, **changes):
    rng = np.random.default_rng(seed)
    y = np.tile(np.repeat(np.arange(len(classes)), per_group), len(domains))
    domain = np.repeat(np.arange(len(domains)), per_group * len(classes))
    x = 3 * rng.normal(size=(len(classes), p))[y] + rng.normal(size=(len(y), p)) + domain[:, None] / 4
    values = dict(x=x.astype(np.float32), y=y, domain=domain, class_names=classes, domain_names=domains)
    return EmbeddingTable(**(values | changes))


def make_result(experiment, avg, names=("amazon", "caltech", "dslr", "webcam")):
    """`avg(number of the point, point, seed)` is a trial's AVG; domains lie around it, rounds lead up to it."""
    trials = []
    for i, (point, varied) in enumerate(zip(experiment.points, experiment.varied, strict=True)):
        for seed in experiment.seeds:
            value = avg(i, point, seed)
            if value is None:
                trial = Trial(
                    point.train.method, point.augment.kind, seed, varied, status="diverged", message="It grew."
                )
            else:
                domains = dict(zip(names, (value - 1, value + 1, value, value), strict=False))
                trial = Trial(
                    point.train.method, point.augment.kind, seed, varied, domains=domains, avg=value, std=0.7,
                    rounds=[value - 5, value - 1, value], seconds=6.0, round_seconds=2.0,
                    local_steps=[10, 20], bytes_up=2048, bytes_down=4096, rounds_to_95=2,
                )  # fmt: skip
            trials.append(trial)
    return Result(trials)


def write_run(folder, experiment, result, reading=None):
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(experiment.to_toml(), encoding="utf-8")
    (folder / "result.json").write_text(result.to_json(), encoding="utf-8")
    (folder / "versions.json").write_text(json.dumps(installed_versions()), encoding="utf-8")
    if reading is not None:
        reading.save(folder)
    return folder


def climbing(i, point, seed):
    """Later points are better, by a little more or less with each seed."""
    return 80.0 + i + 0.1 * seed


@pytest.fixture(scope="session")
def table5_run(tmp_path_factory):
    """Table 5 with some rows, as `ggeur reproduce` leaves it."""
    tmp_path = tmp_path_factory.mktemp("table5")
    table = make_table(tuple(map(str, range(10))), ("amazon", "caltech", "dslr", "webcam"))
    table.save(tmp_path / "office.npz")
    spec = Table.load("table5")
    rows = [row for row in spec.rows if row.name.startswith("FedAvg")]
    sources = {"Office-Caltech": PartEmbeddings(tmp_path / "office.npz", table)}
    experiment, reading = prepare_table(spec, sources, rows=rows, seeds=3, rounds=3)
    return write_run(tmp_path / "t5", experiment, make_result(experiment, climbing), reading)


@pytest.fixture
def paper_run(tmp_path):
    """paper_run(table, rows, protocol, without): a run of a table of the paper, some rows or all, some parts or all."""

    def build(name, rows, protocol="paper", without=()):
        spec, sources = Table.load(name), {}
        for part in [part for part in spec.parts if part.name not in without]:
            path = tmp_path / f"{name}-{part.dataset}.npz"
            table = make_table(tuple(map(str, range(part.classes))), tuple(part.domains.values()) or ("all",))
            table.save(path)
            sources[part.name] = PartEmbeddings(path, table)
        chosen = [row for row in spec.rows if not rows or row.name in rows]
        experiment, reading = prepare_table(spec, sources, rows=chosen, seeds=2, rounds=3, protocol=protocol)
        domains = tuple(spec.parts[0].domains.values()) or ("all",)
        result = make_result(experiment, climbing, domains)
        return write_run(tmp_path / f"{name}-{protocol}", experiment, result, reading)

    return build


@pytest.fixture(scope="session")
def own_run(tmp_path_factory):
    """A user's own experiment, with names that try to be markup."""
    tmp_path = tmp_path_factory.mktemp("own")
    classes = ("<b>ant</b>", "<script>alert(1)</script>", "a$b$c")
    domains = ('"><img src=x onerror=alert(2)>', "photo & film")
    make_table(classes, domains).save(tmp_path / "own.npz")
    experiment = Experiment.of(
        {
            "data": {"table": str(tmp_path / "own.npz")},
            "partition": {"kind": "label-and-domain", "beta": 0.5},
            "augment": {"target": 12, "per_prototype": 4},
            "run": {"seeds": [0, 1]},
            "arm": [
                {"name": "<i>plain</i>", "augment": {"kind": "none"}},
                {"name": "with & without", "augment": {"kind": "ggeur"}},
            ],
        }
    )
    return write_run(tmp_path / "own", experiment, make_result(experiment, climbing))


@pytest.fixture
def build_run(tmp_path):
    """build(tree, avg): a run folder of any experiment on a small table, whose path takes the place of data.table."""

    def build(tree, avg=climbing, name="built"):
        path = tmp_path / f"{name}.npz"
        make_table(("ant", "bee", "cat"), ("amazon", "caltech", "dslr", "webcam")).save(path)
        experiment = Experiment.of({"data": {"table": str(path)}} | tree)
        return write_run(tmp_path / name, experiment, make_result(experiment, avg))

    return build
