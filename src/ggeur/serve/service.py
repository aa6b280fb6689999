"""Check a request, ask the model and return its answers, as pydantic types that the API description uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.exceptions import HTTPException

from ggeur.data.image_set import Item
from ggeur.data.readers import unlabelled
from ggeur.encoders.encoder import Encoder
from ggeur.encoders.pictures import to_rgb
from ggeur.models.model import Model
from ggeur.models.prediction import Answers, check_calibrated, default_reject
from ggeur.stats.errors import GgeurError

# Not all that Pillow knows: some of its formats are programs.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Limits:
    """Limits of a server: `megabytes` of an upload is an option, the others are fixed."""

    megabytes: float = 10.0
    pixels: int = 60_000_000  # of a decoded picture
    samples: int = 64  # embeddings in one request
    seconds: float = 20.0  # to receive an upload
    uploads: int = 16  # received or answered at once
    workers: int = 2  # pictures decoded and embedded at once
    examples: int = 6  # pictures that the page offers


class ClassProbability(BaseModel):
    """One class and its probability."""

    name: str = Field(alias="class")
    probability: Probability


class PredictionAnswer(BaseModel):
    """The likeliest class of one sample, null if its probability is too low, and the likeliest few."""

    name: str | None = Field(alias="class")
    probability: Probability
    top: list[ClassProbability]


class AnswerList(BaseModel):
    """One answer for each sample of the request."""

    answers: list[PredictionAnswer]


def example_pictures(folder: Path, limits: Limits) -> list[bytes]:
    """Return the first pictures in `folder` that the server accepts, taking one of each subfolder in turn."""
    found = sorted(unlabelled(folder), key=lambda item: item.where)
    by_folder: dict[str, list[Item]] = {}
    for item in found:
        by_folder.setdefault(str(Path(item.where).parent), []).append(item)
    turns = chain.from_iterable(zip_longest(*by_folder.values()))
    contents = (item.read() for item in turns if item is not None)
    small = (one for one in contents if isinstance(one, bytes) and len(one) <= limits.megabytes * 1e6)
    return list(islice(small, limits.examples))


class Service:
    """Answer for a `model` and its `encoder` within `limits`; answers below `reject` have no class.

    Without `reject` the model's calibration decides. `examples` are pictures that the page offers to try.
    """

    def __init__(
        self,
        model: Model,
        encoder: Encoder,
        limits: Limits,
        reject: float | None = None,
        examples: Sequence[bytes] = (),
    ) -> None:
        self.reject = default_reject(model) if reject is None else reject
        check_calibrated(model, self.reject)
        self.model, self.encoder, self.limits, self.examples = model, encoder, limits, tuple(examples)
        sample: Any = Annotated[list[float], Field(min_length=model.takes, max_length=model.takes)]
        samples: Any = Annotated[list[sample], Field(min_length=1, max_length=limits.samples)]
        config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
        self.embeddings_request: Any = create_model("Embeddings", __config__=config, embeddings=(samples, ...))

    def about(self) -> dict[str, Any]:
        """Describe the model, for the page."""
        m = self.model
        domains = {name: round(float(p), 1) for name, p in m.metrics.get("domains", {}).items()}
        return {
            "classes": list(m.class_names),
            "encoder": self.encoder.name,
            "dimension": m.takes,
            "method": str(m.algorithm.get("method", m.head)),
            "calibrated": "temperature" in m.calibration,
            "accuracy": round(float(m.metrics["avg"]), 1) if domains else None,
            "domains": domains,
            "test_samples": m.metrics.get("test_samples"),
            "reject": self.reject,
            "examples": len(self.examples),
            "megabytes": self.limits.megabytes,
            "version": version("ggeur"),
        }

    def picture(self, content: bytes, top: int, reject: float) -> dict[str, Any]:
        """Answer for one picture, given as the content of its file."""
        try:
            pixels = to_rgb(content, most=self.limits.pixels, formats=FORMATS)
            x = self.encoder.forward(self.encoder.prepare(pixels)[None])
        except GgeurError as error:
            raise HTTPException(422, f"The picture cannot be read: {error}") from error
        return self._answers(x, top, reject)

    def embeddings(self, content: bytes, top: int, reject: float) -> dict[str, Any]:
        """Answer for embeddings of the model's encoder, given as JSON {"embeddings": [[...], ...]}."""
        try:
            x = np.array(self.embeddings_request.model_validate_json(content).embeddings)
        except ValidationError as error:
            if error.errors()[0]["type"] == "json_invalid":
                raise HTTPException(400, "The request is not valid JSON") from error
            shape = f"1 to {self.limits.samples} lists of {self.model.takes} numbers each"
            raise HTTPException(422, f'The request must be {{"embeddings": [...]}}: {shape}') from error
        return self._answers(x, top, reject)

    def _answers(self, x: NDArray[Any], top: int, reject: float) -> dict[str, Any]:
        with np.errstate(all="ignore"):
            probabilities = self.model.probabilities_of(x)
        if not np.isfinite(probabilities).all():
            raise HTTPException(422, "The numbers are too large for the model")
        check_calibrated(self.model, reject)
        answers = Answers((), self.model.class_names, probabilities, reject)
        ranked = [
            [{"class": name, "probability": round(p, 6)} for name, p in best]
            for best in answers.top(min(top, len(self.model.class_names)))
        ]
        paired = zip(answers.labels, ranked, strict=True)
        return {"answers": [{**best[0], "class": label, "top": best} for label, best in paired]}
