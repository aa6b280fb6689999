"""Trees taken apart without JAX are as JAX takes them apart."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import tree_flatten_with_path

from ggeur.heads.parameter_tree import by_path, mapped


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


A, B = np.arange(3.0), np.ones((2, 2), np.float32)
TREES = [
    A,
    {"b": A, "W": B},
    {"deep": [{"b/c": A}, (B, None, 2.0)], "a~": {}},
    {"pair": Pair(A, B), "z": [np.float64(3)]},
    (jnp.zeros(2), {"k": [A]}),
    {2: A, 1: B},
]


@pytest.mark.parametrize("tree", TREES)
def test_leaves_come_in_jax_s_order_and_each_has_a_path_of_its_own(tree):
    found, expected = by_path(tree), [leaf for _, leaf in tree_flatten_with_path(tree)[0]]
    assert len(found) == len(expected) and all(a is b for a, b in zip(found.values(), expected, strict=True))


def test_paths_are_escaped_and_name_fields():
    assert list(by_path(TREES[2])) == ["deep/0/b~1c", "deep/1/0", "deep/1/2"]
    assert list(by_path(TREES[3])) == ["pair/first", "pair/second", "z/0"]


@pytest.mark.parametrize("tree", TREES)
def test_a_function_is_mapped_as_jax_maps_it(tree):
    found, expected = mapped(lambda a: 2 * np.asarray(a), tree), jax.tree.map(lambda a: 2 * np.asarray(a), tree)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)
