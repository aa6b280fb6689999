"""The examples for clusters compute the statistics of all samples, with two local workers each."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import ggeur

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("ant", "bee", "cat")
pytestmark = [pytest.mark.needs("cluster", "tables"), pytest.mark.slow]


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 5)).astype(np.float32), rng.integers(3, size=400)
    for i in range(4):
        part = slice(100 * i, 100 * i + 100)
        ggeur.EmbeddingTable(x=x[part], y=y[part], class_names=NAMES).save(tmp_path / f"leeds-{i}.parquet")
    return str(tmp_path), ggeur.ClassStatistics.from_embeddings(x, y, 3)


def same(one, other):
    assert (one.count == other.count).all()
    np.testing.assert_allclose(one.sum, other.sum, atol=1e-9)
    np.testing.assert_allclose(one.second, other.second, atol=1e-9)


def test_dask(files):
    import dask

    folder, want = files
    with dask.config.set(scheduler="processes", num_workers=2):
        same(
            runpy.run_path(str(EXAMPLES / "cluster/with_dask.py"))["statistics"](f"{folder}/leeds-*.parquet", NAMES),
            want,
        )


def test_ray(files):
    import ray

    folder, want = files
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    try:
        same(runpy.run_path(str(EXAMPLES / "cluster/with_ray.py"))["statistics"](folder, NAMES), want)
    finally:
        ray.shutdown()


@pytest.mark.parametrize("name", ["dask", "ray", "spark"])
def test_an_example_is_short(name):
    assert len((EXAMPLES / f"cluster/with_{name}.py").read_text().splitlines()) <= 25
