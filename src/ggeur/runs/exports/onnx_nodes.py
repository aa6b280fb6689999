"""ONNX nodes as expressions: each call adds one and returns the name of its output."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
