"""The built-in digits: what is promised of them, and that a machine can read them where a person can."""

import subprocess
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from ggeur.data.digits import CLUTTER_FONTS, TYPESET_FONTS, MiniDigits, images
from ggeur.data.digits_drawing import font_masks
from refusal import refused

DOMAINS = ("handwritten", "typeset", "clutter", "texture")


def pixels(digits: MiniDigits, name: str) -> np.ndarray:
    return digits.x[digits.domain == digits.domain_names.index(name)]


def test_shapes_types_and_counts(digits):
    n = len(digits.y)
    assert digits.x.shape == (n, 32, 32, 3) and digits.x.dtype == np.uint8
    assert digits.y.shape == digits.domain.shape == (n,)
    assert digits.y.dtype == digits.domain.dtype == np.int64
    assert digits.class_names == tuple("0123456789")
    assert digits.domain_names == DOMAINS
    per_group = np.histogram2d(digits.domain, digits.y, bins=(np.arange(5), np.arange(11)))[0]
    assert per_group.sum(axis=1).min() >= 1500
    assert per_group.min() >= 150


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(digits):
    again, other = images(seed=0), images(seed=1)
    for field in ("x", "y", "domain"):
        assert np.array_equal(getattr(digits, field), getattr(again, field))
    assert np.array_equal(pixels(digits, "handwritten"), pixels(other, "handwritten"))
    for name in DOMAINS[1:]:
        assert not np.array_equal(pixels(digits, name), pixels(other, name))


def test_handwritten_digits_are_scikit_learns_in_order(digits):
    scans = load_digits()
    x = pixels(digits, "handwritten")
    assert np.array_equal(digits.y[digits.domain == 0], scans.target)
    reduced = x[..., 0].reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4))
    correlation = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(reduced, scans.images, strict=True)]
    assert min(correlation) > 0.95


def test_no_two_domains_share_a_font_and_no_image_appears_twice(digits):
    assert not set(TYPESET_FONTS) & set(CLUTTER_FONTS)
    made = digits.x[digits.domain > 0]
    assert len(np.unique(made.reshape(len(made), -1), axis=0)) == len(made)


def test_domains_differ_where_they_should(digits):
    grey = {name: np.ptp(pixels(digits, name)[:200], axis=-1).max() == 0 for name in DOMAINS}
    assert grey == {"handwritten": True, "typeset": True, "clutter": False, "texture": False}
    border = {name: pixels(digits, name)[:, [0, -1]].mean() for name in DOMAINS}
    assert border["handwritten"] < 85 and border["typeset"] > 170  # bright on dark, and dark on bright


def test_glyphs_have_the_holes_that_digits_have():
    # Counted by flood fill, which knows nothing of contours: a wrong fill rule would close them or open more.
    from scipy import ndimage

    glyphs = font_masks(("STIXGeneral", "DejaVuSans", "cmr10")).reshape(3, 10, 64, 64)
    holes = [[ndimage.label(glyph < 0.5)[1] - 1 for glyph in font] for font in glyphs]
    for of_font in holes:
        assert of_font == [1, 0, 0, 0, 1, 0, 1, 0, 2, 1]


def test_a_linear_probe_reads_the_handwritten_pixels(digits):
    mine = digits.domain == 0
    x = digits.x[mine, ..., 0].reshape(-1, 16, 2, 16, 2).mean(axis=(2, 4)).reshape(-1, 256) / 255
    y = digits.y[mine]
    train = np.random.default_rng(0).random(len(x)) < 0.7
    probe = LogisticRegression(max_iter=500).fit(x[train], y[train])
    assert probe.score(x[~train], y[~train]) >= 0.95


def test_a_missing_font_says_what_to_do():
    with refused("font-missing"):
        font_masks(("NoSuchFont",))


def test_importing_loads_nothing_heavy():
    heavy = "{'scipy', 'sklearn', 'matplotlib', 'jax'}"
    code = f"import sys, ggeur.data.digits; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
