"""Export a model as an ONNX graph from embeddings, pictures, or with an ONNX encoder prepared pixels, to labels.

The graph computes what `Model.probabilities` does, in the same steps and type: a one-shot classifier in float64.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.encoders.onnx import OnnxEncoder
from ggeur.heads import IMAGES
from ggeur.heads.cosine import SCALE
from ggeur.heads.images import EPSILON, GROUPS
from ggeur.models.exports.export_folder import colours_of, is_double, numbers, picture_shape
from ggeur.models.model import Model
from ggeur.privacy.bounded_norm import BoundedNorm, basis_of
from ggeur.stats.errors import GgeurError, how_to_install
from ggeur.stats.features import LINEAR
from ggeur.stats.storage import write_bytes

_AXES_ARE_INPUTS = 18  # from this opset on all reductions take axes as an input


class Nodes:
    """The nodes and constants of a graph, all of one type: float64 where `double`, else float32."""

    def __init__(self, opset: int, double: bool) -> None:
        from onnx import TensorProto

        self.opset = opset
        self.dtype = np.float64 if double else np.float32
        self.type = TensorProto.DOUBLE if double else TensorProto.FLOAT
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *given: str | NDArray[Any], out: str = "", **attributes: Any) -> str:
        """Add the node `kind` with inputs `given`, names or constants, and return its output, `out` or a number."""
        from onnx import helper

        name = out or f"ggeur/{len(self.nodes)}"
        names = [one if isinstance(one, str) else self.constant(one) for one in given]
        self.nodes.append(helper.make_node(kind, names, [name], name=f"ggeur/{kind}/{len(self.nodes)}", **attributes))
        return name

    def constant(self, array: NDArray[Any]) -> str:
        """Add a constant; floats get the graph's type."""
        from onnx import helper, numpy_helper

        name = f"ggeur/constant/{len(self.constants)}"
        if array.dtype.kind == "U":
            made = helper.make_tensor(name, 8, array.shape, [text.encode() for text in array.tolist()])
        else:
            plain = array.astype(self.dtype) if array.dtype.kind == "f" else array
            made = numpy_helper.from_array(np.ascontiguousarray(plain).reshape(plain.shape), name)
        self.constants.append(made)
        return name

    def number(self, value: float) -> NDArray[Any]:
        """Return a scalar."""
        return np.array(value, self.dtype)

    def reduced(self, kind: str, x: str, axis: int, *, keep: bool = True) -> str:
        """Add ReduceSum, ReduceMax or the like over one `axis`."""
        if kind == "ReduceSum" or self.opset >= _AXES_ARE_INPUTS:
            return self(kind, x, np.array([axis], np.int64), keepdims=int(keep))
        return self(kind, x, axes=[axis], keepdims=int(keep))

    def log_sum_exp(self, x: str, axis: int) -> str:
        """Add a stable log-sum-exp over one `axis`, which is kept."""
        most = self.reduced("ReduceMax", x, axis)
        return self("Add", most, self("Log", self.reduced("ReduceSum", self("Exp", self("Sub", x, most)), axis)))

    def rounded(self, x: str) -> str:
        """Round to float32 and back, as samples are between two steps."""
        if self.dtype == np.float32:
            return x
        return self("Cast", self("Cast", x, to=1), to=self.type)  # 1: FLOAT


Arrays = dict[str, NDArray[Any]]


def network(n: Nodes, model: Model, a: Arrays, x: str) -> str:
    """Return the logits of images `x` with values 0 to 255."""
    mean, deviation = colours_of(model)
    x = n("Transpose", n("Div", n("Sub", x, mean), deviation), perm=[0, 3, 1, 2])
    features = _small(n, a, x) if model.head == "simplecnn" else _residual(n, a, x)
    return _linear_network(n, a, "out", features)


def _small(n: Nodes, a: Arrays, x: str) -> str:
    for at in ("conv/0", "conv/1"):
        convolved = n("Conv", x, _filters(a, at), a[f"{at}/b"])
        x = n("MaxPool", n("Relu", convolved), kernel_shape=[2, 2], strides=[2, 2])
    x = n("Flatten", n("Transpose", x, perm=[0, 2, 3, 1]))  # as our layers have them: channels last
    for i in range(3):
        x = n("Relu", _linear_network(n, a, f"hidden/{i}", x))
    return _linear_network(n, a, "hidden/3", x)


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
    kernel = _filters(a, at)
    z = n("Conv", x, kernel, pads=[kernel.shape[2] // 2] * 4, strides=[stride, stride])
    flat = n("Reshape", z, np.array([0, GROUPS, -1], np.int64))
    ones, zeros = np.ones(GROUPS, np.float32), np.zeros(GROUPS, np.float32)
    normed = n("Reshape", n("InstanceNormalization", flat, ones, zeros, epsilon=EPSILON), n("Shape", z))
    return n("Add", n("Mul", normed, a[f"{at}/scale"][:, None, None]), a[f"{at}/shift"][:, None, None])


def _filters(a: Arrays, at: str) -> NDArray[Any]:
    return a[f"{at}/W"].transpose(3, 2, 0, 1)


def _linear_network(n: Nodes, a: Arrays, at: str, x: str) -> str:
    return n("Gemm", x, a[f"{at}/W"], a[f"{at}/b"], transB=1)


_OPSET, _IR = 17, 8  # read by all recent runtimes
_OLDEST = 13  # the oldest opset of an encoder in one graph with the head
_MOST = 2**31 - 1  # bytes of a file of this format


def write_onnx(model: Model, file: Path, encoder: OnnxEncoder | None = None) -> None:
    """Write the head of `model` to `file`, or `encoder` and head in one graph.

    Outputs are `label` (B,) text and `probabilities` (B, C); the input is `embeddings` (B, p), that of the encoder,
    or of a network on images `pictures`, bytes (B, S, S, 3). The file's metadata has class names, encoder,
    preprocessing and whether it is calibrated.
    """
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError as error:
        raise GgeurError(f"Writing ONNX needs an extra: {how_to_install('onnx')}.", code="extra-missing") from error
    arrays = numbers(model)
    tower = None if encoder is None else onnx.load(str(encoder.path))
    opset = _OPSET if tower is None else max(o.version for o in tower.opset_import if o.domain in ("", "ai.onnx"))
    if opset < _OLDEST:
        raise GgeurError(
            f"{encoder and encoder.path} is of the ONNX opset {opset}; convert it to {_OLDEST} or newer.",
            code="export-opset-too-old",
        )
    nodes = Nodes(opset, is_double(model, arrays))
    images = model.head in IMAGES
    given = ("pictures" if images else "embeddings") if encoder is None else encoder.output
    _answer(nodes, model, arrays, given, unit=encoder is not None and encoder.normalize)
    classes = len(model.class_names)
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING, ["batch"]),
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", classes]),
    ]
    if tower is None:
        kind, shape = (TensorProto.UINT8, picture_shape(model)) if images else (TensorProto.FLOAT, (model.takes,))
        inputs = [helper.make_tensor_value_info(given, kind, ["batch", *shape])]
        graph = helper.make_graph(nodes.nodes, "ggeur", inputs, outputs, nodes.constants)
        whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_IR)
    else:
        whole = tower
        whole.graph.node.extend(nodes.nodes)
        whole.graph.initializer.extend(nodes.constants)
        del whole.graph.output[:]
        whole.graph.output.extend(outputs)
    whole.producer_name = "ggeur"
    del whole.metadata_props[:]
    helper.set_model_props(whole, _said(model))
    if whole.ByteSize() > _MOST:
        raise GgeurError(
            "Encoder and head together are larger than an ONNX file can be; export the head alone.",
            code="export-too-large",
        )
    onnx.checker.check_model(whole)
    write_bytes(file, whole.SerializeToString())


def _answer(n: Nodes, model: Model, arrays: Arrays, given: str, *, unit: bool) -> None:
    """Add the nodes from the samples `given` to the outputs."""
    x = n("Cast", given, to=n.type)
    if unit:
        x = n.rounded(n("Div", x, n("Max", _length(n, x), n.number(1e-12))))
    if model.ball is not None:
        x = n.rounded(_ball(n, model.ball, model.takes, x))
    if model.units is not None:
        x = n.rounded(n("Div", n("Sub", x, model.units.shift), n.number(model.units.scale)))
    logits = network(n, model, arrays, x) if model.head in IMAGES else _HEADS[model.head](n, arrays, x)
    sure = n("Softmax", n("Div", logits, n.number(model.temperature)), axis=1)
    n("Cast", sure, out="probabilities", to=1)
    best = n("ArgMax", sure, axis=1, keepdims=0)
    n("Gather", np.array(model.class_names, np.str_), best, out="label", axis=0)


def _length(n: Nodes, x: str) -> str:
    return n("Sqrt", n.reduced("ReduceSum", n("Mul", x, x), 1))


def _ball(n: Nodes, ball: BoundedNorm, p: int, x: str) -> str:
    if ball.projection is not None:
        x = n("MatMul", x, basis_of(p, ball.projection))
    if ball.radius is None:
        return x
    within = n("Div", n.number(ball.radius * (1 - 1e-6)), n("Max", _length(n, x), n.number(1e-300)))
    return n("Mul", x, n("Min", within, n.number(1.0)))


def _linear(n: Nodes, a: Arrays, x: str, at: str = "") -> str:
    return n("Gemm", x, a[f"{at}W"], a[f"{at}b"], transB=1)


def _mlp(n: Nodes, a: Arrays, x: str) -> str:
    hidden = n("Relu", n("Gemm", x, a["W1"], a["b1"], transB=1))
    return n("Gemm", hidden, a["W2"], a["b2"], transB=1)


def _mixture(n: Nodes, a: Arrays, x: str, at: str = "") -> str:
    about_center = n("Sub", x, a[f"{at}center"])
    white = n("MatMul", about_center, a[f"{at}whiten"].swapaxes(1, 2))  # (S, n, p)
    inner = n("MatMul", white, a[f"{at}means"].swapaxes(1, 2))
    half = n("Div", n.reduced("ReduceSum", n("Mul", white, white), 2), n.number(2.0))
    scores = n("Add", n("Sub", inner, half), a[f"{at}offset"][:, None])
    return n("Squeeze", n.log_sum_exp(scores, 0), np.array([0], np.int64))


def _blend(n: Nodes, a: Arrays, x: str) -> str:
    z, g = _linear(n, a, x, "linear/"), n("Mul", _mixture(n, a, x, "mixture/"), a["t"])
    return n("Add", n("Sub", z, n.log_sum_exp(z, 1)), n("Sub", g, n.log_sum_exp(g, 1)))


def _kernel(n: Nodes, a: Arrays, x: str) -> str:
    z = n("Div", n("Sub", x, a["center"]), n.number(float(a["scale"])))
    landmarks, w, p = a["landmarks"].astype(np.float64), a["W"], len(a["center"])
    lengths = n("Add", n.reduced("ReduceSum", n("Mul", z, z), 1), (landmarks**2).sum(axis=1))
    far = n("Sub", lengths, n("MatMul", z, 2 * landmarks.T))
    near = n("Mul", n("Exp", n("Div", far, n.number(-p))), n.number(p**0.5))
    scores = n("Add", n("Gemm", z, LINEAR * w[:, :p], a["b"], transB=1), n("MatMul", near, w[:, p:].T))
    return n("Add", scores, n("Mul", _mixture(n, a, x, "mixture/"), a["t"])) if "t" in a else scores


def _cosine(n: Nodes, a: Arrays, x: str) -> str:
    text = a["text"].astype(np.float64)
    unit = text / np.maximum(np.linalg.norm(text, axis=1, keepdims=True), 1e-12)
    return n("Gemm", n("Div", x, n("Max", _length(n, x), n.number(1e-12))), SCALE * unit, transB=1)


def _adapter(n: Nodes, a: Arrays, x: str) -> str:
    hidden = n("Tanh", n("Gemm", x, a["W1"], a["b1"], transB=1))
    return _cosine(n, a, n("Mul", n("Softmax", n("Gemm", hidden, a["W2"], a["b2"], transB=1), axis=1), x))


_HEADS = {
    "linear": _linear,
    "mlp": _mlp,
    "mixture": _mixture,
    "blend": _blend,
    "kernel": _kernel,
    "cosine": _cosine,
    "adapter": _adapter,
}


def _said(model: Model) -> dict[str, str]:
    """Return the metadata of the file."""
    return {
        "class_names": json.dumps(list(model.class_names)),
        "encoder": str(model.encoder.get("encoder", "")),
        "weights": str(model.encoder.get("weights", "")),
        "preprocessing": str(model.encoder.get("preprocessing", "")),
        "calibrated": str("temperature" in model.calibration).lower(),
    }
