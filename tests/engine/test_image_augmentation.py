"""Views of pictures: every crop is one that can be made by hand, colours turn as the standard library turns them."""

import colorsys
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ggeur.engine import image_augmentation as module
from ggeur.engine.image_augmentation import ImageAugmentation, views_of

SIDE = 16
X = np.random.default_rng(0).integers(1, 256, (24, 3 * SIDE**2)).astype(np.float32)


@cache
def program(views):
    """As the engine has it: compiled whole."""
    return jax.jit(ImageAugmentation(SIDE, views).vary)


def varied(views, seed=0, x=X):
    return np.asarray(program(views)(jnp.asarray(x), jax.random.key(seed))).reshape(-1, SIDE, SIDE, 3)


def crops(picture):
    """All 81 of a picture with four black pixels around it, by where they begin."""
    padded = np.pad(picture, ((4, 4), (4, 4), (0, 0)))
    return {(i, j): padded[i : i + SIDE, j : j + SIDE] for i in range(9) for j in range(9)}


@pytest.mark.parametrize("views", ["crop", "crop-flip"])
def test_a_crop_is_one_of_81_and_only_some_are_mirrored(views):
    places, mirrored = set(), 0
    for picture, found in zip(X.reshape(-1, SIDE, SIDE, 3), varied(views), strict=True):
        plain = [at for at, crop in crops(picture).items() if np.array_equal(crop, found)]
        turned = [at for at, crop in crops(picture).items() if np.array_equal(crop[:, ::-1], found)]
        assert len(plain) + len(turned) == 1
        places |= set(plain or turned)
        mirrored += bool(turned)
    assert len(places) > 10, "every picture is cropped by itself"
    assert mirrored == 0 if views == "crop" else 4 < mirrored < 20


def test_none_leaves_them_and_a_key_makes_the_same_twice():
    np.testing.assert_array_equal(varied("none").reshape(X.shape), X)
    for views in ("crop-flip", "photo"):
        np.testing.assert_array_equal(varied(views), varied(views))
        assert not np.array_equal(varied(views), varied(views, seed=1))


def test_a_photograph_stays_one():
    found = varied("photo")
    assert found.min() >= -1e-3 and found.max() <= 255 + 1e-3
    grey = np.repeat(X[:, ::3], 3, axis=1)  # has no hue to turn
    assert np.ptp(varied("photo", x=grey), axis=-1).max() < 1e-2


def test_a_part_is_of_70_percent_or_more_and_a_ramp_stays_a_ramp():
    ramp = jnp.broadcast_to(jnp.arange(64.0)[None, :, None], (64, 64, 3))
    stretched = jax.jit(module._stretched_part)
    for seed in range(5):
        part = np.asarray(stretched(ramp, jax.random.key(seed)))
        inner = part[32, 8:56, 0]
        step = np.diff(inner)
        assert np.ptp(step) < 1e-3 and 0.6 < step[0] <= 1 + 1e-5  # what part of the width is left


def test_hue_turns_as_colorsys_turns_it():
    colours = np.random.default_rng(1).uniform(0, 255, (40, 3)).astype(np.float32)
    turned = jax.jit(module._turned)
    for turn in (-0.4, 0.0, 0.13, 0.4):
        found = np.asarray(turned(jnp.asarray(colours), jnp.float32(turn)))
        for colour, out in zip(colours, found, strict=True):
            h, s, v = colorsys.rgb_to_hsv(*(colour / 255))
            np.testing.assert_allclose(out / 255, colorsys.hsv_to_rgb((h + turn) % 1, s, v), atol=1e-4)


def test_views_are_the_benchmarks_by_size_and_dataset():
    assert views_of(32, "digits") == "crop" and views_of(32, "cifar10") == "crop-flip"
    assert views_of(224, "pacs") == "photo" and views_of(64, None) == "photo"
