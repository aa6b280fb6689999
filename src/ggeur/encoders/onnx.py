"""Any image tower that was exported to ONNX: `onnx:PATH`; needs the extra `onnx`."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.data.readers import printable
from ggeur.encoders.encoder import Encoder, Image, unit_rows
from ggeur.encoders.pictures import Preprocessing
from ggeur.stats.errors import GgeurError, how_to_install, nearest_file
from ggeur.stats.types import FloatArray


class OnnxEncoder(Encoder):
    """The first output of shape (batch, p) of a model whose one input is images (batch, 3, size, size)."""

    def __init__(self, path: Path, *, normalize: bool = False, **preprocessing: Any) -> None:
        """`preprocessing` are the fields of Preprocessing; the size is the model's own where the export fixed it."""
        if not path.is_file():
            raise GgeurError(f"There is no ONNX file {printable(path)}.{nearest_file(path)}", code="file-missing")
        self.path = path
        self._session = _session(path)
        self._input, self.output, self.dimension, self._batch, size = _signature(self._session, path)
        self._prepare = Preprocessing(**({} if size is None else {"size": size}) | preprocessing)
        if size is not None and self._prepare.size != size:
            raise GgeurError(
                f"{printable(path)} takes images of {size} x {size} pixels, not {self._prepare.size}.",
                code="encoder-size-mismatch",
            )
        self.normalize = normalize
        self.name = f"onnx:{path.name}"
        self.preprocessing = str(self._prepare) + (", embeddings of unit length" if normalize else "")
        self.weights_hash = _hash(path)

    def prepare(self, image: Image) -> FloatArray:
        return self._prepare(image)

    def forward(self, prepared: FloatArray) -> FloatArray:
        samples = len(prepared)
        step = self._batch or max(samples, 1)
        parts = []
        for start in range(0, samples, step):
            part = prepared[start : start + step]
            if self._batch and len(part) < step:  # exported for one size of batch: fill up, and drop the filling
                part = np.concatenate([part, np.zeros((step - len(part), *part.shape[1:]), np.float32)])
            parts.append(np.asarray(self._session.run([self.output], {self._input: part})[0], np.float32))
        x = np.concatenate(parts)[:samples] if parts else np.zeros((0, self.dimension), np.float32)
        return unit_rows(x) if self.normalize else x


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise GgeurError(f"ONNX encoders need an extra: {how_to_install('onnx')}.", code="extra-missing") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only: it warns about models, not about their use
    try:
        return onnxruntime.InferenceSession(str(path), options, onnxruntime.get_available_providers())
    except Exception as error:  # its own types, one per kind of damage
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise GgeurError(
            f"{printable(path)} cannot be loaded as an ONNX model: {reason}.", code="encoder-onnx-unreadable"
        ) from error


def _signature(session: Any, path: Path) -> tuple[str, str, int, int | None, int | None]:
    """Names of input and output, the dimension, and batch and image size where the export fixed them."""
    inputs, outputs = session.get_inputs(), session.get_outputs()
    shape = inputs[0].shape if len(inputs) == 1 else []
    if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3) or inputs[0].type != "tensor(float)":
        raise GgeurError(
            f"{printable(path)} is not an image tower: its one input must be float32 (batch, 3, H, W).",
            code="encoder-onnx-input",
        )
    flat = [o for o in outputs if len(o.shape) == 2]
    if not flat:
        raise GgeurError(
            f"{printable(path)} has no output of shape (batch, p); export the pooled embedding.",
            code="encoder-onnx-output",
        )
    batch, _, height, width = (n if isinstance(n, int) else None for n in shape)
    if height != width:
        raise GgeurError(
            f"{printable(path)} takes images of {height} x {width}; only square ones are supported.",
            code="encoder-onnx-not-square",
        )
    dimension = flat[0].shape[1]
    if not isinstance(dimension, int):
        side = height or 224
        trial = np.zeros((batch or 1, 3, side, side), np.float32)
        dimension = session.run([flat[0].name], {inputs[0].name: trial})[0].shape[1]
    return inputs[0].name, flat[0].name, int(dimension), batch, height


def _hash(path: Path) -> str:
    """Return a hash of the model file and of the weights that large exports keep beside it."""
    digest = hashlib.sha256()
    for part in (path, path.with_name(path.name + ".data"), path.with_name(path.name + "_data")):
        if part.is_file():
            with part.open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
