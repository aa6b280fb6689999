"""What is asked of a model over the wire, checked and answered; it knows no HTTP but its status codes."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.encode.encoder import Encoder
from ggeur.encode.pictures import to_rgb
from ggeur.runs.model import Model
from ggeur.runs.prediction import Answers
from ggeur.serve.limits import Limits

# Not all that Pillow knows: some of its formats are programs.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
SHOWN = 5  # classes of an answer, unless asked for more


class Refused(Exception):
    """A request that cannot be answered: a status and a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Service:
    """A `model` with its `encoder`, within `limits`; answers below `reject` are none."""

    def __init__(self, model: Model, encoder: Encoder, limits: Limits, reject: float = 0.0) -> None:
        self.model, self.encoder, self.limits, self.reject = model, encoder, limits, reject

    def about(self) -> dict[str, Any]:
        """What the page says of the model."""
        m = self.model
        return {
            "classes": list(m.class_names),
            "encoder": self.encoder.name,
            "dimension": m.takes,
            "method": str(m.algorithm.get("method", m.head)),
            "calibrated": "temperature" in m.calibration,
            "accuracy": None if not m.metrics.get("domains") else round(float(m.metrics["avg"]), 2),
            "reject": self.reject,
            "megabytes": self.limits.megabytes,
            "version": version("ggeur"),
        }

    def picture(self, content: bytes, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one photograph: the content of its file."""
        try:
            pixels = to_rgb(content, most=self.limits.pixels, formats=FORMATS)
            x = self.encoder.forward(self.encoder.prepare(pixels)[None])
        except GgeurError as error:
            raise Refused(422, f"The picture cannot be read: {str(error).rstrip('.')}.") from error
        return self._answers(x, asked)

    def embeddings(self, content: bytes, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answers to rows, {"embeddings": [[...], ...]}, as the encoder gives them."""
        try:
            tree = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise Refused(400, "The request is not valid JSON.") from error
        return self._answers(self._rows(tree), asked)

    def _rows(self, tree: Any) -> NDArray[np.float64]:
        given = tree.get("embeddings") if isinstance(tree, dict) and set(tree) == {"embeddings"} else None
        most, p = self.limits.rows, self.model.takes
        wanted = Refused(422, f'The request must be {{"embeddings": [...]}}: 1 to {most} lists of {p} numbers each.')
        if not isinstance(given, list) or not 1 <= len(given) <= most:
            raise wanted
        for row in given:
            if not isinstance(row, list) or len(row) != p or not all(type(v) in (int, float) for v in row):
                raise wanted
        try:
            return np.array(given, np.float64)
        except OverflowError as error:
            raise wanted from error

    def _answers(self, x: NDArray[Any], asked: Mapping[str, Any]) -> dict[str, Any]:
        top, reject = _options(asked, len(self.model.class_names), self.reject)
        with np.errstate(all="ignore"):
            sure = self.model.probabilities_of(x)
        if not np.isfinite(sure).all():
            raise Refused(422, "The numbers are too large for the model.")
        found = Answers((), self.model.class_names, sure, reject)
        return {
            "answers": [
                {
                    "class": label,
                    "probability": round(best[0][1], 6),
                    "top": [{"class": name, "probability": round(p, 6)} for name, p in best],
                }
                for label, best in zip(found.labels, found.top(top), strict=True)
            ]
        }


def _options(asked: Mapping[str, Any], classes: int, usual: float) -> tuple[int, float]:
    """How many classes to name, and the least probability of an answer."""
    top, reject = str(asked.get("top", min(SHOWN, classes))), str(asked.get("reject", usual))
    if not (top.isascii() and top.isdecimal() and len(top) < 10 and int(top) >= 1):
        raise Refused(422, "top must be a whole number of at least 1.")
    try:
        least = float(reject)
    except ValueError:
        least = -1.0
    if not 0 <= least <= 1 or not reject.isascii() or "_" in reject:
        raise Refused(422, "reject must be a number between 0 and 1.")
    return int(top), least
