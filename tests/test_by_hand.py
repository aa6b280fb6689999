"""A federation by hand in NumPy finds the classifiers of `ggeur.run`, and `augment` the sets that runs train on."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import ggeur
from ggeur.federation.augmentation import ggeur as ggeur_augmentation
from ggeur.federation.local_federation import LocalFederation

EXAMPLE = Path(__file__).parents[1] / "examples" / "by_hand.py"


@pytest.fixture(scope="module")
def by_hand():
    spec = importlib.util.spec_from_file_location("by_hand", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table():
    """Three domains and four classes, of unequal numbers; one class is absent from a domain."""
    rng = np.random.default_rng(3)
    y, domain = (np.concatenate(part) for part in zip(*((np.arange(n) % c, np.full(n, d)) for d, (n, c) in
        enumerate([(61, 4), (40, 4), (29, 3)])), strict=True))  # fmt: skip
    x = rng.normal(size=(4, 6))[y] + 0.5 * rng.normal(size=(3, 6))[domain] + 0.4 * rng.normal(size=(len(y), 6))
    names = {"class_names": tuple("abcd"), "domain_names": ("art", "photo", "sketch")}
    return ggeur.EmbeddingTable(x=x.astype(np.float32), y=y, domain=domain, test=rng.random(len(y)) < 0.2, **names)


def test_both_classifiers_are_those_of_a_run(by_hand, table, tmp_path):
    assert len(EXAMPLE.read_text().splitlines()) <= 90
    table.save(tmp_path / "t.npz")
    train = {"method": ["fedavg", "lda"], "rounds": by_hand.ROUNDS, "local_epochs": 1, "batch_size": by_hand.BATCH}
    tree = {
        "data": {"table": str(tmp_path / "t.npz")},
        "partition": {"kind": "domain"},
        "augment": {"target": by_hand.TARGET, "per_prototype": by_hand.PER_PROTOTYPE},
        "train": train | {"learning_rate": by_hand.RATE, "momentum": by_hand.MOMENTUM, "weight_decay": by_hand.DECAY},
        "run": {"seeds": [by_hand.SEED]},
    }
    ggeur.run(ggeur.Experiment.of(tree), out=tmp_path / "run")
    for trial, found in enumerate(by_hand.federation(table)):
        params = ggeur.load_model(tmp_path / "run", trial=trial).params
        for leaf, values in zip(("W", "b"), found, strict=True):
            centred = (np.asarray(a, np.float64) - np.mean(a, axis=0) for a in (params[leaf], values))
            np.testing.assert_allclose(*centred, rtol=0, atol=1e-5 * np.abs(values).max())


def test_augment_materialises_what_runs_train_on(table):
    """Algorithms 1 and 2 with the same streams: every client's set, equal to rounding."""
    own = [np.flatnonzero(table.domains == d) for d in range(3)]
    clients = LocalFederation.of(table.x, table.y, table.domains, 4, own)
    made = clients.prepare(ggeur_augmentation(steps=2, target=30, per_prototype=7), seed=5)
    statistics = [ggeur.ClassStatistics.from_embeddings(table.x[i], table.y[i], 4) for i in own]
    geometry, before = ggeur.Geometry.from_statistics(ggeur.ClassStatistics.merge(statistics)), np.zeros(4, np.int64)
    base = np.concatenate([table.x, made.prototypes])
    for k, i in enumerate(own):
        others = ggeur.Prototypes.from_statistics([s for j, s in enumerate(statistics) if j != k])
        x, y = ggeur.augment(
            table.x[i], table.y[i], geometry, target=30, prototypes=others, per_prototype=7, seed=5, client=k,
            drawn_before=before,
        )  # fmt: skip
        np.testing.assert_array_equal(y, made.sets[k].y)
        np.testing.assert_allclose(x, made.sets[k].materialise(base, made.bank), rtol=0, atol=2e-6)
        before += np.bincount(y, minlength=4) - np.bincount(table.y[i], minlength=4)
