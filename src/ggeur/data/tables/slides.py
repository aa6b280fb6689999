"""Read one HDF5 file per slide, a bag of embeddings each, whose mean is the slide's embedding."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ggeur.data.tables.source import SourceBatch, TableSource, reading
from ggeur.stats.errors import GgeurError

BAGS = ("feats", "features")
_HDF5 = "an HDF5 file with a dataset 'feats' or 'features'"
_TILES = 16_384  # of a bag that are read at a time
_SLIDES = 256  # of a batch


class SlideSource(TableSource):
    """HDF5 files, one sample each: the mean over the bag, and the file's name without its ending as `slide`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.path, self._paths = paths[0], paths
        self.fields = {"x": "vector", "slide": "name"}

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        """Yield batches of slides, in the order of the files."""
        for at in range(0, len(self._paths), _SLIDES):
            some = self._paths[at : at + _SLIDES]
            slides = [path.stem for path in some]
            means = [mean_of_bag(path) for path in some] if x else []
            if len({len(mean) for mean in means}) > 1:
                lengths = sorted({len(mean) for mean in means})
                raise GgeurError(
                    f"The embeddings of the slides beside {some[0]} differ in length: {lengths[0]} and {lengths[-1]}.",
                    code="samples-ragged",
                )
            yield SourceBatch(np.stack(means) if x else None, {name: slides for name in columns}, len(some))


def mean_of_bag(path: Path) -> NDArray[np.float32]:
    """Return the mean (p,) of the bag in the HDF5 file at `path`: (tiles, p), or (1, tiles, p), or already (p,)."""
    with reading(path, _HDF5):
        import h5py

        with h5py.File(path, "r") as file:
            names = [name for name in BAGS if name in file]
            if not names:
                raise ValueError(f"it holds {', '.join(list(file)[:5]) or 'nothing'}")
            bag = file[names[0]]
            if bag.ndim == 1:
                return np.asarray(bag[()], np.float32)
            if bag.dtype.kind not in "fiu" or bag.ndim not in (2, 3) or (bag.ndim == 3 and bag.shape[0] != 1):
                raise ValueError(f"its '{names[0]}' has shape {bag.shape}")
            tiles = bag.shape[-2]
            if not tiles:
                raise GgeurError(f"The bag of {path} is empty: leave the slide out.", code="table-bag-empty")
            total = np.zeros(bag.shape[-1])
            for start in range(0, tiles, _TILES):
                part = bag[..., start : start + _TILES, :]
                total += np.asarray(part, np.float64).reshape(-1, len(total)).sum(axis=0)
            return np.asarray(total / tiles, np.float32)
