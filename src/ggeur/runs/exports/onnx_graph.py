"""Export a model as an ONNX graph from embeddings, pictures, or with an ONNX encoder prepared pixels, to labels.

The graph computes what `Model.probabilities` does, in the same steps and type: a one-shot classifier in float64.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.suggestions import how_to_install
from ggeur.data.files import write_bytes
from ggeur.encode.onnx import OnnxEncoder
from ggeur.heads import IMAGES
from ggeur.heads.cosine import SCALE
from ggeur.privacy.bounded_norm import BoundedNorm, basis_of
from ggeur.runs.exports.numbers import is_double, numbers, picture_shape
from ggeur.runs.exports.onnx_networks import network
from ggeur.runs.exports.onnx_nodes import Nodes
from ggeur.runs.model import Model

_OPSET, _IR = 17, 8  # read by all recent runtimes
_OLDEST = 13  # the oldest opset of an encoder in one graph with the head
_MOST = 2**31 - 1  # bytes of a file of this format

Arrays = dict[str, NDArray[Any]]


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
