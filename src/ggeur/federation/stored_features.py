"""The statistics of a site's features, kept with the site: so another can join or leave without asking it again.

They are of one map and, where samples weigh by group, of one set of weights. The key says of which; where the
federation asks for others, the site must answer again.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ggeur.stats.errors import GgeurError
from ggeur.stats.features import FeatureQuery
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.streaming import Piece
from ggeur.stats.triangles import from_triangles, triangle_size, triangles
from ggeur.stats.types import Float


class HeldSamples(NamedTuple):
    """A site's training samples, where they can still be asked, in pieces; with its own classes and domains."""

    pieces: Callable[[], Iterable[Piece]]
    domain_names: Sequence[str]


class StoredFeatures(NamedTuple):
    """Statistics of features as a site sent them, of its own classes."""

    key: str
    weight: Float  # (C,), in all
    sum: Float  # (C, p + D)
    second: NDArray[Any]  # (1, a triangle of p + D), in the precision in which they were sent

    @classmethod
    def of(cls, asked: FeatureQuery, held: HeldSamples, domains: Sequence[str], n_classes: int) -> "StoredFeatures":
        """Return what a site of these `domains` and so many classes answers; the weights `asked` for are its own."""
        code = np.array([domains.index(name) if name in domains else -1 for name in held.domain_names], np.int64)
        pieces = (Piece(piece.x, piece.y, code[piece.domain]) for piece in held.pieces())
        with threadpool_limits(1):  # as other statistics: the number of threads decides the last digits
            made = asked.of_pieces(pieces, n_classes)
        return cls(key_of(asked), made.count, made.sum, triangles(made.second).astype(asked.precision))

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]]) -> "StoredFeatures | None":
        """Return what the `arrays` of a site's file hold; None where there is nothing."""
        if "features_key" not in arrays:
            return None
        found = cls(str(arrays["features_key"]), *(arrays[f"features_{name}"] for name in cls._fields[1:]))
        numbers = (found.weight, found.sum, found.second)
        d = found.sum.shape[-1]
        if found.sum.shape != (len(found.weight), d) or found.second.shape != (1, triangle_size(d)):
            raise ValueError("its features do not go together")
        if not all(a.dtype.kind == "f" and np.isfinite(a).all() for a in numbers):
            raise ValueError("its features are not finite numbers")
        return found

    @property
    def arrays(self) -> dict[str, Any]:
        """Return it as arrays of a file."""
        return {f"features_{name}": np.asarray(value) for name, value in self._asdict().items()}

    def digest(self, salt: str) -> str:
        """Return a hash of `salt` and all of it, to the last bit."""
        found = hashlib.sha256(f"{salt} {self.key}".encode())
        for array in (self.weight, self.sum, self.second):
            found.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
        return found.hexdigest()

    def message(self, asked: FeatureQuery) -> SiteStatistics:
        """Return the statistics, about the center of the map that was `asked` for."""
        second = from_triangles(self.second, self.sum.shape[1]).astype(np.float64)
        return SiteStatistics(self.weight, self.sum, second, asked.map.center)


def key_of(asked: FeatureQuery) -> str:
    """Return a hash of the map, the precision and the weights of a site's groups."""
    found = hashlib.sha256(f"{asked.precision} {asked.map.landmarks.shape}".encode())
    found.update(asked.map.units.pack().tobytes() + asked.map.landmarks.tobytes())
    found.update(b"" if asked.map.kind == "kernel" else asked.map.kind.encode())
    found.update(b"" if asked.weights is None else np.ascontiguousarray(asked.weights).tobytes())
    return found.hexdigest()


def not_resent(names: list[str]) -> GgeurError:
    """Return the error that these sites would have to answer again."""
    return GgeurError(
        f"The sites {', '.join(names)} must send statistics of features again: name their tables; where only units and "
        "landmarks are others now, --keep-units does without.",
        code="features-not-resent",
    )
