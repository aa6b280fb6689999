"""The paper's tables as experiments: complete, configured as printed, and what cannot run is kept with a reason."""

import time

import numpy as np
import pytest

from ggeur.data.datasets import DATASETS
from ggeur.data.image_table import ImageTable
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment
from ggeur.experiments.runner import run
from ggeur.paper.paper_tables import NAMES, PartEmbeddings, Table, match_tables, published_tables, select_rows
from ggeur.paper.reproduce import estimated_seconds, pair_domains, prepare_table
from ggeur.paper.reproduction import Reproduction
from refusal import refused

TABLES = {name: Table.load(name) for name in NAMES}
PUBLISHED = published_tables()


def embeddings(part, tmp_path, domains=None, **changes):
    """A table that fits the part, one row per class and domain, on disk."""
    names = domains or tuple(part.domains.values()) or ("all",)
    y = np.tile(np.arange(part.classes), len(names))
    domain = np.repeat(np.arange(len(names)), part.classes)
    x = np.random.default_rng(0).normal(size=(len(y), 3)).astype(np.float32)
    table = EmbeddingTable(x=x, y=y, domain=domain, domain_names=names, **changes)
    table.save(tmp_path / f"{part.dataset}.npz")
    return PartEmbeddings(tmp_path / f"{part.dataset}.npz", table)


def prepared(name, tmp_path, **options):
    table = TABLES[name]
    return prepare_table(table, {part.name: embeddings(part, tmp_path) for part in table.parts}, **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_and_column_of_the_paper_is_there(name, tmp_path):
    experiment, reading = prepared(name, tmp_path)
    printed = PUBLISHED[name]
    assert set(printed.rows) <= {row.name for row in TABLES[name].rows}
    assert [c.label for c in reading.columns] == list(printed.columns)
    kept = {(a.row, a.part) for a in (*reading.arms, *reading.absent)}
    assert kept == {(row.name, part.name) for row in TABLES[name].rows for part in TABLES[name].parts}
    assert len({p.data.table for p in experiment.points}) == len(TABLES[name].parts)


@pytest.mark.parametrize("name", NAMES)
def test_rates_batches_rounds_and_clients_are_the_papers(name, tmp_path):
    config = PUBLISHED["table8"]
    experiment, _ = prepared(name, tmp_path)
    for part in TABLES[name].parts:
        scenario = part.name.removesuffix("-LDS")
        points = [p for p in experiment.points if p.data.table.endswith(f"{part.dataset}.npz")]
        assert points and DATASETS[part.dataset].n_classes == part.classes == config.value(scenario, "C")
        for point in points:
            t = point.train
            assert (t.learning_rate, t.rounds, t.batch_size) == tuple(
                config.value(scenario, c) for c in ("Rate", "E", "B")
            )
            assert (t.local_epochs, t.optimiser, t.momentum, t.weight_decay) == (10, "sgd", 0.9, 1e-5)
            if point.partition.kind == "dirichlet" and name != "table11":
                assert point.partition.clients == config.value(scenario, "K")
            else:
                assert name == "table11" or len(part.domains) == config.value(scenario, "K")


def test_the_methods_have_the_papers_parameters():
    for name in ("table4", "table5", "table6", "table7"):
        for key, (value,) in PUBLISHED["table9"].rows.items():
            method, parameter = key.split(".")
            assert TABLES[name].method[method][parameter] == value


def test_targets_follow_the_papers_algorithms(tmp_path):
    (single, *_), _ = prepared("table3", tmp_path)[0].points, None
    assert (single.augment.target, single.augment.steps) == (2000, 1)
    multi = next(
        p for p in prepared("table7", tmp_path)[0].points if p.augment.kind == "ggeur" and p.augment.steps == 2
    )
    assert (multi.augment.target, multi.augment.per_prototype, multi.augment.scale) == (500, 500, "eigenvalue")


def test_what_cannot_run_says_why(tmp_path):
    _, reading = prepared("table1", tmp_path)
    why = {a.row: a.why for a in reading.absent}
    assert "A text tower is needed" in why["FedTPG"] and "class names" in why["FedCLIP"]
    assert "class names" in why["Zero-Shot CLIP"]
    _, digits = prepared("table4", tmp_path)
    assert {a.row for a in digits.absent} == {r.name for r in TABLES["table4"].rows if r.images}
    assert all("runs only when named" in a.why for a in digits.absent) and len(digits.absent) == 7


def test_rows_on_images_run_when_they_are_named_and_say_what_differs(tmp_path):
    table = TABLES["table5"]
    part, rows = table.parts[0], select_rows(table, ["*(images)*"])
    pictures = np.zeros((80, 32, 32, 3), np.uint8)
    names = tuple(part.domains.values())
    made = ImageTable(x=pictures, y=np.arange(80) % 10, domain=np.arange(80) // 20, domain_names=names)
    made.save(tmp_path / "images.npz")
    found = match_tables(table, [tmp_path / "images.npz"])
    experiment, reading = prepare_table(table, {}, rows=rows, seeds=1, rounds=2, pictures=found)
    assert len(experiment.points) == 7 and not reading.absent
    point = experiment.points[0]
    assert (point.train.head, point.augment.kind, point.train.learning_rate, point.train.batch_size) == (
        "resnet34",
        "none",
        1e-3,
        16,
    )
    assert any("32 x 32 pixels; the benchmark's are 224" in note for note in reading.notes)
    small, told = prepare_table(table, {}, rows=rows, seeds=1, pictures=found, network="simplecnn")
    assert {p.train.head for p in small.points} == {"simplecnn"}
    assert any("simplecnn, in the place of the benchmark's resnet34" in note for note in told.notes)
    with refused("paper-rows-unavailable: no image table of Office-Caltech was given"):
        prepare_table(table, {}, rows=rows, pictures={})


def test_rows_on_images_are_not_tuned_and_say_so(tmp_path):
    table = TABLES["table4"]
    with refused("paper-rows-unavailable: table4...protocol tuned does not cover rows on images"):
        prepare_table(table, {}, rows=select_rows(table, ["FedAvg (images)"]), protocol="tuned")


@pytest.mark.slow  # as it goes by the clock
def test_the_time_of_rows_on_images_is_told_within_a_small_factor(tmp_path):
    rng, ends = np.random.default_rng(0), []
    made = ImageTable(x=rng.integers(0, 256, (160, 32, 32, 3)).astype(np.uint8), y=np.arange(160) % 10)
    made.save(tmp_path / "images.npz")
    train = {"head": "simplecnn", "rounds": 16, "local_epochs": 1, "batch_size": 16}
    tree = {"data": {"table": str(tmp_path / "images.npz")}, "partition": {"kind": "dirichlet", "clients": 2}}
    one = Experiment.of(tree | {"augment": {"kind": "none"}, "train": train})
    run(one, on_round=lambda event: ends.append(time.perf_counter()))
    measured = (ends[-1] - ends[0]) * 16 / 15  # the first round is compiled
    assert measured / 4 < estimated_seconds(one) < 4 * measured


def test_zero_shot_runs_where_the_table_has_text(tmp_path):
    table = TABLES["table1"]
    part = table.parts[0]
    text = {name: np.ones((part.classes, 3), np.float32) for name in ("single", "fedclip")}
    experiment, reading = prepare_table(table, {part.name: embeddings(part, tmp_path, text=text)})
    assert {"Zero-Shot CLIP", "FedCLIP", "FedCLIP, 10 local epochs"} <= {a.row for a in reading.arms}
    assert any("its own Adam at 5e-5" in note for note in reading.notes), "what the paper does not say is printed"
    epochs = [p.train.local_epochs for p in experiment.points if p.train.method == "fedclip"]
    assert sorted(set(epochs)) == [1, 10]
    assert {a.why for a in reading.absent if a.part == "Tiny-ImageNet"} == {"no embeddings of Tiny-ImageNet were given"}


def test_fedtpg_runs_with_a_clip_folder_that_is_set(tmp_path):
    table = TABLES["table1"]
    sources = {table.parts[0].name: embeddings(table.parts[0], tmp_path)}
    rows = select_rows(table, ["FedTPG", "FedAvg"])
    _, reading = prepare_table(table, sources, rows=rows, changes=[f"method.fedtpg.clip={tmp_path}"])
    assert {a.row for a in reading.arms} == {"FedTPG", "FedAvg"}
    _, without = prepare_table(table, sources, rows=rows)
    assert {a.row for a in without.arms} == {"FedAvg"} and "A text tower is needed" in without.absent[0].why


def test_protocols_differ_as_they_should(tmp_path):
    rows = select_rows(TABLES["table4"], ["FedAvg + GGEUR"])
    paper, released, sound = (
        prepared("table4", tmp_path, rows=rows, protocol=p)[0].points[0] for p in ("paper", "released", "sound")
    )
    assert paper.augment.scale == "eigenvalue" and sound.augment.scale == "sqrt-eigenvalue"
    assert released.augment.scale == "sqrt-eigenvalue" and released.augment.empty_group == "first"
    assert (released.train.optimiser, released.train.broadcast, released.train.softmax) == ("adam", False, True)
    assert (released.train.batch_size, released.train.learning_rate) == (64, 0.001) and paper.train.batch_size == 16
    cifar = prepared("table2", tmp_path, protocol="released")[0].points[0]
    assert cifar.augment.target == 5000 and cifar.train.learning_rate == 0.001


@pytest.mark.parametrize("name", NAMES)
def test_released_shapes_come_from_the_largest_clients_only_where_there_is_one_domain(name, tmp_path):
    points = prepared(name, tmp_path, protocol="released")[0].points
    assert {p.augment.guided for p in points} == {0.8 if p.partition.kind == "dirichlet" else 1.0 for p in points}


def test_released_controls_train_as_ggeur_does(tmp_path):
    for name in ("table4", "table7"):
        points = prepared(name, tmp_path, protocol="released")[0].points
        trained = {p.augment.kind: (p.train.batch_size, p.train.learning_rate, p.train.local_epochs) for p in points}
        assert trained["resample"] == trained["prototypes"] == trained["ggeur"] != trained["none"]


def test_released_runs_fedavg_alone(tmp_path):
    _, reading = prepared("table7", tmp_path, protocol="released")
    assert {a.row.split(",")[0].split(" +")[0] for a in reading.arms} == {"FedAvg"}
    of_the_paper = [a for a in reading.absent if not a.row.endswith("one-shot")]
    assert {a.why for a in of_the_paper} == {"its released script does not do what the method does"}
    _, peers = prepared("table1", tmp_path, protocol="released")
    assert {a.why for a in peers.absent if a.row.startswith(("FedMix", "FEDGEN", "FedFA"))} == {
        "no script of it was released"
    }


def test_released_times_fedavg_alone(tmp_path):
    experiment, reading = prepared("table10", tmp_path, protocol="released")
    assert {p.train.method for p in experiment.points} == {"fedavg"}
    assert any(note.startswith("Only FedAvg was run") for note in reading.notes)


def test_domains_are_paired_by_name_and_strangers_are_noted(tmp_path):
    assert pair_domains({"A": "Art", "R": "Real World"}, ["real_world", "art"])[0] == {"A": "art", "R": "real_world"}
    part = TABLES["table4"].parts[0]
    source = embeddings(part, tmp_path, domains=("mnist", "usps", "svhn", "mnist_m"))
    _, reading = prepare_table(TABLES["table4"], {part.name: source})
    assert [(c.value, c.replaced) for c in reading.columns if c.kind == "domain"][3] == ("mnist_m", True)
    assert any("mnist_m stands in for SYN" in note for note in reading.notes)


def test_the_share_of_digits_is_not_taken_twice(tmp_path):
    part = TABLES["table4"].parts[0]
    for meta, share in (({}, 1.0), ({"share": 0.1}, 0.1)):
        experiment, _ = prepare_table(TABLES["table4"], {part.name: embeddings(part, tmp_path, meta=meta)})
        assert {p.partition.share for p in experiment.points} == {share}


def test_clip_is_not_noted_and_others_are(tmp_path):
    part = TABLES["table3"].parts[0]
    clip, other = (
        prepare_table(TABLES["table3"], {part.name: embeddings(part, tmp_path, meta={"encoder": encoder})})[1].notes
        for encoder in ("openai/clip-vit-base-patch16", "onnx:tiny")
    )
    assert clip == [] and "onnx:tiny" in other[0]


def test_files_find_their_part(tmp_path):
    table = TABLES["table2"]
    paths = [embeddings(part, tmp_path).path for part in table.parts]
    found = match_tables(table, paths[::-1])
    assert {name: source.path for name, source in found.items()} == {"CIFAR-10": paths[0], "CIFAR-100": paths[1]}
    with refused("paper-table-data-mismatch: 200 classes, one domain...table2...CIFAR-10"):
        match_tables(table, [embeddings(TABLES["table3"].parts[0], tmp_path).path])
    with refused("paper-table-data-mismatch"):
        match_tables(table, [paths[0], paths[0]])
    office = embeddings(TABLES["table5"].parts[0], tmp_path).path
    with refused("paper-table-data-mismatch: 10 classes, domains amazon,...table4...Digits (10 classes, domains mnist"):
        match_tables(TABLES["table4"], [office])


def test_rows_by_name_or_pattern():
    table = TABLES["table4"]
    assert [r.name for r in select_rows(table, ["moon*"])][1:] == ["MOON", "MOON + GGEUR (step 1)", "MOON + GGEUR"]
    assert [r.name for r in select_rows(table, ["FedAvg", "FedMix"])] == ["FedMix", "FedAvg"]
    assert select_rows(table, []) == table.rows
    with refused("paper-row-unknown: nobody...FedMix"):
        select_rows(table, ["nobody"])


def test_mistakes(tmp_path):
    with refused("paper-table-unknown: table8...table1"):
        Table.load("table8")
    with refused("paper-protocol-unknown: mine"):
        prepared("table3", tmp_path, protocol="mine")
    with refused("paper-rows-unavailable: table3...no embeddings of Tiny-ImageNet"):
        prepare_table(TABLES["table3"], {})


def test_fewer_rounds_are_noted_and_the_record_survives_the_disk(tmp_path):
    _, reading = prepared("table5", tmp_path, rounds=2, seeds=2)
    assert any("2 rounds" in note and "50" in note for note in reading.notes)
    assert Reproduction.load(tmp_path) is None
    reading.save(tmp_path)
    assert Reproduction.load(tmp_path) == reading
