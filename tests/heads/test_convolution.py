"""Convolutions as matrix products against SciPy's, and their gradients against JAX's own convolution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate

from ggeur.heads.convolution import convolve

CASES = {  # pictures, height, width, channels in and out, side of the kernel, stride
    "tiles, a picture at a time": (2, 32, 32, 3, 5, 3, 1),
    "tiles, several at a time": (16, 16, 16, 4, 3, 3, 1),
    "tiles, not square": (4, 8, 40, 3, 2, 3, 1),
    "tiles, a number that nothing divides": (7, 14, 14, 2, 3, 3, 1),
    "patches: few places": (1, 8, 8, 3, 4, 3, 1),
    "patches: an odd side": (9, 15, 16, 3, 4, 3, 1),
    "patches: a stride": (4, 32, 32, 3, 4, 3, 2),
    "patches: one place": (4, 32, 32, 3, 4, 1, 2),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    n, h, w, c, o, k, stride = request.param
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, h, w, c)), rng.normal(size=(k, k, c, o)) / k, stride


def test_places_are_those_of_scipy(case):
    x, kernel, stride = case
    edge = len(kernel) // 2
    padded = np.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    places = [[correlate(one, kernel[..., j], "valid")[..., 0] for j in range(kernel.shape[3])] for one in padded]
    expected = np.moveaxis(np.array(places), 1, -1)[:, ::stride, ::stride]
    found = jax.jit(convolve, static_argnums=2)(jnp.asarray(x, jnp.float32), jnp.asarray(kernel, jnp.float32), stride)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


def test_gradients_are_those_of_jaxs_convolution(case):
    x, kernel, stride = (jnp.asarray(a, jnp.float32) if isinstance(a, np.ndarray) else a for a in case)
    edge = len(kernel) // 2

    def plain(x, kernel):
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (stride,) * 2, [(edge, edge)] * 2, dimension_numbers=layout)

    weights = np.random.default_rng(1).normal(size=plain(x, kernel).shape).astype(np.float32)
    for found, expected in zip(
        jax.jit(jax.grad(lambda *at: (weights * jnp.sin(convolve(*at, stride))).sum(), (0, 1)))(x, kernel),
        jax.jit(jax.grad(lambda *at: (weights * jnp.sin(plain(*at))).sum(), (0, 1)))(x, kernel),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * float(jnp.abs(expected).max()) + 2e-5)
