"""`expected`: GGEUR's sets without its draws, and what of its shapes is handed on."""

import numpy as np
import pytest

from ggeur.federation.augmentation import build
from ggeur.federation.local_federation import LocalFederation
from ggeur.stats.geometry import Geometry
from ggeur.stats.statistics import ClassStatistics

C = 4
PARTS = [np.arange(0, 15), np.array([40, 41, 50]), np.zeros(0, np.int64)]  # classes 0, 1 of art; 0, 1 of photo; nothing
EVERY = [np.arange(0, 40), np.arange(40, 80), np.arange(80, 120)]


def made(table, kind="expected", parts=PARTS, seed=0, own=None, **values):
    clients = LocalFederation.of(table.x, table.y, table.domains, table.n_classes, parts)
    keys = {"steps": 2, "target": 12, "per_prototype": 4} | values
    return clients.prepare(build(kind, keys, own or {}), seed)


def test_each_class_weighs_as_much_as_with_draws(table):
    """Art has 10 samples of class 0 and 5 of class 1; photo has 2 and 1; each may draw around the other's two means."""
    found = made(table)
    art, photo, nobody = found.sets
    for s, own, held in ((art, [10, 5], 15), (photo, [2, 1], 3)):
        np.testing.assert_array_equal(np.bincount(s.y, minlength=C), [12 + 4, 12 + 4, 0, 0])
        np.testing.assert_array_equal(np.bincount(s.y[s.noise == 0], minlength=C), [*own, 0, 0])
        around_means = s.sample >= len(table.x)
        np.testing.assert_array_equal(np.bincount(s.y[around_means], minlength=C), [4, 4, 0, 0])
        assert s.originals == held and (s.noise[around_means] == 1).all()
        assert len(np.unique(s.sample[around_means])) == 2
    assert len(nobody.y) == 0 and found.bank is None
    repeats = np.bincount(art.sample)[10:15]  # class 1: five samples, seven draws around them in turn
    np.testing.assert_array_equal(repeats, [3, 3, 2, 2, 2])
    single = made(table, parts=EVERY, steps=1, target=30)
    np.testing.assert_array_equal([np.bincount(s.y) for s in single.sets], np.full((3, C), 30))


@pytest.mark.parametrize("values", [{}, {"steps": 1}, {"per_sample": 3}, {"empty_group": "first"}])
def test_the_sets_are_ggeurs_but_for_the_noise(table, values):
    for a, b in zip(made(table, **values).sets, made(table, "ggeur", **values).sets, strict=True):
        np.testing.assert_array_equal(a.sample, b.sample)
        np.testing.assert_array_equal(a.y, b.y)
        np.testing.assert_array_equal(a.noise, b.noise != 0)
        assert a.originals == b.originals


def test_seeds_differ_in_nothing(table):
    a, b = made(table, seed=0), made(table, seed=1)
    for one, other in zip([*a.sets, a.prototypes, a.shapes], [*b.sets, b.prototypes, b.shapes], strict=True):
        for x, y in zip(one, other, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("scale", ["sqrt-eigenvalue", "eigenvalue"])
@pytest.mark.parametrize("rank", [2, 5])
def test_shapes_are_those_of_ggeurs_noise(table, scale, rank):
    shapes = made(table, parts=EVERY, scale=scale, own={"rank": rank}).shapes
    F = Geometry.from_statistics(ClassStatistics.from_embeddings(table.x, table.y, C)).factors(scale)
    T = np.einsum("cra,crb->cab", shapes.U, shapes.U) + shapes.s[:, None, None] * np.eye(5)
    np.testing.assert_allclose(np.trace(T, axis1=1, axis2=2), np.trace(F @ F, axis1=1, axis2=2), rtol=1e-5)
    assert shapes.U.shape == (C, rank, 5)
    if rank == 5:
        np.testing.assert_allclose(T, F @ F, rtol=1e-4, atol=1e-5)


def test_a_class_that_nobody_holds_has_a_shape_of_zeros_and_pooled_ones_are_one(table):
    few = made(table).shapes
    assert few.U.shape[0] == C and not few.U[2:].any() and few.U[:2].any(axis=(1, 2)).all()
    assert made(table, covariance="pooled").shapes.U.shape[0] == 1
