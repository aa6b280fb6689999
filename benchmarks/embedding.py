"""Embedding: the whole job, from files to a table, against the bare encoder on batches that are ready in memory."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from benchmarks.timing import Line, best

from ggeur.data.image_set import ImageSet, Item, Part, Split
from ggeur.data.readers import image_folder
from ggeur.encoders.encoder import Encoder, load_encoder
from ggeur.encoders.job import BATCH, embed
from ggeur.encoders.pictures import Preprocessing, to_rgb

IMAGES = 2 * BATCH
SHARED = Path(__file__).resolve().parents[2] / "shared"


class RandomViT(Encoder):
    """A vision transformer of ViT-Ti/16's shape with random weights: the cost of an encoder, without a download."""

    name, dimension, preprocessing, weights_hash = "ViT-Ti/16", 192, "usual", "random"

    def __init__(self) -> None:
        import torch

        self._torch, self.prepare = torch, Preprocessing()
        layer = torch.nn.TransformerEncoderLayer(192, 3, 768, 0.0, "gelu", batch_first=True, norm_first=True)
        self._patches = torch.nn.Conv2d(3, 192, 16, 16)
        self._blocks = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval()

    def forward(self, prepared: np.ndarray) -> np.ndarray:
        with self._torch.inference_mode():
            tokens = self._patches(self._torch.from_numpy(prepared)).flatten(2).transpose(1, 2)
            return self._blocks(tokens).mean(dim=1).numpy()


def made_up(folder: Path) -> ImageSet:
    """JPEG photographs of 320 x 240, of noise that is smooth as photographs are."""
    from PIL import Image

    rng = np.random.default_rng(0)
    (folder / "class").mkdir(parents=True)
    for i in range(IMAGES):
        small = Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8))
        small.resize((320, 240), Image.Resampling.BICUBIC).save(folder / "class" / f"{i:04d}.jpg", quality=90)
    return image_folder(folder)


def photographs() -> ImageSet:
    """As many of the Office-Caltech photographs, of all domains."""
    whole = image_folder(SHARED / "data" / "images" / "office_caltech10")
    rows = np.linspace(0, len(whole) - 1, IMAGES).astype(int)
    items: list[Item] = [whole.items[i] for i in rows]
    return ImageSet.of(whole.class_names, {"all": Split(Part(items, whole.y[rows]))})


def cases(folder: Path) -> Iterator[tuple[Encoder, ImageSet]]:
    yield RandomViT(), made_up(folder / "images")
    with suppress(Exception):  # real parts are not on every machine
        yield load_encoder(f"onnx:{SHARED / 'weights' / 'tiny_vit_5m_224_in22k.onnx'}"), photographs()


def main() -> list[Line]:
    lines = []
    with tempfile.TemporaryDirectory() as place:
        for encoder, images in cases(Path(place)):
            ready = np.stack([encoder.prepare(to_rgb(item.read())) for item in images.items])
            caches = iter(range(100))

            def cold(encoder: Encoder = encoder, images: ImageSet = images, caches: Iterator[int] = caches) -> None:
                embed(images, encoder, cache=Path(place) / f"{encoder.name}-{next(caches)}")

            def bare(encoder: Encoder = encoder, ready: np.ndarray = ready) -> None:
                for start in range(0, len(ready), BATCH):
                    encoder.forward(ready[start : start + BATCH])

            bare()  # warm up
            # In turn, so that whatever else the machine does falls on both alike.
            pairs = [(best(cold, 1), best(bare, 1)) for _ in range(4)]
            ours, other = (min(times) for times in zip(*pairs, strict=True))
            work = f"{len(images)} images, {encoder.name}"
            lines.append(Line("embedding: bare encoder on ready batches", work, ours, other))
            again = best(lambda: embed(images, encoder, cache=Path(place) / f"{encoder.name}-0"))  # noqa: B023
            lines.append(Line("embedding again: the first run", work, again, ours))
    return lines
