"""What the tests share: a small table and experiments on it, the real data beside the checkout, if it is there."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from ggeur.data.table import EmbeddingTable

SHARED = Path(__file__).resolve().parents[2] / "shared"
ABSENT = "../shared is not there"

# Three domains and four classes.
P, CLASSES, DOMAINS, PER_CELL = 5, ("ant", "bee", "cat", "dog"), ("art", "photo", "sketch"), 10

# The first example of a test may wait for a compiler. Where CI is set, Hypothesis has a profile of its own.
settings.register_profile("ggeur", deadline=None)
if not os.environ.get("CI"):
    settings.load_profile("ggeur")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not SHARED.is_dir():
        for item in items:
            if item.get_closest_marker("real"):
                item.add_marker(pytest.mark.skip(reason=ABSENT))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and weights; a test that asks for it is marked `real`."""
    if not SHARED.is_dir():
        pytest.skip(ABSENT)
    return SHARED


def make_table(domains=DOMAINS, seed=0, **changes):
    rng = np.random.default_rng(seed)
    y = np.tile(np.repeat(np.arange(len(CLASSES)), PER_CELL), len(domains))
    domain = np.repeat(np.arange(len(domains)), PER_CELL * len(CLASSES))
    shift = rng.normal(size=(len(domains), P))
    x = 2 * rng.normal(size=(len(CLASSES), P))[y] + shift[domain] + rng.normal(size=(len(y), P))
    values = dict(x=x.astype(np.float32), y=y, domain=domain, class_names=CLASSES, domain_names=domains)
    return EmbeddingTable(**(values | {"meta": {"encoder": "toy", "weights": "abc"}} | changes))


@pytest.fixture(scope="session")
def build_table():
    """The builder: build_table(domains=, seed=, **fields of EmbeddingTable)."""
    return make_table


@pytest.fixture(scope="session")
def table():
    return make_table()


@pytest.fixture(scope="session")
def table_file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "toy.npz"
    table.save(path)
    return path


@pytest.fixture(scope="session")
def tree(table_file):
    """A small experiment on the table, as a tree that tests may overlay."""

    def build(**sections):
        whole = {
            "data": {"table": str(table_file)},
            "partition": {"kind": "label-and-domain", "beta": 0.5},
            "augment": {"kind": "none", "target": 12, "per_prototype": 4},
            "train": {"rounds": 3, "local_epochs": 1, "batch": 8, "rate": 0.05},
            "run": {"seeds": [0, 1]},
        }
        for name, values in sections.items():
            merge = isinstance(values, dict) and name in whole
            whole[name] = whole[name] | values if merge else values
        return whole

    return build


@pytest.fixture(scope="session")
def chromium():
    """A real browser, for tests marked `browser`."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "there is no chromium on the PATH; name one with CHROMIUM=..."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()
