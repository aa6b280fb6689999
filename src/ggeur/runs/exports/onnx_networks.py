"""ONNX nodes of networks on images (B, S, S, 3)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.heads.images import EPSILON, GROUPS
from ggeur.runs.exports.numbers import colours_of
from ggeur.runs.exports.onnx_nodes import Nodes
from ggeur.runs.model import Model

Arrays = dict[str, NDArray[Any]]


def network(n: Nodes, model: Model, a: Arrays, x: str) -> str:
    """Return the logits of images `x` with values 0 to 255."""
    mean, deviation = colours_of(model)
    x = n("Transpose", n("Div", n("Sub", x, mean), deviation), perm=[0, 3, 1, 2])
    features = _small(n, a, x) if model.head == "simplecnn" else _residual(n, a, x)
    return _linear(n, a, "out", features)


def _small(n: Nodes, a: Arrays, x: str) -> str:
    for at in ("conv/0", "conv/1"):
        convolved = n("Conv", x, _kernel(a, at), a[f"{at}/b"])
        x = n("MaxPool", n("Relu", convolved), kernel_shape=[2, 2], strides=[2, 2])
    x = n("Flatten", n("Transpose", x, perm=[0, 2, 3, 1]))  # as our layers have them: channels last
    for i in range(3):
        x = n("Relu", _linear(n, a, f"hidden/{i}", x))
    return _linear(n, a, "hidden/3", x)


def _residual(n: Nodes, a: Arrays, x: str) -> str:
    x = n("Relu", _convolved(n, a, "stem", x))
    for i in range(len({name.split("/")[1] for name in a if name.startswith("blocks/")})):
        at = f"blocks/{i}"
        short = f"{at}/short/W" in a  # which is where the side is halved
        inner = n("Relu", _convolved(n, a, f"{at}/first", x, 2 if short else 1))
        inner = _convolved(n, a, f"{at}/second", inner)
        x = n("Relu", n("Add", inner, _convolved(n, a, f"{at}/short", x, 2) if short else x))
    return n("Flatten", n("GlobalAveragePool", x))


def _convolved(n: Nodes, a: Arrays, at: str, x: str, stride: int = 1) -> str:
    """Return a convolution with GroupNorm, which is InstanceNorm over flattened groups of channels."""
    kernel = _kernel(a, at)
    z = n("Conv", x, kernel, pads=[kernel.shape[2] // 2] * 4, strides=[stride, stride])
    flat = n("Reshape", z, np.array([0, GROUPS, -1], np.int64))
    ones, zeros = np.ones(GROUPS, np.float32), np.zeros(GROUPS, np.float32)
    normed = n("Reshape", n("InstanceNormalization", flat, ones, zeros, epsilon=EPSILON), n("Shape", z))
    return n("Add", n("Mul", normed, a[f"{at}/scale"][:, None, None]), a[f"{at}/shift"][:, None, None])


def _kernel(a: Arrays, at: str) -> NDArray[Any]:
    return a[f"{at}/W"].transpose(3, 2, 0, 1)


def _linear(n: Nodes, a: Arrays, at: str, x: str) -> str:
    return n("Gemm", x, a[f"{at}/W"], a[f"{at}/b"], transB=1)
