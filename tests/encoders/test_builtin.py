"""The built-in encoder: what it promises to ignore, what it must tell apart, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import ndimage
from sklearn.linear_model import LogisticRegression

from ggeur.data.digits import MiniDigits
from ggeur.encoders.builtin import BuiltinEncoder, _gaussian, _resize
from refusal import refused

ENCODER = BuiltinEncoder()


@pytest.fixture(scope="module")
def embeddings(digits: MiniDigits) -> np.ndarray:
    return ENCODER.encode(digits.x)


@pytest.fixture(scope="module")
def train(digits: MiniDigits) -> np.ndarray:
    """A 70/30 split within each domain, as a mask."""
    mask = np.ones(len(digits.y), dtype=bool)
    for k in range(len(digits.domain_names)):
        samples = np.random.default_rng(k).permutation(np.flatnonzero(digits.domain == k))
        mask[samples[: round(0.3 * len(samples))]] = False
    return mask


def accuracies(head: LogisticRegression, embeddings: np.ndarray, digits: MiniDigits, test: np.ndarray) -> list[float]:
    of_domain = [test & (digits.domain == k) for k in range(len(digits.domain_names))]
    return [head.score(embeddings[samples], digits.y[samples]) for samples in of_domain]


def smooth_pictures(n: int = 6, side: int = 48) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((n, side, side))
    field = ndimage.gaussian_filter(noise, (0, 3, 3))
    return np.clip(128 + 60 * field / np.abs(field).max(), 0, 255).astype(np.uint8)


def test_shape_type_and_description(embeddings, digits):
    assert embeddings.shape == (len(digits.y), ENCODER.dimension)
    assert embeddings.dtype == np.float32 and np.isfinite(embeddings).all()
    assert ENCODER.dimension >= 256
    assert ENCODER.name == "builtin" and len(ENCODER.weights_hash) == 64
    assert "\n" not in ENCODER.preprocessing


def test_one_by_one_equals_in_batch(digits, embeddings):
    samples = np.arange(0, len(digits.y), 300)
    alone = np.concatenate([ENCODER.encode(digits.x[[i]]) for i in samples])
    np.testing.assert_allclose(alone, embeddings[samples], atol=1e-5)


def test_a_negative_has_the_same_embedding(digits, embeddings):
    samples = np.arange(0, len(digits.y), 100)
    np.testing.assert_allclose(ENCODER.encode(255 - digits.x[samples]), embeddings[samples], atol=1e-4)


def test_brightness_does_not_matter_and_contrast_hardly():
    pictures = smooth_pictures()
    same = ENCODER.encode(pictures)
    np.testing.assert_allclose(ENCODER.encode(pictures + np.uint8(50)), same, atol=1e-4)
    faint = (128 + (pictures.astype(np.float64) - 128) / 1.5).round().astype(np.uint8)
    moved = np.linalg.norm(ENCODER.encode(faint) - same, axis=1)
    apart = np.linalg.norm(same - np.roll(same, 1, axis=0), axis=1)
    assert (moved < 0.2 * apart).all()


def test_flat_pictures_are_zero():
    flat = np.stack([np.full((16, 16), v, dtype=np.uint8) for v in (0, 100, 255)])
    np.testing.assert_allclose(ENCODER.encode(flat), 0, atol=1e-4)


@pytest.mark.parametrize("quarter_turns", [0, 1])
def test_stripes_answer_in_the_channel_of_their_orientation(quarter_turns):
    stripes = np.tile(np.array([40] * 4 + [200] * 4, dtype=np.uint8), (32, 4))
    picture = np.rot90(stripes, quarter_turns)[None]
    per_orientation = ENCODER.encode(picture)[0, : 6 * 6 * 8].reshape(36, 8).sum(axis=0)
    # Upright stripes change across, which is channel 0 of 8; turned, they change downwards, channel 4.
    assert per_orientation.argmax() == 4 * quarter_turns
    assert per_orientation[4 - 4 * quarter_turns] < 0.05 * per_orientation.max()


def test_grey_equals_colour_without_hue():
    grey = smooth_pictures()
    np.testing.assert_allclose(ENCODER.encode(np.repeat(grey[..., None], 3, -1)), ENCODER.encode(grey), atol=1e-4)


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (45, 61), (96, 96), (224, 224)])
def test_sizes_may_differ_between_sites(size, digits):
    assert ENCODER.encode(np.zeros((2, *size, 3), dtype=np.uint8)).shape == (2, ENCODER.dimension)
    # The same pictures at this size land nearer to themselves than to any other of the lot.
    originals = digits.x[digits.domain == 1][:20]
    zoom = (1, size[0] / 32, size[1] / 32, 1)
    resized = np.clip(ndimage.zoom(originals.astype(np.float32), zoom, order=1, grid_mode=True, mode="nearest"), 0, 255)
    there, here = ENCODER.encode(resized.astype(np.uint8)), ENCODER.encode(originals)
    if min(size) >= 28:
        distance = np.linalg.norm(there[:, None] - here[None], axis=-1)
        assert (distance.argmin(axis=1) == np.arange(20)).all()


def test_an_empty_batch_is_legal():
    assert ENCODER.encode(np.zeros((0, 32, 32, 3), dtype=np.uint8)).shape == (0, ENCODER.dimension)


def test_smoothing_and_slope_are_scipys():
    picture = np.random.default_rng(0).random((32, 32))
    smooth, slope = _gaussian(2.0)
    oracle = ndimage.gaussian_filter(picture, 2.0, mode="nearest")
    np.testing.assert_allclose(smooth @ picture @ smooth.T, oracle, atol=1e-5)
    down = ndimage.gaussian_filter(picture, 2.0, order=(1, 0), mode="nearest")
    np.testing.assert_allclose(slope @ picture @ smooth.T, 2.0 * down, atol=1e-4)


def test_resizing_keeps_what_it_should():
    assert np.array_equal(_resize(32), np.eye(32))
    for size in (8, 50, 224):
        line = np.linspace(0, 1, size)
        middle = slice(4, -4)  # at the borders half a window is missing
        expected = ((np.arange(32) + 0.5) * size / 32 - 0.5) / (size - 1)
        np.testing.assert_allclose((_resize(size) @ line)[middle], expected[middle], atol=1e-2)


def test_a_linear_probe_reads_every_domain_and_no_domain_teaches_the_others(embeddings, digits, train):
    pooled = accuracies(
        LogisticRegression(max_iter=400).fit(embeddings[train], digits.y[train]), embeddings, digits, ~train
    )
    handwritten, typeset, clutter, texture = pooled
    assert handwritten >= 0.95 and typeset >= 0.93
    assert 0.65 <= clutter <= 0.92 and 0.65 <= texture <= 0.92
    for k in range(4):
        own = train & (digits.domain == k)
        alone = accuracies(
            LogisticRegression(max_iter=400).fit(embeddings[own], digits.y[own]), embeddings, digits, ~train
        )
        elsewhere = np.mean(np.delete(alone, k))
        assert elsewhere < alone[k] - 0.08
        assert elsewhere < np.mean(np.delete(pooled, k)) - 0.1


def test_class_shapes_have_a_sensible_scale(embeddings, digits):
    for c in range(10):
        largest = np.linalg.eigvalsh(np.cov(embeddings[digits.y == c], rowvar=False))[-1]
        assert 0.1 < largest < 10


@pytest.mark.parametrize(
    ("bad", "advice"),
    [
        (np.zeros((2, 32, 32, 3), dtype=np.float32), "image-array-type"),
        ([[0, 1], [2, 3]], "image-array-type"),
        (np.zeros((32, 32), dtype=np.uint8), "image-array-shape"),
        (np.zeros((2, 3, 32, 32), dtype=np.uint8), "image-array-shape"),
        (np.zeros((2, 32, 7, 3), dtype=np.uint8), "image-too-small: 8x8...32x7"),
    ],
)
def test_bad_input_is_one_sentence_of_advice(bad, advice):
    with refused(advice) as caught:
        ENCODER.encode(bad)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_importing_loads_nothing_heavy():
    heavy = "{'scipy', 'sklearn', 'matplotlib', 'jax'}"
    code = f"import sys, ggeur.encoders.builtin; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
