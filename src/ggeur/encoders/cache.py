"""Embeddings on disk, found again by the encoder and the image's bytes: an image is embedded once.

Every run appends the batches it computes to a journal of its own, so that runs side by side need no lock and a run
that is killed loses only what it had not written. A record is a digest, an embedding and a checksum; a torn or
damaged one is as if it had never been written.
"""

import hashlib
import os
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.data.image_set import Picture
from ggeur.data.readers import printable
from ggeur.encoders.encoder import Encoder
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import cache_folder, cannot
from ggeur.stats.types import FloatArray


def digest_of(picture: Picture) -> bytes:
    """Return the digest an image is known by: of its file's bytes, or its pixels with their shape."""
    if isinstance(picture, bytes):
        return hashlib.sha256(picture).digest()
    return hashlib.sha256(f"{picture.shape}".encode() + np.ascontiguousarray(picture).tobytes()).digest()


class EmbeddingCache:
    """The embeddings of one encoder (its weights and preprocessing) by image digest."""

    def __init__(self, encoder: Encoder, folder: Path | None = None) -> None:
        key = hashlib.sha256(f"{encoder.weights_hash}\n{encoder.preprocessing}".encode()).hexdigest()[:32]
        self.folder = (folder or cache_folder() / "embeddings") / key
        self._record = np.dtype([("digest", "u1", 32), ("x", "<f4", encoder.dimension), ("sum", "<u4")])
        self._known: dict[bytes, FloatArray] = {}
        self._journal = self.folder / f"{uuid.uuid4().hex}.journal"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self.folder.glob("*.journal")):
                self._read(path)
        except OSError as error:
            raise GgeurError(
                f"Cannot use the cache {printable(self.folder)}: {error.strerror or error}; "
                "set $GGEUR_CACHE to a folder that can be written.",
                code="cache-unusable",
            ) from error

    def _read(self, path: Path) -> None:
        whole = path.stat().st_size // self._record.itemsize
        if whole:
            # Mapped, not read: the embeddings of other datasets by the same encoder cost no memory.
            records = np.memmap(path, self._record, "r", shape=(whole,))
            sums = _checksums(records)
            for record, good in zip(records, sums == records["sum"], strict=True):
                if good:
                    self._known[record["digest"].tobytes()] = record["x"]

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._known

    def __getitem__(self, digest: bytes) -> FloatArray:
        return self._known[digest]

    def put(self, digests: Sequence[bytes], x: FloatArray) -> None:
        """Keep a finished batch; when this returns, killing the process no longer loses it."""
        records = np.zeros(len(digests), self._record)
        records["digest"] = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)
        records["x"] = x
        records["sum"] = _checksums(records)
        with cannot(f"write the cache {printable(self._journal)}"), self._journal.open("ab") as file:
            file.write(records.tobytes())
            file.flush()
            os.fsync(file.fileno())
        self._known.update(zip(digests, records["x"], strict=True))


def _checksums(records: NDArray[Any]) -> NDArray[np.uint32]:
    """All but the last field of every record."""
    samples = np.asarray(records).view(np.uint8).reshape(len(records), -1)[:, :-4]
    return np.array([zlib.crc32(sample.tobytes()) for sample in samples], np.uint32)
