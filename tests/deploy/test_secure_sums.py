"""Secure sums by the real functions of sites and server, in one process: what comes out, and what the server sees."""

import json

import numpy as np
import pytest

from ggeur.core.errors import GgeurError
from ggeur.deploy.machines.certificates import make_node_key
from ggeur.deploy.wire.records import from_records
from ggeur.experiment.runner import run
from ggeur.runs.model import Model

MIXED = {"kind": "dirichlet", "clients": 4, "beta": 0.5}
SECURE = {"secure_sum": True, "radius": 20.0}
FEW = {"auto": {"candidates": [["lda", "ridge"]], "folds": 3}}


def tree(method, privacy=None, **more):
    return {"train": {"method": method}, "partition": MIXED, "privacy": SECURE | (privacy or {})} | more


@pytest.fixture(scope="session")
def node_keys(tmp_path_factory):
    """Keys of four nodes, and the roster of them."""
    folder = tmp_path_factory.mktemp("keys")
    for k in range(4):
        make_node_key(folder / f"node-{k}")
    (folder / "roster").write_text("".join(f"{k} {(folder / f'node-{k}.pub').read_text()}" for k in range(4)))
    return folder


@pytest.fixture
def secure(deploy, node_keys):
    """The builder: as `deploy`, with sites that know each other's public keys."""

    def build(*args, **kwargs):
        deployment = deploy(*args, **kwargs)
        for k, site in enumerate(deployment.sites):
            site.config |= {"roster": str(node_keys / "roster"), "key": str(node_keys / f"node-{k}")}
        return deployment

    return build


@pytest.mark.parametrize("method", ["lda", "limit", "gated"])
def test_a_solved_head_is_the_simulations(secure, both, method):
    both(secure(tree(method)))
