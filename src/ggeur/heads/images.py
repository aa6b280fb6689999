"""Networks on images, trained end to end: the benchmark's small CNN and its ResNets with a 3x3 stem.

A sample is a picture's bytes as a table has them, (S, S, 3) laid flat, 0 to 255; what normalises them is part of the
network. Features are what the last layer sees, and what MOON and FedProto act on, as in their papers. Layers start as
torch's do.

The ResNets have GroupNorm where the benchmark has BatchNorm. A batch's statistics are those of one client, so that
with BatchNorm clients train one network and average another, and the averaged statistics are no client's; GroupNorm
(Wu and He, ECCV 2018) looks at one picture at a time and is the same wherever it is computed.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import isqrt, prod
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ggeur.heads.convolution import convolve, patches
from ggeur.heads.head import Head, Params
from ggeur.heads.linear import torch_linear
from ggeur.stats.errors import GgeurError

Normalisation = Literal["imagenet", "cifar10", "cifar100"]
_COLOURS = {  # mean and deviation of red, green and blue, of values between 0 and 1
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
GROUPS, EPSILON = 32, 1e-5  # of channels, as Wu and He have them; beside the variance, as torch has it
_WIDTHS = (64, 128, 256, 512)  # of a ResNet's stages
_SMALLEST = 16  # pixels a side that the small CNN can take


def side(p: int) -> int:
    """Pixels a side of a square picture of `p` bytes.

    >>> side(3072)
    32
    """
    s = isqrt(p // 3)
    if p != 3 * s * s or s < _SMALLEST:
        raise GgeurError(
            f"A network on images takes square pictures of {_SMALLEST} pixels a side or more, "
            f"and samples of {p} numbers are none: make an image table with `ggeur embed --encoder pixels:32`.",
            code="table-not-images",
        )
    return s


def simplecnn(*, normalise: Normalisation = "imagenet", softmax: bool = False) -> Head:
    """The benchmark's small CNN: two convolutions, three hidden layers, 256 features.

    `normalise`: whose colours' mean and deviation are taken; `softmax`: probabilities in the place of logits.
    """

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        keys = jax.random.split(key, 7)
        left = ((side(p) - 4) // 2 - 4) // 2  # of the side, after two convolutions of 5 x 5 and two poolings
        sizes = (16 * left**2, 120, 84, 84, 256)
        return {
            "conv": [_conv(keys[0], 5, 3, 6), _conv(keys[1], 5, 6, 16)],
            "hidden": [_linear(k, *io) for k, io in zip(keys[2:6], pairwise(sizes), strict=True)],
            "out": _linear(keys[6], sizes[-1], n_classes),
        }

    def represent(params: Params, x: jax.Array) -> jax.Array:
        z = _normalised(x, normalise)
        for layer in params["conv"]:
            z = jax.nn.relu(_pooled(patches(z, 5) @ layer["W"].reshape(-1, len(layer["b"])) + layer["b"]))
        z = z.reshape(len(z), prod(z.shape[1:]))
        *hidden, last = params["hidden"]
        for layer in hidden:
            z = jax.nn.relu(_apply(layer, z))
        return _apply(last, z)

    def shape(params: Params) -> tuple[int, int]:
        left = isqrt(params["hidden"][0]["W"].shape[1] // 16)
        return len(params["out"]["b"]), 3 * (2 * (2 * left + 4) + 4) ** 2

    return _network(init, represent, shape, softmax)


def resnet10(*, normalise: Normalisation = "imagenet", softmax: bool = False) -> Head:
    """A ResNet of one block a stage. `normalise` and `softmax` as in `simplecnn`."""
    return _resnet((1, 1, 1, 1), normalise, softmax)


def resnet18(*, normalise: Normalisation = "imagenet", softmax: bool = False) -> Head:
    """A ResNet of two blocks a stage. `normalise` and `softmax` as in `simplecnn`."""
    return _resnet((2, 2, 2, 2), normalise, softmax)


def resnet34(*, normalise: Normalisation = "imagenet", softmax: bool = False) -> Head:
    """A ResNet of three, four, six and three blocks. `normalise` and `softmax` as in `simplecnn`."""
    return _resnet((3, 4, 6, 3), normalise, softmax)


def _resnet(blocks: Sequence[int], normalise: Normalisation, softmax: bool) -> Head:
    """He et al. (CVPR 2016) with a 3x3 stem of stride 1 and no pooling before the mean, whatever the size."""
    widths = [width for width, n in zip(_WIDTHS, blocks, strict=True) for _ in range(n)]
    strides = [1 if stage == 0 or i else 2 for stage, n in enumerate(blocks) for i in range(n)]

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        side(p)  # raises for what is no picture
        stem, out, *keys = jax.random.split(key, 2 + len(widths))
        made, inputs = [], _WIDTHS[0]
        for k, width, stride in zip(keys, widths, strides, strict=True):
            first, second, short = jax.random.split(k, 3)
            block = {"first": _conv_norm(first, 3, inputs, width), "second": _conv_norm(second, 3, width, width)}
            if stride > 1 or inputs != width:
                block["short"] = _conv_norm(short, 1, inputs, width)
            made.append(block)
            inputs = width
        return {"stem": _conv_norm(stem, 3, 3, _WIDTHS[0]), "blocks": made, "out": _linear(out, inputs, n_classes)}

    def represent(params: Params, x: jax.Array) -> jax.Array:
        z = jax.nn.relu(_convolved(params["stem"], _normalised(x, normalise)))
        for block, stride in zip(params["blocks"], strides, strict=True):
            inner = _convolved(block["second"], jax.nn.relu(_convolved(block["first"], z, stride)))
            z = jax.nn.relu(inner + (_convolved(block["short"], z, stride) if "short" in block else z))
        return z.mean(axis=(1, 2))

    def shape(params: Params) -> tuple[int, int]:
        return len(params["out"]["b"]), 3 * 32 * 32  # for one; any size will do

    return _network(init, represent, shape, softmax)


def _network(
    init: Callable[[jax.Array, int, int], Params],
    represent: Callable[[Params, jax.Array], jax.Array],
    shape: Callable[[Params], tuple[int, int]],
    softmax: bool,
) -> Head:
    """`represent` under a linear layer."""

    def logits(params: Params, x: jax.Array) -> jax.Array:
        z = _apply(params["out"], represent(params, x))
        return jax.nn.softmax(z) if softmax else z

    return Head(init, logits, represent, shape, images=True)


def _normalised(x: jax.Array, whose: Normalisation) -> jax.Array:
    """Samples as pictures (n, S, S, 3), about the mean of each colour and in units of its deviation."""
    mean, deviation = colours(whose)
    s = side(x.shape[1])
    found: jax.Array = (x.reshape(len(x), s, s, 3) - mean) / deviation
    return found


def colours(whose: Normalisation) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and deviation of red, green and blue, of values from 0 to 255.

    >>> [v.round().tolist() for v in colours("imagenet")]
    [[124.0, 116.0, 104.0], [58.0, 57.0, 57.0]]
    """
    mean, deviation = (255 * np.array(v, np.float32) for v in _COLOURS[whose])
    return mean, deviation


def _linear(key: jax.Array, inputs: int, outputs: int) -> Params:
    w, b = torch_linear(key, inputs, outputs)
    return {"W": w, "b": b}


def _apply(layer: Params, x: jax.Array) -> jax.Array:
    z: jax.Array = x @ layer["W"].T + layer["b"]
    return z


def _conv(key: jax.Array, k: int, inputs: int, outputs: int) -> Params:
    """Weights (k, k, inputs, outputs) and biases."""
    w, b = torch_linear(key, k * k * inputs, outputs)
    return {"W": w.T.reshape(k, k, inputs, outputs), "b": b}


def _conv_norm(key: jax.Array, k: int, inputs: int, outputs: int) -> Params:
    """A convolution without biases, and the scale and shift of the norm behind it."""
    return {"W": _conv(key, k, inputs, outputs)["W"], "scale": jnp.ones(outputs), "shift": jnp.zeros(outputs)}


def _convolved(layer: Params, x: jax.Array, stride: int = 1) -> jax.Array:
    """GroupNorm of a convolution that keeps the side, or divides it by `stride`."""
    z, c = convolve(x, layer["W"], stride), layer["W"].shape[3]
    by_group = (len(z), GROUPS, c // GROUPS)
    # Moments of channels, then of groups: sums over leading axes compile better than those over split ones.
    groups = z.mean(axis=(1, 2)).reshape(by_group).mean(axis=2)
    centred = z - jnp.repeat(groups, c // GROUPS, axis=1)[:, None, None]
    variance = jnp.mean(centred**2, axis=(1, 2)).reshape(by_group).mean(axis=2)
    scale = jnp.repeat(jax.lax.rsqrt(variance + EPSILON), c // GROUPS, axis=1) * layer["scale"]
    found: jax.Array = centred * scale[:, None, None] + layer["shift"]
    return found


def _pooled(x: jax.Array) -> jax.Array:
    """The largest of every 2 x 2 places; an odd last row or column is left out."""
    n, h, w, c = x.shape
    return x[:, : h // 2 * 2, : w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))
