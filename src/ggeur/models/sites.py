"""Sites as they are handed in: tables, folders of pictures, arrays, files of statistics; read, named, compared."""

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.data.holdout import below_share, hash_positions
from ggeur.data.image_set import ImageSet
from ggeur.data.readers import folder_name, image_folder
from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.columns import TableColumns
from ggeur.data.tables.files import TableFiles
from ggeur.data.tables.pairing import glob_or_joined, is_table, table_name
from ggeur.encoders.cache import digest_of
from ggeur.encoders.encoder import Encoder, about, check_findable, load_encoder
from ggeur.encoders.job import embed
from ggeur.federation.file_federation import check_files, site_twice
from ggeur.federation.plan import FederationPlan
from ggeur.federation.signature import Trust
from ggeur.federation.statistics_file import StatisticsFile, is_statistics_file, read_statistics_file
from ggeur.federation.stored_features import HeldSamples
from ggeur.federation.stored_statistics import StoredStatistics, number_of, statistics_of_pieces, union_of_classes
from ggeur.models.site_of_files import SiteOfFiles
from ggeur.privacy.release import large_groups
from ggeur.stats.errors import GgeurError, GgeurWarning, nearest_file
from ggeur.stats.long_jobs import phase, phased
from ggeur.stats.site_statistics import Covariance
from ggeur.stats.streaming import Piece
from ggeur.stats.types import Bool, Int
from ggeur.stats.validate import as_array, check_embeddings, check_is, check_path

GivenSite = Any  # a path, an EmbeddingTable, a StatisticsFile, or a pair (x, y)
_LARGE = 1 << 28  # bytes of an .npz, beyond which it is read in pieces
_UNNAMED = ("all", "0")  # what a table calls its only domain where nobody gave it a name
UNLABELLED = "unlabelled"  # the one class of samples without labels
_ENCODER = ("encoder", "weights", "preprocessing")

OnPictures = Callable[[str, int, int, int], None]  # site, pictures done, of how many, and how many were computed


class Site(NamedTuple):
    """A site's samples, with its own classes and the federation's names of its domains."""

    name: str
    x: NDArray[Any]
    y: Int
    class_names: tuple[str, ...]
    labels: tuple[Any, ...]  # the classes as they were given
    domain: Int
    domain_names: tuple[str, ...]
    test: Bool  # samples that are left out, and scored
    encoder: Mapping[str, Any]
    marked: bool = True  # whether its table says which samples are test samples
    keys: Callable[[], Mapping[str, Sequence[Any]]] = dict  # by which samples are held out; default: the embeddings

    @property
    def dimension(self) -> int:
        """Return the dimension p of the embeddings."""
        return int(self.x.shape[1])

    @property
    def tests(self) -> int:
        """Return how many test samples there are."""
        return int(self.test.sum())

    def pieces(self, *, test: bool) -> Iterator[Piece]:
        """Yield its training samples, or its `test` samples, all at once."""
        own = self.test == test
        if own.any():
            yield Piece(self.x[own], self.y[own], self.domain[own])

    @property
    def samples(self) -> Piece:
        """Return its training samples."""
        own = ~self.test
        return Piece(self.x[own], self.y[own], self.domain[own])

    def shared(self, min_count: int) -> "Site":
        """Without training samples of a class and domain of which it has fewer than `min_count`."""
        if not min_count:
            return self
        own = np.flatnonzero(~self.test)
        kept = own[large_groups(self.y[own], self.domain[own], min_count)]
        if not len(kept):
            raise GgeurError(
                f"min_count = {min_count} is above every group of the site '{self.name}', which then has nothing to "
                "share: leave it out, or take a smaller one.",
                code="privacy-min-count-excessive",
            )
        samples = np.sort(np.concatenate([kept, np.flatnonzero(self.test)]))
        return self._replace(x=self.x[samples], y=self.y[samples], domain=self.domain[samples], test=self.test[samples])

    def statistics(self, kind: Covariance, *, workers: int = 0) -> StoredStatistics:
        """Return the statistics of its training samples, by so many `workers` (0: one for each processor)."""
        pieces = self.pieces(test=False)
        return statistics_of_pieces(self.name, pieces, self.class_names, self.domain_names, kind, workers=workers)

    def without_labels(self) -> "Site":
        """Return the same samples as one group."""
        return self._replace(y=np.zeros_like(self.y), class_names=(UNLABELLED,), labels=(UNLABELLED,))

    def holding_out(self, share: float, salt: str) -> "Site":
        """Return the same with this `share` of its samples for testing, by a public hash, unless its table marks some.

        The hash is of a sample's group, or else its name, its image's file or its embedding.
        """
        if self.marked or not share:
            return self
        positions = hash_positions(salt, self.x, **self.keys())
        return self._replace(test=below_share(positions, self.y, share), marked=True)

    def following(self, plan: FederationPlan) -> "Site":
        """Return what it shares by this `plan`: with the plan's classes, without test samples and small groups."""
        plan.encoder.check(self.encoder, self.dimension, f"'{self.name}'")
        plan.check_classes(self.class_names, f"'{self.name}'")
        site = self
        if plan.classes:
            place = {name: i for i, name in enumerate(plan.classes)}
            codes = np.array([place[name] for name in self.class_names], np.int64)
            site = self._replace(y=codes[self.y], class_names=plan.classes, labels=plan.classes)
        return site.holding_out(plan.test_share, plan.salt).shared(plan.min_count)


@dataclass(frozen=True, eq=False)
class SentSite:
    """A site that sent a file of statistics; as `Site`, but without samples."""

    name: str
    sent: StatisticsFile

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the names of its classes."""
        return self.sent.meta.classes

    @property
    def labels(self) -> tuple[Any, ...]:
        """Return the same."""
        return self.class_names

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Return the names of its domains."""
        return self.sent.meta.domains

    @property
    def dimension(self) -> int:
        """Return the dimension p of the embeddings."""
        return self.sent.meta.encoder.dimension

    @property
    def encoder(self) -> Mapping[str, Any]:
        """Return what is known of the encoder."""
        known = self.sent.meta.encoder.model_dump()
        return {key: known[key] for key in _ENCODER if known[key]}

    @property
    def tests(self) -> int:
        """Return how many test samples there are: they stayed at the site."""
        return 0

    def pieces(self, *, test: bool) -> Iterator[Piece]:
        """Yield no samples."""
        yield from ()

    @property
    def samples(self) -> Piece:
        """Return no samples."""
        none = np.zeros(0, np.int64)
        return Piece(np.zeros((0, self.dimension)), none, none)

    def shared(self, min_count: int) -> "SentSite":
        """Return the same: small groups were left out by its plan."""
        return self

    def following(self, plan: FederationPlan) -> "SentSite":
        """Return the same: it has followed its plan."""
        return self

    def statistics(self, kind: Covariance, *, workers: int = 0) -> StoredStatistics:
        """Return the statistics, which need no `workers`."""
        return self.sent.stored.of_kind(kind)


AnySite = Site | SiteOfFiles | SentSite


def in_memory(site: SiteOfFiles) -> Site:
    """Return the samples of a site's files, with the keys by which they are held out."""
    pieces = list(site.files.pieces())
    x, y, domain, test = (np.concatenate([piece[i] for piece in pieces]) for i in range(4))
    id, group = (tuple(name for piece in pieces for name in piece[i]) for i in (4, 5))
    keys: dict[str, Sequence[Any]] = {"groups": group} if group else {"ids": id} if id else {}
    names = site.class_names
    marked = site.files.marked
    return Site(site.name, x, y, names, names, domain, site.domain_names, test, site.encoder, marked, lambda: keys)


def shared_by(site: AnySite, plan: FederationPlan | None, min_count: int) -> AnySite:
    """Return what the `site` shares by the `plan` or, without one, by `min_count`."""
    if plan is None:
        return site.shared(min_count)
    return (in_memory(site) if isinstance(site, SiteOfFiles) else site).following(plan)


def held_samples(sites: Iterable[AnySite]) -> dict[str, HeldSamples]:
    """Return the training samples of these sites by name, to be read when they are asked for."""
    here = [site for site in sites if not isinstance(site, SentSite)]
    return {site.name: HeldSamples(partial(site.pieces, test=False), site.domain_names) for site in here}


def read_sites(
    given: Sequence[GivenSite] | Mapping[str, GivenSite],
    encoder: str | Encoder | None = None,
    on_pictures: OnPictures = lambda site, done, total, computed: None,
    columns: TableColumns | None = None,
    plan: FederationPlan | None = None,
    trust: str | os.PathLike[str] | None = None,
) -> list[AnySite]:
    """The sites, by name: those of a mapping have its keys, of paths their stems, and others are numbered.

    `columns` says what the columns of tables hold. Tables that are no `.npz` stay in their files. A `plan` is checked
    before images are embedded; `shared_by` then applies it. With a folder of public keys to `trust`, all
    sites must be files that one of these signed.
    """
    named = named_sites(given)

    @cache
    def tower() -> Encoder:
        if encoder is None:
            raise GgeurError(
                "Pictures need an encoder: say what is to embed them (--encoder), or give tables (.npz).",
                code="encoder-missing",
            )
        return load_encoder(encoder) if isinstance(encoder, str) else encoder

    if trust is not None:
        keys = Trust(check_path("trust", trust))
        for name, one in named.items():
            if not isinstance(one, StatisticsFile):
                raise GgeurError(
                    f"The site '{name}' is no file of statistics, and --trust admits signed ones alone.",
                    code="statistics-unsigned",
                )
            keys.check(one)
    sites: list[AnySite] = []
    for name, one in phased("read", named.items()):
        if plan is not None and isinstance(one, StatisticsFile):
            plan.check_same(one.plan, "The federation", f"'{name}'")
        sites.append(_site(name, one, tower, partial(on_pictures, name), columns, plan))
    check_alike(sites)
    return sorted(sites, key=lambda s: s.name)


def named_sites(given: Sequence[GivenSite] | Mapping[str, GivenSite]) -> dict[str, GivenSite]:
    """Return the given sites by name; raise GgeurError where two have the same name."""
    several = check_is("sites", given, Iterable, "a list of sites, or a mapping of names to them")
    pairs = list(given.items()) if isinstance(given, Mapping) else [(None, one) for one in several]
    if not pairs:
        raise GgeurError(
            "There are no sites: name at least one table, folder of pictures or file of statistics (.stats).",
            code="sites-missing",
        )
    named: dict[str, GivenSite] = {}
    for number, (key, given_one) in enumerate(pairs):
        one = read_statistics_file(given_one) if is_statistics_file(given_one) else given_one
        name = str(key) if key is not None else _name_of(one, number, len(pairs))
        if name in named:
            if isinstance(one, StatisticsFile) and isinstance(named[name], StatisticsFile):
                raise site_twice(name)
            raise GgeurError(
                f"Two sites are called '{name}'; a site goes by its file or folder, so rename one.",
                code="site-name-repeated",
            )
        named[name] = one
    return named


def name_of_path(path: str | os.PathLike[str]) -> str:
    """Return the name of a site: its folder's name, or its table's without the ending."""
    whole = Path(path).absolute()
    return folder_name(whole if whole.is_dir() else whole.with_name(table_name(path) or whole.name))


def encoder_of_plan(plan: FederationPlan | None, sites: Iterable[GivenSite]) -> str | None:
    """Return the name of the encoder of a `plan`, None where it has none; GgeurError where images must name it."""
    name = None if plan is None else plan.encoder.encoder or None
    if name is not None and any(_is_pictures(one) for one in sites):
        check_findable(name, "The plan")
    return name


def _is_pictures(one: GivenSite) -> bool:
    return isinstance(one, str | os.PathLike) and Path(one).is_dir() and not is_table(one)


def check_has_samples(path: Any) -> None:
    """Raise GgeurError where `path` is a file of statistics."""
    if is_statistics_file(path):
        raise GgeurError(
            f"{path} holds statistics, and no samples: give the table or the folder of images that they are of.",
            code="site-data-type",
        )


def site_name(path: Path) -> str:
    """Return the name of the site at `path`, which a file of statistics says itself."""
    return read_statistics_file(path).site if is_statistics_file(path) else name_of_path(path)


def _name_of(one: GivenSite, number: int, many: int) -> str:
    if isinstance(one, StatisticsFile):
        return one.site
    return name_of_path(one) if isinstance(one, str | os.PathLike) else f"site-{number:0{len(str(many - 1))}d}"


def _site(
    name: str,
    one: GivenSite,
    tower: Callable[[], Encoder],
    on_pictures: Callable[[int, int, int], None],
    columns: TableColumns | None,
    plan: FederationPlan | None,
) -> AnySite:
    if isinstance(one, StatisticsFile):
        if name != one.site:
            raise GgeurError(
                f"The file given as the site '{name}' is of the site '{one.site}': name it so.",
                code="site-name-mismatch",
            )
        return SentSite(name, one)
    if isinstance(one, TableFiles):
        return SiteOfFiles.of(name, one, _UNNAMED)
    if isinstance(one, str | os.PathLike):
        path = Path(one)
        named = path.exists() or not path.suffix or glob_or_joined(path)
        # Under a plan even a small .npz is read as one of any size is: its ids say which samples are held out.
        if is_table(path) and named and (plan is not None or _stays(path, columns)):
            return SiteOfFiles.of(name, TableFiles(path, columns), _UNNAMED)
        if not path.exists():
            raise GgeurError(f"There is no folder or table '{path}'.{nearest_file(path)}", code="site-missing")
        if not path.is_dir():
            return _of_table(name, EmbeddingTable.load(path))
        images, encoder = image_folder(path), tower()
        if plan is not None:  # before minutes are spent
            plan.encoder.check(about(encoder), encoder.dimension, f"'{name}'")
            plan.check_classes(images.class_names, f"'{name}'")
        table = _embedded(path, images, encoder, on_pictures)
        return _of_table(name, table)._replace(keys=lambda: {"images": _image_hashes(images, table.path)})
    if isinstance(one, EmbeddingTable):
        return _of_table(name, one)
    try:
        x, labels = one
    except (TypeError, ValueError) as error:
        raise GgeurError(
            "A site is a path, an EmbeddingTable or a pair (x, y) of samples and labels.", code="site-data-type"
        ) from error
    return site_of_rows(name, x, labels)


def _stays(path: Path, columns: TableColumns | None) -> bool:
    """Return whether the table at `path` is read in pieces: always, but for a small `.npz` of ggeur."""
    small = path.suffix == ".npz" and path.is_file() and path.stat().st_size < _LARGE
    return not small or columns is not None


def site_of_rows(name: str, x: Any, labels: Any) -> Site:
    """The site `name` of samples `x` (n, p), whose classes are its `labels` (n,) in order."""
    x, labels = check_embeddings(x), as_array("labels", labels)
    if labels.shape != (len(x),) or not len(x):
        raise GgeurError(
            f"The site {name} has labels of shape {labels.shape}; its samples need ({len(x)},), one or more.",
            code="labels-shape",
        )
    check_site_labels(labels, f"The site {name}")
    known, y = np.unique(labels, return_inverse=True)
    names, none = tuple(map(str, known.tolist())), np.zeros(len(x), np.int64)
    return Site(name, x, y, names, tuple(known.tolist()), none, (name,), np.zeros(len(x), np.bool_), {}, marked=False)


def check_site_labels(labels: ArrayLike, whose: str) -> None:
    """GgeurError where a label is missing, or where numbers stand among names, so that they have no order."""
    found = np.asarray(labels, dtype=object).ravel().tolist()  # as they are: no number becomes a name
    if any(label is None or (isinstance(label, float) and math.isnan(label)) for label in found):
        raise GgeurError(f"{whose} has missing labels (None or nan): leave their samples out.", code="labels-missing")
    if len({isinstance(label, str) for label in found}) > 1:
        raise GgeurError(f"{whose} has names and numbers as labels: use one or the other.", code="labels-type-mixed")


def _of_table(name: str, table: EmbeddingTable) -> Site:
    test = np.zeros(len(table), np.bool_) if table.test is None else table.test
    if not (~test).any():
        raise GgeurError(f"The site '{name}' has no samples to learn from.", code="site-without-samples")
    domains = table.domain_names if table.n_domains > 1 or table.domain_names[0] not in _UNNAMED else (name,)
    encoder = {key: table.meta[key] for key in _ENCODER if key in table.meta}
    names = table.class_names
    if names == tuple(map(str, range(len(names)))):
        note = f"The classes of '{name}' have no names and are matched by number."
        warnings.warn(note, GgeurWarning, stacklevel=5)
    return Site(name, table.x, table.y, names, names, table.domains, domains, test, encoder, table.test is not None)


def _image_hashes(images: ImageSet, names: Sequence[str]) -> list[str]:
    """Return the SHA-256 of the image files of these `names`."""
    items = {item.where: item for item in images.items}
    return [digest_of(items[name].read()).hex() for name in names]


def _embedded(
    path: Path, images: ImageSet, tower: Encoder, on_pictures: Callable[[int, int, int], None]
) -> EmbeddingTable:
    note = f"Embedding the {len(images):,} pictures of {path} with {tower.name}, unless the cache has them."
    warnings.warn(note, GgeurWarning, stacklevel=5)
    phase("embed")
    on_pictures(0, len(images), 0)  # from here on time counts
    return embed(images, tower, on_batch=lambda done, computed: on_pictures(done, len(images), computed)).table


def check_alike(
    sites: Iterable[AnySite], encoder: Mapping[str, Any] | None = None, dimension: int | None = None
) -> None:
    """GgeurError unless samples of all sites, and of a model with this `encoder` and `dimension`, come from one map."""
    sites = list(sites)
    if files := [site.sent for site in sites if isinstance(site, SentSite)]:
        check_files(files)
    known, p, first = dict(encoder or {}), dimension, "the model"
    for site in sites:
        if p is not None and site.dimension != p:
            raise GgeurError(
                f"The samples of '{site.name}' have {site.dimension} dimensions and those of {first} {p}: use one "
                "encoder for all.",
                code="embeddings-dimension-mismatch",
            )
        keys = ("weights", "preprocessing") if "weights" in known and "weights" in site.encoder else ("encoder",)
        other = [key for key in keys if key in known and key in site.encoder and known[key] != site.encoder[key]]
        if other:
            raise GgeurError(
                f"The samples of '{site.name}' are of the encoder '{site.encoder.get('encoder')}', those of {first} of "
                f"'{known.get('encoder')}' with another {other[0]}: use one encoder for all.",
                code="encoder-mismatch",
            )
        if p is None:
            first = f"'{site.name}'"
        known, p = {**site.encoder, **known}, site.dimension


def class_names_of(each: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The classes of all sites, matched by name; numbers are not mixed with names, and one class is none to tell."""
    numbered = [all(number_of(name) is not None for name in names) for names in each]
    if any(numbered) and not all(numbered):
        raise GgeurError(
            "Some sites name their classes and others number them, so they cannot be matched: name all.",
            code="site-labels-mixed",
        )
    return union_of_classes(each)
