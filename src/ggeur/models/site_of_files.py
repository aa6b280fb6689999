"""A site whose table stays in its files: its samples are read in pieces, so that they may be more than memory holds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ggeur.data.tables.files import TableFiles
from ggeur.federation.stored_statistics import StoredStatistics, statistics_of_pieces
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance
from ggeur.stats.streaming import Piece
from ggeur.stats.types import Bool


@dataclass(frozen=True, eq=False)
class SiteOfFiles:
    """A site's table in files, with the federation's names of its domains; as `Site`, but nothing is held in memory."""

    name: str
    files: TableFiles
    domain_names: tuple[str, ...]
    taken: Bool  # (domains, classes): groups whose training samples are shared

    @classmethod
    def of(cls, name: str, files: TableFiles, unnamed: tuple[str, ...]) -> "SiteOfFiles":
        """Return the site `name`; its only domain is called so too where it has none of its own but one `unnamed`."""
        if not files.counts[..., 0].any():
            raise GgeurError(f"The site '{name}' has no samples to learn from.", code="site-without-samples")
        domains = files.domain_names
        domains = domains if len(domains) > 1 or domains[0] not in unnamed else (name,)
        return cls(name, files, domains, files.counts[..., 0] > 0)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the names of the table's classes."""
        return self.files.class_names

    @property
    def labels(self) -> tuple[Any, ...]:
        """Return the classes as they were given."""
        return self.files.class_names

    @property
    def dimension(self) -> int:
        """Return the dimension p of the embeddings."""
        return self.files.dimension

    @property
    def encoder(self) -> Mapping[str, Any]:
        """Return what the table says of its encoder."""
        known = ("encoder", "weights", "preprocessing")
        return {key: self.files.meta[key] for key in known if key in self.files.meta}

    @property
    def tests(self) -> int:
        """Return how many test samples there are."""
        return int(self.files.counts[..., 1].sum())

    def shared(self, min_count: int) -> "SiteOfFiles":
        """Without training samples of a class and domain of which it has fewer than `min_count`."""
        large = self.taken & (self.files.counts[..., 0] >= max(min_count, 1))
        if not large.any():
            raise GgeurError(
                f"min_count = {min_count} is above every group of the site '{self.name}', which then has nothing to "
                "share: leave it out, or take a smaller one.",
                code="privacy-min-count-excessive",
            )
        return replace(self, taken=large)

    def statistics(self, kind: Covariance, *, workers: int = 0) -> StoredStatistics:
        """Return the statistics of its training samples, by so many `workers` (0: one for each processor)."""
        pieces = self.pieces(test=False)
        return statistics_of_pieces(self.name, pieces, self.class_names, self.domain_names, kind, workers=workers)

    def pieces(self, *, test: bool) -> Iterator[Piece]:
        """Yield its training samples, or its `test` samples, in the order of the files."""
        for piece in self.files.pieces():
            own = piece.test if test else ~piece.test & self.taken[piece.domain, piece.y]
            if own.all():
                yield Piece(piece.x, piece.y, piece.domain)
            elif own.any():
                yield Piece(piece.x[own], piece.y[own], piece.domain[own])

    @property
    def samples(self) -> Piece:
        """Return its training samples, in memory."""
        parts = list(self.pieces(test=False))
        return Piece(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
